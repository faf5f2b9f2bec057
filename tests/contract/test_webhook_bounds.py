"""Webhooks among each other and over long times: nobody's messages are lost or late because of somebody else's."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from shoal.changes.telling import ToldChanges
from shoal.core.happening import Happening
from shoal.core.mail import MailServer
from shoal.core.webhook import MESSAGE_TRIES, MessageState, WebhookSettings
from shoal.store import webhook_tables
from shoal.store.items import ItemRow
from shoal.webhooks import carrier, letters, mail, postman, webhooks
from shoal.webhooks.assembly import Parts, make_webhooks
from tests.contract.api import a_desk
from tests.contract.databases import DATABASES, a_database
from tests.contract.test_webhooks import DAY, ENDED, URL, Office
from tests.guards import HERE
from tests.receiver import Reply, a_receiver
from tests.waiting import wait_until


@pytest.fixture
def office(valkey_url: str, tmp_path: Path) -> Generator[Office]:
    with a_receiver() as receiver, a_desk(valkey_url, tmp_path, egress_allow=HERE) as desk:
        yield Office(desk, receiver)


@pytest.fixture(params=DATABASES)
def each_office(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Generator[Office]:
    database = a_database(request, tmp_path)
    with a_receiver() as receiver, a_desk(valkey_url, tmp_path, database, egress_allow=HERE) as desk:
        yield Office(desk, receiver)


def _add(office: Office, name: str, tenant: str = "default", **settings: Any) -> None:
    given: dict[str, Any] = {"url": office.receiver.link(f"/{name}"), "name": name, **settings}
    office.hooks.add(WebhookSettings(**given), tenant)


def test_endpoints_are_served_in_turn(each_office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much waits for one."""
    monkeypatch.setattr(postman, "SENT_AT_ONCE", 1)
    for name in ("a", "b", "c"):
        _add(each_office, name, events=ENDED)
    for _ in range(4):
        each_office.run_job()
    assert each_office.work() == 12
    paths = [came.path for came in each_office.receiver.received]
    assert [len(set(paths[at : at + 3])) for at in range(0, 12, 3)] == [3, 3, 3, 3]


