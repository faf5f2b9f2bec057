"""How much a server can lose, and for how long it is in doubt."""

from __future__ import annotations

from datetime import timedelta

LATELY = timedelta(minutes=1)
"""A server that is started anew, or promoted, has lost less than this, or the number tells."""
DOUBT = timedelta(minutes=5)
"""So long workers look every request up that a server gives which was started anew: it may be stored. Such requests are
at the front of their queues, so most come at once; those of hosts that rest come later."""
