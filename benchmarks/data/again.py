"""How fast other fields are taken from pages that are stored: 20,000 of them, by two processes, with the site gone."""

import statistics
import tempfile
from datetime import datetime
from pathlib import Path

from benchmarks.data.command import crawl, field_options, shoal
from benchmarks.result import Row
from benchmarks.server import serve

PAGES, QUICK_PAGES = 20_000, 300
ROUNDS = 3
FIELDS = {
    "title": "h1",
    "trail": ".trail",
    "first": "article p",
    "next": "a[rel=next]@href",
    "children[]": ".children h3",
}
LEAST = 1_000.0


def measure(quick: bool) -> list[Row]:
    """A crawl with fields; then the site goes, and the same fields are taken again: they must be the same."""
    pages, rounds = (QUICK_PAGES, 1) if quick else (PAGES, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        home = Path(folder)
        with serve([pages]) as urls:
            job: str = crawl(home, urls[pages], 2, *field_options(FIELDS))["job"]
        rates = [_again(home, job, f"v{number + 2}", pages) for number in range(rounds)]
    note = (
        f"{len(rates)} rounds, {min(rates):,.0f}–{max(rates):,.0f}; with the start of the workers; equal to the first"
    )
    return [
        Row(
            f"{pages:,} stored pages read again by 2 processes",
            statistics.median(rates),
            "pages/s",
            note,
            at_least=LEAST,
        )
    ]


def _again(home: Path, job: str, version: str, pages: int) -> float:
    done = shoal(home, "extract", job, *field_options(FIELDS), "--as", version, "--workers", "2", "--json")
    if done["pages"] < pages or done["failed"]:
        raise RuntimeError(f"{done['pages']} of {pages} pages were read, {done['failed']} could not be")
    shoal(home, "diff", job, "v1", version, "--exit-code", "--json")
    seconds = datetime.fromisoformat(done["ended_at"]) - datetime.fromisoformat(done["created_at"])
    return done["pages"] / seconds.total_seconds()