def test_what_waits_for_one_is_not_removed_for_the_many_of_another(
    each_office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of all belongs to somebody who has no other."""
    _add(each_office, "few", jobs=["first"])
    _add(each_office, "many", jobs=["other"])
    for name in ("few", "many"):
        each_office.hooks.pause(each_office.find(name))
    each_office.run_job(name="first")
    each_office.work()
    each_office.ahead += timedelta(seconds=1)
    for _ in range(5):
        each_office.run_job(name="other")
    each_office.work()
    monkeypatch.setattr(webhooks, "MOST_MESSAGES", 4)
    each_office.hooks.trim()
    waiting = [each_office.hooks.find(each.webhook).name for each in each_office.messages(MessageState.WAITING)]
    assert sorted(waiting) == ["few", "many", "many", "many"]
    assert len(each_office.messages()) == 4


def test_however_much_is_too_much_goes_at_once(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "TRIM_AT_ONCE", 1)
    monkeypatch.setattr(webhooks, "MOST_MESSAGES", 2)
    _add(office, "a", events=ENDED)
    for _ in range(6):
        office.run_job()
    office.work()
    office.hooks.trim()
    assert len(office.messages()) == 2


def test_who_comes_later_is_not_told_what_nobody_was_told(each_office: Office) -> None:
    _add(each_office, "gone", events=ENDED)
    each_office.run_job()
    each_office.hooks.remove(each_office.find("gone"))
    _add(each_office, "later", events=ENDED)
    assert each_office.work() == 0


def test_resumed_what_waits_is_sent_now(each_office: Office) -> None:
    """Not when its next attempt would have been, a day later."""
    each_office.receiver.answer = lambda _: Reply(500)
    _add(each_office, "a", events=ENDED)
    each_office.run_job()
    for ahead in (timedelta(), timedelta(seconds=6), timedelta(seconds=70)):
        assert each_office.work(ahead) == 1
    each_office.hooks.pause(each_office.find("a"))
    each_office.receiver.answer = lambda _: Reply()
    each_office.hooks.resume(each_office.find("a"))
    assert each_office.work() == 1
    (message,) = each_office.messages()
    assert message.state is MessageState.DELIVERED


def test_a_fault_of_ours_is_an_attempt_and_not_tried_for_ever(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(letters.Letters, "write", break_down)
    _add(office, "a", events=ENDED)
    office.run_job()
    for _ in range(MESSAGE_TRIES):
        office.work(2 * DAY)
    (message,) = office.messages()
    assert (message.state, message.tries) == (MessageState.FAILED, MESSAGE_TRIES)
    assert "ZeroDivisionError" in message.error


def test_a_source_that_fails_does_not_silence_the_others(office: Office) -> None:
    def break_down(job: str, after: int) -> None:
        raise ZeroDivisionError(job, after)

    platform = office.desk.platform
    parts = Parts("Shoal/test", platform.settings.egress, None, "", frozenset(), office.now_ms, office.counted.append)
    office.hooks = make_webhooks(parts, platform.engine, platform.pages, break_down)
    _add(office, "a", events=(*ENDED, "page.changed"))
    office.run_job()
    assert office.work() == 1


def test_settings_of_another_version_stop_nobody(each_office: Office) -> None:
    _add(each_office, "a", events=ENDED)
    _add(each_office, "b", events=ENDED)
    theirs = each_office.find("a").settings.model_dump() | {"template": '{"a": "{data.news}"}', "colour": "blue"}
    with each_office.desk.platform.engine.begin() as connection:
        mine = webhook_tables.webhooks.c.name == "a"
        values = {"settings": orjson.dumps(theirs).decode()}
        connection.execute(sa.update(webhook_tables.webhooks).where(mine).values(values))
    each_office.run_job()
    assert each_office.work() == 2
    assert sorted(came.path for came in each_office.receiver.received) == ["/a", "/b"]


def test_items_that_have_grown_are_named_and_not_lost(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letters, "MOST_ITEM_BYTES", 300)
    monkeypatch.setattr(letters, "MAX_MESSAGE_BYTES", 2_000)
    _add(office, "a", events=("items",))
    job = office.desk.submit(URL, fields={"n": "h1"})
    office.store_items(job, range(5))
    office.desk.work()
    _gather(office)
    office.store_items(job, range(5), "x" * 100)
    assert office.work() == 1
    (came,) = office.receiver.received
    found = came.json["data"]["items"]
    assert [each["data"] is not None for each in found] == [True, True, False, False, False]
    assert [each.get("too_large", False) for each in found] == [False, False, True, True, True]


def test_long_urls_count_in_a_batch(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 of them would be more than a message may have."""
    monkeypatch.setattr(letters, "MAX_MESSAGE_BYTES", 400_000)
    _add(office, "a", events=("items",))
    job = office.desk.submit(URL, fields={"n": "h1"})
    rows = [ItemRow(job, 1_000 + n, 0, f"{URL}{n}/{'p' * 1_900}", {"n": n}) for n in range(300)]
    office.desk.platform.pages.write([], rows, [])
    office.desk.work()
    office.work()
    found = [each["data"]["n"] for came in office.receiver.received for each in came.json["data"]["items"]]
    assert sorted(found) == list(range(300))


def test_no_more_items_are_read_than_are_sent(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others lie between them, and more behind them."""
    _add(office, "a", events=("items",))
    job, other = (office.desk.submit(f"{URL}{n}", fields={"n": "h1"}) for n in range(2))
    for at in range(3):
        office.store_items(job, range(at, at + 1))
        office.store_items(other, range(300 * at, 300 * at + 300))
    _gather(office)
    office.store_items(job, range(3, 600))
    asked: list[int] = []
    read = office.desk.platform.pages.items_after

    def counting(name: str, after: int, limit: int = 0, *more: Any) -> Any:
        asked.append(limit)
        return read(name, after, limit, *more)

    monkeypatch.setattr(office.desk.platform.pages, "items_after", counting)
    message = next(each for each in office.messages() if each.job == job)
    written = letters.Letters(office.desk.platform.pages).document(message)
    assert len(written["data"]["items"]) == 3
    assert max(asked) <= letters.READ_AT_ONCE


def test_a_job_that_goes_on_after_a_long_time_tells_only_of_new_items(each_office: Office) -> None:
    """Its place is kept for as long as the job is."""
    _add(each_office, "a", events=("items",))
    job = each_office.run_job(items=3)
    each_office.work()
    each_office.ahead += 40 * DAY
    each_office.hooks.trim()
    each_office.store_items(job, range(3, 5))
    again = Happening(
        f"job.ended:{job}:1", "job.finished", "default", job, each_office.now_ms(), {"name": "", "job": job}
    )
    with each_office.desk.platform.engine.begin() as connection:
        each_office.hooks._messages._tell(connection, again, each_office.now_ms())  # pyright: ignore[reportPrivateUsage]
    each_office.work()
    found = [each["data"]["n"] for came in each_office.receiver.received for each in came.json["data"]["items"]]
    assert found == [0, 1, 2, 3, 4]


def test_a_mail_server_that_hangs_holds_up_no_other(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "MAIL_S", 600.0)
    monkeypatch.setattr(carrier, "MAILS_AT_ONCE", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = MailServer.read(f"smtp://127.0.0.1:{silent.getsockname()[1]}")
        platform, count = office.desk.platform, office.counted.append
        parts = Parts("Shoal/test", platform.settings.egress, server, "a@b.c", frozenset(), office.now_ms, count)
        look = ToldChanges(platform.jobs, platform.changes)
        office.hooks = make_webhooks(parts, platform.engine, platform.pages, look)
        for number in range(postman.PER_TENANT):
            _add(office, f"m{number}", "other", url=f"mailto:m{number}@example.org", events=ENDED)
            hook = office.find(f"m{number}")
            office.hooks.ping(hook)
        thread = threading.Thread(target=office.hooks.postman.work, daemon=True)
        thread.start()
        wait_until(lambda: _accepted(silent), within=timedelta(seconds=30))
        _add(office, "web", events=ENDED)
        office.run_job()
        wait_until(lambda: bool(office.messages(MessageState.DELIVERED)), within=timedelta(seconds=30))
        assert thread.is_alive()
    thread.join(30)
    assert not thread.is_alive()


def _gather(office: Office) -> None:
    """Make messages, and carry none."""
    for ahead in (0, 10_000):
        for source in office.hooks.postman._sources:  # pyright: ignore[reportPrivateUsage]
            source.gather(office.now_ms() + ahead)


def _accepted(server: socket.socket) -> bool:
    """Somebody stands at the door; nobody opens."""
    return bool(select.select([server], [], [], 0)[0])
