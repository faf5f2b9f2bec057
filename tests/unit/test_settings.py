"""Settings: which queues a worker serves, and from which of them it leases."""

from __future__ import annotations

import pytest

from shoal.core.model import ALL_QUEUES, CONTROL_QUEUE
from shoal.errors import InputError
from shoal.settings import Settings, read_settings


def test_a_worker_serves_everything_by_default_and_leases_from_all_but_control() -> None:
    settings = Settings()
    assert settings.queue_names == (*ALL_QUEUES, CONTROL_QUEUE)
    assert settings.lease_queues == ALL_QUEUES


def test_queues_are_put_in_order_each_once() -> None:
    settings = Settings(queues="control, http.slow,http.high,http.slow")
    assert settings.queue_names == ("http.high", "http.slow", "control")
    assert settings.lease_queues == ("http.high", "http.slow")


def test_housekeeping_alone_takes_one_process_and_leases_nothing() -> None:
    settings = Settings(queues="control", concurrency=4)
    assert settings.lease_queues == ()
    assert settings.processes == 1
    assert Settings(queues="control,http.slow", concurrency=4).processes == 4


def test_a_worker_knows_whether_it_renders() -> None:
    assert Settings().browser_queues == ("browser.high", "browser.batch", "browser.slow")
    assert Settings(queues="http.high,control").browser_queues == ()
    mixed = Settings(queues="browser.slow,http.high,browser.high,control")
    assert mixed.browser_queues == ("browser.high", "browser.slow")
    assert mixed.lease_queues == ("http.high", "browser.high", "browser.slow")


def test_a_worker_without_a_pool_is_one_process() -> None:
    assert Settings(pool="solo", concurrency=4).processes == 1
    with pytest.raises(InputError, match="--pool"):
        read_settings(pool="threads")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("browser_pages", 0),
        ("browser_pages", 65),
        ("browser_megabytes", 100),
        ("browser_page_megabytes", 10),
        ("browser_recycle_pages", 0),
        ("browser_recycle_minutes", 0),
    ],
)
def test_a_browser_that_could_not_render_anything_is_refused(name: str, value: int) -> None:
    with pytest.raises(InputError, match=f"--{name.replace('_', '-')}"):
        read_settings(**{name: value})


@pytest.mark.parametrize("queues", ["http.fast", "control,http", " , "])
def test_an_unknown_queue_is_named_with_those_that_there_are(queues: str) -> None:
    with pytest.raises(InputError, match=r"unknown queue .*there are http.high, browser.high, http.batch, .*control"):
        read_settings(queues=queues)


@pytest.mark.parametrize(("text", "rate"), [("30/m", 0.5), ("2.5", 2.5), ("unlimited", 0.0), ("0", 0.0)])
def test_the_default_rate_is_written_like_any_other(monkeypatch: pytest.MonkeyPatch, text: str, rate: float) -> None:
    monkeypatch.setenv("SHOAL_DEFAULT_RATE", text)
    assert read_settings().manners.rate == rate


def test_a_default_rate_that_is_none_is_refused_with_the_forms_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_DEFAULT_RATE", "1/x")
    with pytest.raises(InputError, match=r"SHOAL_DEFAULT_RATE: write requests a second, .* such as 4, 30/m"):
        read_settings()
