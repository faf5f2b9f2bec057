"""Jobs that log in, or come with cookies: from a job file to the page that only its user sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.browsers import browser_path
from tests.command import Shoal
from tests.site.server import serve
from tests.site.shop import Shop
from tests.stored import page_rows

__all__ = ["browser_path"]

pytestmark = pytest.mark.usefixtures("browser_path")

FILL = {"fill": {"selector": "[name=user]", "text": "ada-of-the-shop"}}
WHO = {"evaluate": "document.querySelector('#who').textContent"}


def _job(folder: Path, browser: dict[str, Any], **more: Any) -> tuple[str, ...]:
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump({"engine": "browser", "follow": False, "browser": browser, **more}))
    return ("-j", str(file), "--rate", "unlimited", "--no-robots", "--workers", "1", "--json")


def test_a_job_that_fills_in_a_form_arrives_at_the_page_behind_it(shoal: Shoal, tmp_path: Path) -> None:
    login = {"actions": [FILL, {"click": "#enter"}, {"wait": "#who"}, WHO]}
    with serve(Shop()) as shop:
        done = shoal.run("crawl", shop.link("/login"), *_job(tmp_path, login, fields={"who": "#who"}))
        assert done.code == 0, done.err
    (row,) = page_rows(shoal, done.json["job"])
    assert row.notes
    assert row.notes["evaluated"] == ["Welcome, ada."]
    assert row.notes["final_url"] == shop.link("/account")
    assert "left_out" not in row.notes
    assert [item["who"] for item in shoal.run("results", done.json["job"]).records] == ["Welcome, ada."]
    assert "Welcome, ada." in shoal.run("page", done.json["job"], shop.link("/login")).out


def test_a_job_that_comes_with_cookies_sees_the_page_of_their_owner(shoal: Shoal, tmp_path: Path) -> None:
    with serve(Shop()) as shop:
        given = _job(tmp_path, {"cookies": {"user": "grace"}}, fields={"who": "#who"})
        done = shoal.run("crawl", shop.link("/account"), *given)
        assert done.code == 0, done.err
    assert [item["who"] for item in shoal.run("results", done.json["job"]).records] == ["Welcome, grace."]
