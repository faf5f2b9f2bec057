"""How well a text holds the main content of a page: precision and recall of its words, as one number."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")
"""A word; of scripts that have no blanks between words, a character."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A page with its answer."""

    name: str
    html: bytes
    answer: str


def samples() -> list[Sample]:
    """All pages of the set."""
    pages = sorted(_FOLDER.glob("*.html"))
    return [Sample(page.stem, page.read_bytes(), page.with_suffix(".txt").read_text("utf-8")) for page in pages]


def f1(found: str, answer: str) -> float:
    """1 when both have the same words equally often, whatever their order; 0 when they share none."""
    got, wanted = (Counter(_TOKEN.findall(text.lower())) for text in (found, answer))
    shared = (got & wanted).total()
    return 2 * shared / (got.total() + wanted.total()) if shared else 0.0


def mean(values: list[float]) -> float:
    """Of all pages alike, long or short."""
    return sum(values) / len(values)
