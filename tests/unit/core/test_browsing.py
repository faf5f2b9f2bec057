"""What a job asks of the browser, as people write it: what is taken, what is refused, and what is never shown."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.core.browsing import HEAVY, MAX_ACTIONS, MAX_SCROLLS, Browsing
from shoal.core.redact import HIDDEN
from shoal.core.spec import JobSpec, read_spec
from shoal.core.values import STORED
from shoal.errors import BadSpec


def asked(**values: Any) -> Browsing:
    browsing = read_spec({"engine": "browser", "browser": values}).browser
    assert browsing is not None
    return browsing


def complaint(**values: Any) -> str:
    with pytest.raises(BadSpec) as caught:
        asked(**values)
    return str(caught.value)


def test_who_asks_for_nothing_gets_a_window_and_no_heavy_things() -> None:
    browsing = asked()
    assert (browsing.wait.until, browsing.wait.selector, browsing.wait.seconds) == ("load", "", 0)
    assert (browsing.viewport.width, browsing.viewport.height, browsing.block) == (1280, 800, HEAVY)
    assert (browsing.actions, browsing.screenshot, browsing.pdf, browsing.cookies) == ((), "", False, {})


@pytest.mark.parametrize(
    ("written", "until", "selector", "seconds"),
    [
        ("commit", "commit", "", 0),
        ("parsed", "parsed", "", 0),
        ("load", "load", "", 0),
        ("idle", "idle", "", 0),
        ("2s", "load", "", 2),
        (1.5, "load", "", 1.5),
        ("1m", "load", "", 60),
        (".price", "load", ".price", 0),
        ({"until": "idle", "selector": "#a", "seconds": "3s"}, "idle", "#a", 3),
        ({"seconds": 0}, "load", "", 0),
    ],
)
def test_a_wait_is_a_word_a_time_or_a_selector(written: object, until: str, selector: str, seconds: float) -> None:
    wait = asked(wait=written).wait
    assert (wait.until, wait.selector, wait.seconds) == (until, selector, seconds)


@pytest.mark.parametrize("written", ["2m", 61, -1, True, {"seconds": True}, {"until": "done"}, {"selector": "a["}, "]"])
def test_no_page_is_waited_for_longer_than_a_minute_or_for_what_nobody_can_find(written: object) -> None:
    assert "browser.wait" in complaint(wait=written)


@pytest.mark.parametrize(
    ("written", "verb", "value"),
    [
        ({"click": ".more"}, "click", ".more"),
        ({"wait": "2s"}, "wait", 2.0),
        ({"wait": ".ready"}, "wait", ".ready"),
        ({"scroll": "end"}, "scroll", "end"),
        ({"scroll": 3}, "scroll", 3),
        ({"evaluate": "1 + 1"}, "evaluate", "1 + 1"),
    ],
)
def test_an_action_has_one_verb(written: dict[str, Any], verb: str, value: object) -> None:
    (action,) = asked(actions=[written]).actions
    assert (action.verb, getattr(action, verb), action.optional) == (verb, value, False)


def test_a_key_alone_is_pressed_wherever_the_focus_is() -> None:
    short, long = asked(actions=[{"press": "Enter"}, {"press": {"key": "Enter", "selector": "#q"}}]).actions
    assert short.press
    assert long.press
    assert (short.press.key, short.press.selector, long.press.selector) == ("Enter", "", "#q")


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"click": "a", "wait": 1},
        {"optional": True},
        {"scroll": 0},
        {"scroll": MAX_SCROLLS + 1},
        {"scroll": True},
        {"scroll": "down"},
        {"wait": True},
        {"wait": 61},
        {"wait": ""},
        {"click": ""},
        {"press": ""},
        {"hover": "a"},
        {"fill": {"selector": "#a"}},
        {"evaluate": "x" * 10_001},
        "click",
    ],
)
def test_any_other_action_is_refused(action: object) -> None:
    assert "browser.actions.0" in complaint(actions=[action])


def test_there_is_an_end_to_actions() -> None:
    assert len(asked(actions=[{"wait": 1}] * MAX_ACTIONS).actions) == MAX_ACTIONS
    assert "browser.actions" in complaint(actions=[{"wait": 1}] * (MAX_ACTIONS + 1))


@pytest.mark.parametrize("written", ["1024x768", " 1024X768 ", {"width": 1024, "height": 768}])
def test_a_window_is_written_as_its_size(written: object) -> None:
    viewport = asked(viewport=written).viewport
    assert (viewport.width, viewport.height) == (1024, 768)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        *(("viewport", text) for text in ("1024", "1024x", "99x99", "9999x100", "1024x768x2", 5)),
        *(("locale", text) for text in ("german", "de_DE", "d")),
        *(("timezone", text) for text in ("Berlin", "../etc/passwd", "Europe/Nowhere")),
        *(("block_hosts", text) for text in (["a b"], [""], "a.example")),
        *(("block", text) for text in (["pictures"], "image")),
        *(("screenshot", text) for text in ("a[", "x" * 1_001)),
        *(("require", text) for text in ("a[", "]")),
        *(("resources", number) for number in (0, 10_001)),
        *(("resource_bytes", size) for size in (0, "lots")),
        *(("resource_rate", rate) for rate in (0, "often")),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(name: str, written: object) -> None:
    assert f"browser.{name}" in complaint(**{name: written})


def test_what_can_be_meant_is_taken() -> None:
    browsing = asked(
        locale="de-DE", timezone="Europe/Berlin", block=["script"], block_hosts=["Ads.Example"], screenshot="main > h1"
    )
    assert browsing.block_hosts == ("ads.example",)
    assert (browsing.locale, browsing.timezone, browsing.screenshot) == ("de-DE", "Europe/Berlin", "main > h1")


@pytest.mark.parametrize("cookies", [{"": "x"}, {"a": "b;c"}, {"a": "b c"}, {"a": "b\nc"}, {"a b": "c"}, {"a": "b,c"}])
def test_a_cookie_that_would_be_two_is_refused(cookies: dict[str, str]) -> None:
    assert "a cookie has a name and a value" in complaint(cookies=cookies)


def test_without_a_browser_nothing_is_asked_of_one() -> None:
    with pytest.raises(BadSpec, match="this is for engine: browser or auto"):
        read_spec({"browser": {"wait": "idle"}})
    assert read_spec({"engine": "auto", "browser": {"require": ".price"}}).browser is not None


def test_secrets_are_neither_shown_nor_taken_back_as_they_are_shown() -> None:
    fill = {"selector": "#password", "text": " c4nary1 "}
    browsing = asked(cookies={"sid": "c4nary2"}, actions=[{"fill": fill}, {"click": "#login"}])
    assert browsing.secrets == ("c4nary2", " c4nary1 "), "a password may begin with a blank"
    shown = browsing.shown()
    assert shown["cookies"] == {"sid": HIDDEN}
    assert shown["actions"][0]["fill"] == {"selector": "#password", "text": HIDDEN}
    for text in (str(shown), repr(browsing), str(browsing)):
        assert "c4nary" not in text
    assert HIDDEN in complaint(cookies=shown["cookies"])
    assert HIDDEN in complaint(actions=shown["actions"])


@pytest.mark.parametrize(
    "values",
    [
        {"cookies": {"sid": "c4nary;"}},
        {"cookies": {"sid": ["c4nary"]}},
        {"cookies": "c4nary"},
        {"actions": [{"fill": {"selector": "", "text": "c4nary"}}]},
        {"actions": [{"fill": {"selector": "#a", "text": "c4nary"}, "click": "#b"}]},
        {"actions": [{"fill": "c4nary"}]},
        {"actions": "c4nary"},
        {"wait": {"until": "never"}, "cookies": {"sid": "c4nary"}},
    ],
)
def test_a_refusal_does_not_repeat_a_secret(values: dict[str, Any]) -> None:
    assert "c4nary" not in complaint(**values)
    with pytest.raises(BadSpec) as caught:
        read_spec({"engine": "http", "browser": {"cookies": {"sid": "c4nary"}}})
    assert "c4nary" not in str(caught.value)


def test_what_was_stored_is_read_as_it_was() -> None:
    spec = read_spec(
        {
            "engine": "browser",
            "browser": {"cookies": {"a": "b"}, "actions": [{"press": "Enter"}, {"wait": "2s"}], "wait": "idle"},
        }
    )
    assert JobSpec.model_validate(spec.model_dump(mode="json"), context=STORED) == spec


def test_pictures_that_would_be_kept_nowhere_are_refused() -> None:
    with pytest.raises(BadSpec, match="archive: screenshots and prints are kept in the archive"):
        read_spec({"engine": "browser", "browser": {"pdf": True}, "archive": False})
    assert not read_spec({"engine": "browser", "browser": {"wait": "idle"}, "archive": False}).archive


def test_a_host_is_left_out_with_all_its_ports() -> None:
    with pytest.raises(BadSpec, match="without its port"):
        read_spec({"engine": "browser", "browser": {"block_hosts": ["ads.example:8080"]}})
