"""The web server of a run: nginx over static files where there is one, else our own test server."""

import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import nginx, site
from benchmarks.launch import PAGE_KB, REPOSITORY
from benchmarks.process import free_port, listens, running, wait_ready
from benchmarks.served import Served
from tests.site.hits import read_hits

LINKS = {5: 20, PAGE_KB: 80, 250: 200}
"""Of our own server's pages, by kilobytes."""


@contextmanager
def serve(sizes: Sequence[int], *, kb: int = PAGE_KB) -> Generator[Served]:
    """Serve a site of each number of pages while the block lasts."""
    with ExitStack() as stack:
        binary = nginx.find()
        if binary:
            yield stack.enter_context(nginx.serve(binary, [_warm(size, kb) for size in sizes]))
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-web-")))
        urls = {size: stack.enter_context(_own_server(size, kb, folder)) for size in sizes}
        yield Served(urls, lambda size: _starts(_log(folder, size)))


@contextmanager
def serve_everywhere(size: int) -> Generator[str | None]:
    """Serve a site on every loopback address while the block lasts: its port; None without nginx."""
    binary = nginx.find()
    if binary is None:
        yield None
        return
    with nginx.serve(binary, [_warm(size, PAGE_KB)], everywhere=True) as sites:
        yield urlsplit(sites[size]).netloc.rpartition(":")[2]


def _warm(size: int, kb: int) -> site.Site:
    built = site.build(size, kb)
    site.warm(built)
    return built


@contextmanager
def _own_server(size: int, kb: int, folder: Path) -> Generator[str]:
    """Serve a site that is made on request: slower than nginx, but there wherever Python is."""
    port = free_port()
    options = ["--site", "linked", "--pages", str(size), "--host", "127.0.0.1", "--port", str(port)]
    shape = ["--size", str(1_000 * kb), "--links", str(LINKS[kb]), "--log", str(_log(folder, size))]
    command = [sys.executable, "-m", "tests.site", *options, *shape]
    with running(command, log=folder / f"{size}.err", cwd=REPOSITORY) as child:
        wait_ready(child, lambda: listens(port))
        yield f"http://127.0.0.1:{port}/"


def _log(folder: Path, size: int) -> Path:
    return folder / f"{size}.jsonl"


def _starts(log: Path) -> list[float]:
    return [hit.at_monotonic for hit in read_hits(log) if hit.target == "/"]
