"""A canary: it listens where nobody may go, and remembers every connection."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress

ANSWER = b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\ncanary"
_POLL_S = 0.05


class Canary:
    """Where it listens, and which of its addresses were asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []
        """An address for every connection, whatever was said then."""

    def watch(self, listeners: Sequence[socket.socket], over: threading.Event) -> None:
        """Take connections until it is over."""
        while not over.is_set():
            ready, _, _ = select.select(listeners, [], [], _POLL_S)
            for listener in ready:
                connection, _ = listener.accept()
                self.asked.append(str(connection.getsockname()[0]))
                with connection, suppress(OSError):
                    connection.settimeout(_POLL_S)
                    connection.recv(65_536)
                    connection.sendall(ANSWER)


@contextmanager
def canary(*addresses: str, port: int = 0) -> Generator[Canary]:
    """Listens on all these addresses, on one port."""
    over = threading.Event()
    with ExitStack() as stack:
        listeners: list[socket.socket] = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            listener = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(64)
            port = port or int(listener.getsockname()[1])
            listeners.append(listener)
        found = Canary(port)
        thread = threading.Thread(target=found.watch, args=(listeners, over))
        thread.start()
        try:
            yield found
        finally:
            over.set()
            thread.join()
