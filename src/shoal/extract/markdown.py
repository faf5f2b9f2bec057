"""Clean HTML as markdown."""

from __future__ import annotations

from html_to_markdown import ConversionOptions, convert

_MARKDOWN = ConversionOptions(
    heading_style="atx",
    bullets="-",
    extract_metadata=False,
    code_block_style="backticks",
    autolinks=False,
    compact_tables=True,
)


def markdown_of(html: str) -> str:
    """Clean HTML as markdown."""
    return (convert(html, _MARKDOWN).content or "").strip()
