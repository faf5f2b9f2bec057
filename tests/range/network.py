"""The loopback interface of a network namespace, with any addresses that a test wants."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import lack
from tests.waiting import wait_until

_GET_FLAGS, _SET_FLAGS, _SET_ADDRESS = 0x8913, 0x8914, 0x8916
_UP = 1
_LO = b"lo"
_ADDRESSES = Path("/proc/self/net/if_inet6")
_TENTATIVE = 0x40


def run_in_namespace(module: str, *arguments: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    """A Python module in network and mount namespaces of its own; nothing of it reaches any real network."""
    unshare = shutil.which("unshare")
    options = ["--net", "--mount", "--kill-child", "--fork", *(["--map-root-user"] if os.getuid() else [])]
    if not unshare or subprocess.run([unshare, *options, "true"], capture_output=True, check=False).returncode:
        lack("network namespaces (unshare of util-linux, and the right to use it)")
    command = [unshare, *options, sys.executable, "-m", module, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def bring_up(addresses: Sequence[str]) -> None:
    """Loopback with these addresses besides its own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14x", _LO, 0)
        (flags,) = struct.unpack("16xH14x", fcntl.ioctl(control, _GET_FLAGS, request))
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sH14x", _LO, flags | _UP))
        for number, address in enumerate(address for address in addresses if ":" not in address):
            place = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, _SET_ADDRESS, struct.pack("16s16s", f"lo:{number}".encode(), place))
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as control:
        for address in (address for address in addresses if ":" in address):
            packed = socket.inet_pton(socket.AF_INET6, address)
            fcntl.ioctl(control, _SET_ADDRESS, struct.pack("=16sIi", packed, 128, socket.if_nametoindex("lo")))
    wait_until(lambda: not _has_tentative_addresses())


def _has_tentative_addresses() -> bool:
    """The kernel takes up addresses of IPv6 a moment after it was told them; until then nobody can listen there."""
    flags = (int(line.split()[4], 16) for line in _ADDRESSES.read_text().splitlines())
    return any(each & _TENTATIVE for each in flags)


def use_name_server(address: str, folder: Path) -> None:
    """Names are looked up there, and in no file but this one."""
    for name, text in (
        ("resolv.conf", f"nameserver {address}\noptions timeout:1 attempts:1\n"),
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n"),
    ):
        file = folder / name
        file.write_text(text)
        subprocess.run(["mount", "--bind", str(file), f"/etc/{name}"], check=True)
