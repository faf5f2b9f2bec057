"""The documentation as data: its files, fenced blocks, tables and links."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
RUN = "<!-- run -->"
RUN_BESIDE_UP = "<!-- run beside shoal up -->"
MARKS = (RUN, RUN_BESIDE_UP)

_FENCE = re.compile(r"```(\w*)\Z")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_CELLS = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    place: str
    """README.md:24, for messages."""
    language: str
    text: str
    mark: str
    """How the tests are to run it: one of MARKS, or empty."""


@cache
def documents() -> tuple[Path, ...]:
    """Every Markdown file that belongs to the project."""
    folders = (REPOSITORY / "docs", REPOSITORY / "benchmarks")
    nested = (path for folder in folders for path in folder.rglob("*.md") if "results" not in path.parts)
    return tuple(sorted([*REPOSITORY.glob("*.md"), *nested]))


def marked_blocks(language: str, mark: str = RUN) -> list[Block]:
    """The blocks of all documents that are to be run in this way."""
    found = (block for path in documents() for block in blocks(path))
    return [block for block in found if block.mark == mark and block.language == language]


def blocks(path: Path) -> Iterator[Block]:
    """The fenced blocks of a document."""
    before, opened = "", 0
    inside: list[str] | None = None
    language = ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if inside is None and (fence := _FENCE.match(line)):
            inside, language, opened = [], fence[1], number
        elif inside is not None and line == "```":
            place = f"{path.relative_to(REPOSITORY)}:{opened}"
            yield Block(place, language, "\n".join(inside) + "\n", before if before in MARKS else "")
            inside, before = None, ""
        elif inside is not None:
            inside.append(line)
        elif line:
            before = line


def prose(path: Path) -> Iterator[str]:
    """The lines outside of fenced blocks."""
    outside = True
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            outside = not outside
        elif outside:
            yield line


def links(path: Path) -> list[str]:
    """Where a document points to."""
    return [target for line in prose(path) for target in _LINK.findall(line)]


def anchors(path: Path) -> set[str]:
    """The names of a document's headings, as they stand in links."""
    headings = (line.lstrip("#").strip() for line in prose(path) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table(path: str, *first_cells: str) -> list[tuple[str, ...]]:
    """The rows of all tables of a document whose heads begin with these cells."""
    found = [rows for head, rows in _tables(REPOSITORY / path) if head[: len(first_cells)] == first_cells]
    assert found, f"{path} has no table that begins with {', '.join(first_cells)}"
    return [row for rows in found for row in rows]


def plain(cell: str) -> str:
    """A cell without the marks of code."""
    return cell.strip("`")


def _tables(path: Path) -> Generator[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    rows: list[tuple[str, ...]] = []
    for line in [*prose(path), ""]:
        if line.startswith("|"):
            rows.append(tuple(cell.strip() for cell in _CELLS.split(line)[1:-1]))
        elif rows:
            yield rows[0], rows[2:]
            rows = []
