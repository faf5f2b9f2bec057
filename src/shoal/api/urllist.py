"""URLs from a stream of lines: plain text or NDJSON, of any length, in constant memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import orjson

from shoal.intake.lines import Line

BLOCK_BYTES = 256 * 1024
MAX_LINE_BYTES = 8 * 1024

TEXT = "text/plain"
NDJSON = ("application/x-ndjson", "application/ndjson")
KINDS = (TEXT, *NDJSON, "application/jsonl", "application/json-lines")
"""What is understood: the last two have never had an official name."""


def read_lines(read: Callable[[int], bytes], kind: str) -> Iterator[Line]:
    """Every URL of the stream with its line; empty lines and, in text, # comments are skipped."""
    decode = _text_line if kind == TEXT else _json_line
    for number, raw in enumerate(_lines(read), 1):
        if len(raw) > MAX_LINE_BYTES:
            yield number, None, f"a line of more than {MAX_LINE_BYTES} bytes"
            continue
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            yield number, None, "not UTF-8"
            continue
        if text:
            line = decode(text)
            if line is not None:
                yield number, *line


def _lines(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Lines without their ends; of one that is too long, a bit more than what is allowed."""
    rest = b""
    while block := read(BLOCK_BYTES):
        *lines, rest = (rest + block).split(b"\n")
        yield from lines
        rest = rest[: MAX_LINE_BYTES + 1] if len(rest) > MAX_LINE_BYTES else rest
    if rest:
        yield rest


def _text_line(text: str) -> tuple[str | None, str] | None:
    return None if text.startswith("#") else (text, "")


def _json_line(text: str) -> tuple[str | None, str]:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as exc:
        return None, f"not JSON: {exc}"
    url: object = cast(dict[str, Any], value).get("url") if isinstance(value, dict) else value
    if not isinstance(url, str):
        return None, 'neither "https://…" nor {"url": "https://…"}'
    return url, ""
