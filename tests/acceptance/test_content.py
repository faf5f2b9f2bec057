"""The content of pages, from the command to the item."""

from __future__ import annotations

from pathlib import Path

from tests.command import Shoal
from tests.site.server import Server

FAST = ("--rate", "unlimited", "--workers", "1")


def test_formats_stand_beside_the_fields_of_a_page(shoal: Shoal, bookshop: Server) -> None:
    takes = ("--take", "markdown", "--take", "metadata", "--take", "links=main", "--field", "heading=h1")
    done = shoal.run("scrape", bookshop.link("/about"), *FAST, *takes, "-o", "-")
    assert done.code == 0, done.err
    (record,) = done.records
    assert list(record) == ["url", "heading", "markdown", "metadata", "links"]
    assert record["heading"] == "About us"
    assert record["markdown"].startswith("# About us\n\n")
    assert record["metadata"]["title"]


def test_formats_are_columns_of_a_table(shoal: Shoal, bookshop: Server, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(f"urls: ['{bookshop.link('/about')}']\nrate: unlimited\nformats:\n  text: page\n  html: main\n")
    done = shoal.run("scrape", "-j", str(job), "--workers", "1", "-o", "-", "--format", "csv")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "url,text,html"
    assert "About us" in done.out


def test_a_format_that_does_not_exist_is_refused_before_anything_starts(shoal: Shoal, bookshop: Server) -> None:
    done = shoal.run("crawl", bookshop.url, "--take", "markdwon")
    assert done.code == 2
    assert "formats: there is no format 'markdwon'; did you mean 'markdown'?" in done.err
    assert not bookshop.hits
