"""The main content of pages that were written by hand, with known answers: ours beside trafilatura."""

import time
from collections.abc import Callable
from functools import partial
from typing import cast

import trafilatura

from benchmarks.result import Row
from shoal.core.url import Base
from shoal.extract.content import Content
from shoal.extract.page import Html
from tests.content.scoring import Sample, f1, mean, samples

ROUNDS = 20
_BASE = Base("https://h.example/a/b")
_extract = cast("Callable[..., str | None]", trafilatura.extract)


def measure(quick: bool) -> list[Row]:
    """Token F1, mean over all pages, and processor time a page, the parse included."""
    pages, rounds = samples(), 1 if quick else ROUNDS
    ours, ours_ms = _measured(partial(_taken, Content({"text": "main"})), pages, rounds)
    _, markdown_ms = _measured(partial(_taken, Content({"markdown": "main"})), pages, rounds)
    theirs = {
        words: _measured(lambda page, given=given: _extract(page.html, **given) or "", pages, rounds)
        for words, given in (("as it is", {}), ("without comments", {"include_comments": False}))
    }
    best = max(found for found, _ in theirs.values())
    note = f"{len(pages)} pages"
    return [
        Row("main content: F1 of ours", 100 * ours, "%", note, at_least=round(100 * best, 2)),
        *(Row(f"main content: F1 of trafilatura, {words}", 100 * found, "%") for words, (found, _) in theirs.items()),
        Row("main content: ours as text", ours_ms, "ms a page", "processor time, with the parse"),
        Row("main content: ours as markdown", markdown_ms, "ms a page"),
        *(Row(f"main content: trafilatura, {words}", ms, "ms a page") for words, (_, ms) in theirs.items()),
    ]


def _taken(content: Content, page: Sample) -> str:
    found = content.take(Html.parse(page.html, "utf-8", _BASE))
    return str(next(iter(found.values())))


def _measured(read: Callable[[Sample], str], pages: list[Sample], rounds: int) -> tuple[float, float]:
    score = mean([f1(read(page), page.answer) for page in pages])  # and everything is warm
    started = time.process_time()
    for _ in range(rounds):
        for page in pages:
            read(page)
    return score, (time.process_time() - started) / rounds / len(pages) * 1000
