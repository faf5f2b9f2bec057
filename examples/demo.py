"""`make demo`: crawl the bundled bookshop with an embedded Valkey and real Celery workers.

The shop is served on this machine by the test suite's own web server; nothing leaves it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
RESULTS = REPOSITORY / "demo-results"
FIELDS = ("title=h1", "price=.price", "image=img@src", "tags[]=.tag")


@contextmanager
def bookshop() -> Generator[str]:
    """The sample site's address, for as long as the block lasts."""
    command = [sys.executable, "-m", "tests.site", "--site", "bookshop", "--port", "0"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().rsplit(" ", 1)[1].strip()
    finally:
        process.terminate()
        process.communicate()


def crawl(url: str, output: Path) -> int:
    """The main job, as a user would type it."""
    options = ["--name", "the demo bookshop", "--drop-tracking", "--rate", "60", "--parallel", "8", "--retries", "2"]
    for field in FIELDS:
        options += ["--field", field]
    shown = " ".join(
        ["shoal crawl", url, *(f"'{o}'" if set(o) & set(" []") else o for o in options), "-o", output.name]
    )
    print(f"$ {shown}", file=sys.stderr, flush=True)
    environment = {**os.environ, "SHOAL_HOME": str(RESULTS / "home")}
    command = [sys.executable, "-m", "shoal", "crawl", url, *options, "-o", str(output), "--workers", "2"]
    return subprocess.run(command, env=environment, cwd=RESULTS, check=False).returncode


def show(output: Path) -> None:
    """A taste of what was found."""
    items = [json.loads(line) for line in output.read_text().splitlines()]
    books = [item for item in items if item["price"]]
    print(f"\n{len(books)} books among {len(items)} pages with a title; the first ones:")
    for book in books[:5]:
        print(f"  {book['price']:>8}  {book['title']}  ({', '.join(book['tags'])})")
    print(f"\nresults: {output}")
    print(f"explore: SHOAL_HOME={RESULTS / 'home'} {Path(sys.executable).parent / 'shoal'} jobs")


def main() -> int:
    """Serve, crawl, show."""
    RESULTS.mkdir(exist_ok=True)
    output = RESULTS / "books.jsonl"
    with bookshop() as url:
        code = crawl(url, output)
    if code == 0:
        show(output)
    return code


if __name__ == "__main__":
    sys.exit(main())
