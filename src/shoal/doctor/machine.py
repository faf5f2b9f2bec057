"""This machine, as far as the checks ask: its memory, whether it is a container, and what a folder lies on."""

from __future__ import annotations

import os
from pathlib import Path

NETWORK_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "fuse.sshfs", "fuse.s3fs")
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_megabytes() -> int:
    """Of this machine, or what its container is given."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [limit for path in _CGROUPS if (limit := _number(path))]
    return min([whole, *limits]) // 1_000_000


def _number(path: str) -> int:
    try:
        return int(Path(path).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def is_container() -> bool:
    """Does 127.0.0.1 mean this container, and not the machine around it?"""
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))


def file_system_of(path: Path, mounts: str | None = None) -> str:
    """The kind of file system that a path is on, such as ext4; empty when it cannot be told."""
    try:
        text = Path("/proc/self/mounts").read_text(encoding="utf-8") if mounts is None else mounts
    except OSError:
        return ""
    found = [line.split()[1:3] for line in text.splitlines() if len(line.split()) > 2]
    within = [(place, kind) for place, kind in found if path.is_relative_to(place.replace("\\040", " "))]
    return max(within, key=lambda mount: len(mount[0]))[1] if within else ""
