"""A name server that says what a test wants, each time something else if that is wanted."""

from __future__ import annotations

import ipaddress
import socket
import struct
import threading
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

_A, _AAAA = 1, 28
_NO_SUCH_NAME = 3
_POLL_S = 0.05

Answers = Sequence[Sequence[str]]
"""For the first time that a name is asked for, the second, and so on, and from the beginning again."""


class NameServer:
    """What it knows, and how often it was asked."""

    def __init__(self, names: Mapping[str, Answers]) -> None:
        self._names = names
        self.asked = Counter[tuple[str, int]]()

    def answer(self, query: bytes) -> bytes:
        """To one question; a time to live of zero makes everybody ask again."""
        name, kind, end = _question(query)
        script = self._names.get(name.lower())
        turn = self.asked[name, kind]
        self.asked[name, kind] += 1
        addresses = [ipaddress.ip_address(text) for text in (script[turn % len(script)] if script else ())]
        found = [address.packed for address in addresses if kind == (_A if address.version == 4 else _AAAA)]
        flags = 0x8580 | (0 if script else _NO_SUCH_NAME)
        head = query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0)
        records = b"".join(struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(packed)) + packed for packed in found)
        return head + query[12:end] + records


def _question(query: bytes) -> tuple[str, int, int]:
    """(name, kind, where the question ends)"""
    labels, at = list[str](), 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode())
        at += 1 + length
    (kind,) = struct.unpack_from(">H", query, at + 1)
    return ".".join(labels), kind, at + 5


@contextmanager
def name_server(address: str, names: Mapping[str, Answers]) -> Generator[NameServer]:
    """Answers at this address, on the port where name servers are."""
    server, over = NameServer(names), threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((address, 53))
        listener.settimeout(_POLL_S)
        thread = threading.Thread(target=_serve, args=(server, listener, over))
        thread.start()
        try:
            yield server
        finally:
            over.set()
            thread.join()


def _serve(server: NameServer, listener: socket.socket, over: threading.Event) -> None:
    while not over.is_set():
        try:
            query, who = listener.recvfrom(4_096)
        except TimeoutError:
            continue
        listener.sendto(server.answer(query), who)
