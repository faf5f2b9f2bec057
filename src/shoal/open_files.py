"""Room for the files and sockets that a process will open, made before anybody waits for one.

Linux keeps a process' open files in a table that is doubled when it is full. While threads share it, whoever opens the
65th file, or the 129th, waits until none of them can still be reading the old one, which takes some ten milliseconds:
in an event loop, all fetches wait for the one that makes a socket.
"""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl
from pathlib import Path


def make_room(files: int) -> None:
    """For so many at once, or as many as this process may have; best called before it has threads."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = files - 1 if most == resource.RLIM_INFINITY else min(files, most) - 1
    with suppress(OSError), Path(os.devnull).open("rb") as one:  # else all that it may open is open
        os.close(fcntl(one.fileno(), F_DUPFD_CLOEXEC, last))
