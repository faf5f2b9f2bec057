"""The library for object stores, as a whole; it is imported here and nowhere else, by whoever is about to use it.

It lists its parts before they are made: of two threads that import it at once, one finds a part with nothing in it. For
a module of ours, Python itself makes the second thread wait.
"""

from __future__ import annotations

import obstore
from obstore import exceptions
from obstore.store import from_url

__all__ = ["exceptions", "from_url", "obstore"]
