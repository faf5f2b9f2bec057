"""The site that is rendered: every page is an empty shell until its script has fetched what belongs there.

`python -m benchmarks.browser.site PAGES PORT LOG` serves until SIGTERM. Each page has the same shell with a stylesheet
and two scripts, one of the size of a framework; the data are fetched, and become a list with pictures and links. What
never changes may be cached, as it may on most sites. The log has a line for each request at the moment it arrives.
"""

import json
import struct
import sys
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.launch import REPOSITORY, environment
from benchmarks.process import free_port, listens, running, wait_ready
from tests.site.hits import read_hits
from tests.site.parent import die_with_parent
from tests.site.reply import NOT_FOUND, Reply, page
from tests.site.server import Server, run

ITEMS = 24
"""On a page."""
START = "/"
DATA = "/data"
_CACHED = ("Cache-Control", "public, max-age=3600")
_SHELL = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Goods</title>
<link rel="stylesheet" href="/app.css"><script src="/vendor.js" defer></script><script src="/app.js" defer></script>
</head><body><div id="app"></div></body></html>"""
_STYLE = "".join(f".c{number} {{ margin: {number}px; color: #{number:03x}; }}\n" for number in range(200))
_VENDOR = "".join(
    f"function part{number}(a, b) {{ const list = []; for (let i = a; i < b; i++) list.push(i * {number});"
    f" return list.filter(one => one % 3 === {number % 3}).map(one => 'part ' + one); }}\n"
    for number in range(600)
)
_APP = """
const element = (name, text, attributes) => {
  const made = document.createElement(name);
  Object.entries(attributes || {}).forEach(([key, value]) => made.setAttribute(key, value));
  if (text) made.textContent = text;
  return made;
};
fetch('/data' + location.pathname).then(answer => answer.json()).then(data => {
  part1(0, 2000);
  const app = document.getElementById('app');
  app.append(element('h1', data.title));
  const list = element('ul');
  data.items.forEach(name => list.append(element('li', name, {class: 'item'})));
  data.pictures.forEach(path => app.append(element('img', '', {src: path, width: 64, height: 64})));
  data.links.forEach(path => app.append(element('a', path, {href: path})));
  app.append(list);
});
"""


@dataclass(frozen=True, slots=True)
class Goods:
    """The site: a start page that leads to all others."""

    pages: int
    """The start page among them."""

    @property
    def targets(self) -> list[str]:
        return [START, *(f"/goods/{number}" for number in range(1, self.pages))]

    def items(self, target: str) -> list[str]:
        """What can be read on a page once it is rendered."""
        return [f"{target.strip('/') or 'start'}: thing {number}" for number in range(ITEMS)]

    def respond(self, target: str, hits: int) -> Reply:
        """The shell, what it names, and the data."""
        del hits
        if target in _FIXED:
            kind, body = _FIXED[target]
            return Reply(headers=(("Content-Type", kind), _CACHED), body=body)
        if target.startswith(DATA):
            return self._data(target.removeprefix(DATA))
        return page(_SHELL) if self._has(target) else NOT_FOUND

    def _data(self, target: str) -> Reply:
        if not self._has(target):
            return NOT_FOUND
        data = {
            "title": target,
            "items": self.items(target),
            "pictures": ["/1.png", "/2.png"],
            "links": self.targets if target == START else [START, *self.targets[1:6]],
        }
        return Reply(headers=(("Content-Type", "application/json"),), body=json.dumps(data).encode())

    def _has(self, target: str) -> bool:
        number = target.removeprefix("/goods/")
        return target == START or (number.isdecimal() and 0 < int(number) < self.pages)


@dataclass(frozen=True, slots=True)
class Served:
    """The running site."""

    goods: Goods
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def arrivals(self) -> list[float]:
        """When each page was first so far that it asked for its data, in order."""
        first: dict[str, float] = {}
        for hit in read_hits(self.log):
            if hit.target.startswith(DATA):
                first.setdefault(hit.target, hit.at_monotonic)
        return sorted(first.values())


@contextmanager
def serve(pages: int, folder: Path) -> Generator[Served]:
    """Serve a site of so many pages while the block lasts, in a process of its own."""
    port, log = free_port(), folder / "site.jsonl"
    log.touch()
    command = [sys.executable, "-m", "benchmarks.browser.site", str(pages), str(port), str(log)]
    with running(command, log=folder / "site.log", env=environment({}), cwd=REPOSITORY) as child:
        wait_ready(child, lambda: listens(port))
        yield Served(Goods(pages), port, log)


def main(arguments: Sequence[str]) -> None:
    """Serve until told to stop."""
    pages, port, log = arguments
    die_with_parent()
    run(Goods(int(pages)), port=int(port), log=log, announce=_say_nothing)


def _say_nothing(server: Server) -> None:
    del server


def _picture(shade: int, size: int = 64) -> bytes:
    """A square in shades of grey, as PNG."""
    rows = b"".join(b"\0" + bytes((shade * 40 + x * y) % 256 for x in range(size)) for y in range(size))
    head = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in parts)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


_FIXED = {
    "/vendor.js": ("text/javascript", _VENDOR.encode()),
    "/app.js": ("text/javascript", _APP.encode()),
    "/app.css": ("text/css", _STYLE.encode()),
    "/1.png": ("image/png", _picture(1)),
    "/2.png": ("image/png", _picture(2)),
}
"""Target → kind and body of what is the same for all pages."""


if __name__ == "__main__":
    main(sys.argv[1:])
