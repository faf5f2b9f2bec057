"""What a process keeps of the memory that a page took, for the next page.

glibc gives the top of its heap back to the system as soon as a page is read, and is given it again for the next one: in
a process that has lived for a while, that took longer than the parser (50 page faults, 0.15 ms for a page of 25 KB).
Other allocators are left as they are.
"""

from __future__ import annotations

import ctypes
import sys

KEPT_BYTES = 16 << 20
"""Free memory at the top of the heap up to which it is kept."""
IN_HEAP_BYTES = 4 << 20
"""What is larger is mapped by itself, and given back at once."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Of glibc's `mallopt`."""


def keep_heap() -> None:
    """For a process that reads pages, or forks those that do."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "gnu_get_libc_version"):
        libc.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(_MMAP_THRESHOLD, IN_HEAP_BYTES)
