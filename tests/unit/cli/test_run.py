"""The flags of crawl and scrape, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from shoal.cli import run
from shoal.cli.main import app
from shoal.core.spec import JobSpec

URL = "https://books.example/"
FLAGS: dict[str, tuple[str, object]] = {
    "bytes": ("500MB", 500_000_000),
    "seconds": ("2h", 7200.0),
    "host_pages": ("7", 7),
    "host_bytes": ("1g", 1_000_000_000),
    "host_seconds": ("15m", 900.0),
    "weight": ("2.5", 2.5),
}
SCRAPED = ("bytes", "seconds", "weight")


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[JobSpec]:
    """The jobs that commands would start."""
    specs: list[JobSpec] = []

    def note(spec: JobSpec, *_: Any) -> None:
        specs.append(spec)

    monkeypatch.setattr(run, "_start", note)
    return specs


def _said(spec: JobSpec, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(spec, name) for name in names}


@pytest.mark.parametrize(("command", "names"), [("crawl", tuple(FLAGS)), ("scrape", SCRAPED)])
def test_budgets_and_weight_have_flags_and_variables(
    submitted: list[JobSpec], command: str, names: tuple[str, ...]
) -> None:
    flags = [part for name in names for part in (f"--{name.replace('_', '-')}", FLAGS[name][0])]
    variables = {f"SHOAL_{name.upper()}": FLAGS[name][0] for name in names}
    assert CliRunner().invoke(app, [command, URL, *flags, "--noindex"]).exit_code == 0
    assert CliRunner().invoke(app, [command, URL], env={**variables, "SHOAL_NOINDEX": "1"}).exit_code == 0
    wanted = {name: FLAGS[name][1] for name in names}
    assert [_said(spec, names) for spec in submitted] == [wanted, wanted]
    assert [spec.noindex for spec in submitted] == [True, True]


def test_flags_that_are_not_given_say_nothing(submitted: list[JobSpec]) -> None:
    assert CliRunner().invoke(app, ["crawl", URL]).exit_code == 0
    assert submitted == [JobSpec(urls=(URL,))]


@pytest.mark.parametrize("command", ["crawl", "scrape"])
def test_the_browser_has_flags(submitted: list[JobSpec], command: str) -> None:
    flags = ["--auto", "--wait", ".price", "--screenshot", "full", "--pdf"]
    assert CliRunner().invoke(app, [command, URL, *flags]).exit_code == 0
    assert submitted[0].engine == "auto"
    assert submitted[0].browser is not None
    assert submitted[0].browser.wait.selector == ".price"
    assert (submitted[0].browser.screenshot, submitted[0].browser.pdf) == ("full", True)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--wait", ".price"], "--wait is for pages in a browser: add --browser, or --auto for those that need it"),
        (["--pdf"], "--pdf is for pages in a browser"),
        (["--browser", "--auto"], "--browser renders every page, --auto only those that need it"),
        (["--browser", "--wait", "..price"], "'..price' is not a CSS selector that can be parsed"),
    ],
)
def test_flags_that_make_no_sense_say_what_to_do(submitted: list[JobSpec], flags: list[str], told: str) -> None:
    result = CliRunner().invoke(app, ["crawl", URL, *flags])
    assert told in str(result.exception)
    assert submitted == []
