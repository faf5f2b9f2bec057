"""Guards for tests, whose sites are all on this machine."""

from __future__ import annotations

from shoal.core.egress import Egress
from shoal.fetch.guard import Guard

HERE = "127.0.0.0/8,::1"


def guard_of_loopback() -> Guard:
    """One that lets everything on this machine be asked, too."""
    return Guard(Egress.read(HERE))
