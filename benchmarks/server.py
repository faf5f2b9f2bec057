"""The web server of a run: nginx over static files where there is one, else our own test server."""

import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks import nginx, site
from benchmarks.process import free_port, listens, running, wait_ready

REPOSITORY = Path(__file__).resolve().parent.parent


@contextmanager
def serve(sizes: Sequence[int]) -> Generator[dict[int, str]]:
    """Serve a site of each size while the block lasts; yields where each begins, by its number of pages."""
    with ExitStack() as stack:
        binary = nginx.find()
        if binary:
            yield stack.enter_context(nginx.serve(binary, [_warm(size) for size in sizes]))
        else:
            yield {size: stack.enter_context(_own_server(size)) for size in sizes}


def _warm(size: int) -> site.Site:
    built = site.build(size)
    site.warm(built)
    return built


@contextmanager
def _own_server(size: int) -> Generator[str]:
    """Serve a site that is made on request: slower than nginx, but there wherever Python is."""
    port = free_port()
    options = ["--site", "linked", "--pages", str(size), "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryDirectory(prefix="shoal-bench-web-") as folder:
        command = [sys.executable, "-m", "tests.site", *options]
        with running(command, log=Path(folder) / "log", cwd=REPOSITORY) as child:
            wait_ready(child, lambda: listens(port))
            yield f"http://127.0.0.1:{port}/"
