"""The environment, read by who must not fail of it."""

from __future__ import annotations

import pytest

from shoal.cli.doctor import _flag_variables, _host_of  # pyright: ignore[reportPrivateUsage]
from shoal.doctor.environment import Reading, read_what_is_valid
from shoal.doctor.ground import Ground
from shoal.doctor.settings import redis_urls, variables
from shoal.settings import Settings


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("SHOAL_")]:
        monkeypatch.delenv(name)


def test_variables_that_are_not_valid_are_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SOCKETS": "many", "CONCURRENCY": "0", "PREFIX": "other", "QUEUES": "celery"}.items():
        monkeypatch.setenv(f"SHOAL_{name}", value)
    reading = read_what_is_valid()
    assert sorted(reading.flaws) == ["SHOAL_CONCURRENCY", "SHOAL_QUEUES", "SHOAL_SOCKETS"]
    assert (reading.settings.prefix, reading.settings.sockets) == ("other", 128)


def test_a_setting_that_is_missing_is_told_and_who_asks_for_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SMTP_URL", "smtps://mail.example:465")
    reading = read_what_is_valid()
    assert list(reading.flaws) == ["SHOAL_MAIL_FROM"]
    assert reading.settings.smtp_url == ""


def test_twins_of_flags_are_known_and_typing_errors_are_not() -> None:
    named = frozenset({"SHOAL_RATE", "SHOAL_WEBHOOK_NAME", "SHOAL_DOCTOR_ALL", "SHOAL_REDISURL", "SHOAL_X"})
    found = list(variables(Ground(Reading(Settings(), {}, named), None, _flag_variables)))
    assert [finding.what for finding in found] == [
        "SHOAL_REDISURL is set, and there is no such setting: is SHOAL_REDIS_URL meant?",
        "SHOAL_X is set, and there is no such setting",
    ]


@pytest.mark.parametrize(
    ("redis", "broker", "code"),
    [
        ("redis://h", None, []),
        ("redis://h", "redis://h/7", []),
        ("redis://h", "amqp://h", []),
        ("redis://h", "redis://h/1", ["shared_database"]),
        ("redis://h/5", "redis://h/7", ["shared_database"]),
        ("http://h", None, ["bad_url"]),
        ("redis://h/x", None, ["bad_url"]),
    ],
)
def test_three_databases_are_apart(redis: str, broker: str | None, code: list[str]) -> None:
    settings = Settings(redis_url=redis, broker_url=broker)
    found = redis_urls(Ground(Reading(settings, {}, frozenset()), None, frozenset))
    assert [finding.code for finding in found] == code


def test_a_site_is_a_url_or_a_host() -> None:
    sites = ("https://books.example/a?b", "books.example", "books.example:8080", "", "http://[::1]:8000/")
    assert [_host_of(site) for site in sites] == ["books.example", "books.example", "books.example", "", "::1"]
