"""`python -m benchmarks.over_time.tagged_server PORT PAGES`: a site with ETags, from memory, that counts its bytes.

`/-/bytes` says how many it has written so far, heads included.
"""

import asyncio
import hashlib
import sys
from typing import cast

import uvloop

from benchmarks import site

END = b"\r\n\r\n"
CONDITION = b"if-none-match: "


class Pages:
    """Answers, whole, by target."""

    def __init__(self, pages: int) -> None:
        self.written = 0
        root = site.build(pages).root
        self._answers: dict[bytes, tuple[bytes, bytes, bytes]] = {}
        for path in root.rglob("*.html"):
            body = path.read_bytes()
            tag = b'"%s"' % hashlib.sha256(body).hexdigest()[:16].encode()
            kind = b"Content-Type: text/html; charset=utf-8\r\n"
            head = b"HTTP/1.1 200 OK\r\n" + kind + b"ETag: %b\r\nContent-Length: %d\r\n\r\n"
            same = b"HTTP/1.1 304 Not Modified\r\nETag: %b\r\n\r\n" % tag
            target = f"/{path.relative_to(root)}".encode()
            self._answers[target] = tag, head % (tag, len(body)) + body, same

    def answer(self, head: bytes) -> bytes:
        """To one request."""
        target = head.split(b" ", 2)[1]
        if target == b"/-/bytes":
            told = str(self.written).encode()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(told), told)
        found = self._answers.get(target)
        if found is None:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        tag, whole, same = found
        at = head.lower().find(CONDITION)
        known = at >= 0 and head[at + len(CONDITION) :].split(b"\r\n", 1)[0] == tag
        return same if known else whole


class Connection(asyncio.Protocol):
    """One client, one request after the other."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while END in self._buffer:
            head, _, self._buffer = self._buffer.partition(END)
            answer = self._pages.answer(head)
            self._pages.written += len(answer)
            self._transport.write(answer)


async def serve(port: int, pages: int) -> None:
    """Until it is ended."""
    answers = Pages(pages)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(answers), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
