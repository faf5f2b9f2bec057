"""What a process keeps of the memory that a page took, for the next page.

glibc gives the top of its heap back to the system as soon as a page is read, and is given it again for the next one.
How often depends on what lies there: in a crawl it was a few page faults a page, but pages that were read one after the
other took 50, and with them longer than the parser (0.15 ms for 25 KB). Other allocators are left as they are.
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
