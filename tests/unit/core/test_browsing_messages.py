"""What a job can ask of the browser, in short forms and with mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.core.browsing import Browsing, Wait
from shoal.core.spec import JobSpec, read_spec
from shoal.core.values import STORED
from shoal.errors import BadSpec


def _read(**browser: Any) -> Browsing:
    spec = read_spec({"urls": ["https://shop.example/"], "engine": "browser", "browser": browser})
    assert spec.browser
    return spec.browser


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("idle", Wait(until="idle")),
        ("2s", Wait(seconds=2)),
        (5, Wait(seconds=5)),
        (".price", Wait(selector=".price")),
        ({"until": "parsed", "selector": "h1", "seconds": 0.5}, Wait(until="parsed", selector="h1", seconds=0.5)),
    ],
)
def test_waits_have_short_forms(given: object, read: Wait) -> None:
    assert _read(wait=given).wait == read


@pytest.mark.parametrize(
    ("browser", "told"),
    [
        ({"wait": "networkidle"}, "browser.wait: 'networkidle' is 'idle' here"),
        ({"wait": "DOMContentLoaded"}, "'DOMContentLoaded' is 'parsed' here"),
        ({"wait": "2 hours"}, "browser.wait: write a time such as 2s or 0.5s, or a selector"),
        ({"wait": "10m"}, "browser.wait: nothing is waited for longer than 60 seconds"),
        ({"wait": True}, "browser.wait: input should be a number"),
        ({"wait": "..price"}, "'..price' is not a CSS selector that can be parsed"),
        ({"screenshot": "..price"}, "'..price' is not a CSS selector that can be parsed"),
        ({"actions": [{"wait": "2 hours"}]}, "browser.actions.0: write a time such as 2s or 0.5s, or a selector"),
        ({"actions": [{"wait": "10m"}]}, "nothing is waited for longer than 60 seconds"),
        ({"actions": [{"click": "a", "scroll": 2}]}, "exactly one of click, fill, press, select, scroll, wait"),
        ({"viewport": "large"}, "browser.viewport: write width and height, such as 1280x800"),
        ({"locale": "de_DE"}, "'de_DE' is not a locale, such as de-DE"),
        ({"timezone": "Berlin"}, "'Berlin' is not a time zone, such as Europe/Berlin"),
        ({"cookies": {"a": "b;c"}}, "a cookie has a name and a value without blanks, commas and semicolons"),
    ],
)
def test_mistakes_are_told_with_their_place_and_what_to_write(browser: dict[str, Any], told: str) -> None:
    with pytest.raises(BadSpec) as caught:
        _read(**browser)
    assert told in str(caught.value)


def test_a_job_reads_what_it_has_stored() -> None:
    spec = read_spec(
        {
            "urls": ["https://shop.example/"],
            "engine": "auto",
            "browser": {"wait": "60s", "actions": [{"wait": "2s"}, {"wait": ".price"}, {"press": "Enter"}]},
        }
    )
    assert JobSpec.model_validate_json(spec.model_dump_json(), context=STORED) == spec
