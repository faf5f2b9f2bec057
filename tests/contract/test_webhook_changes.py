"""Changes of pages are told to who asked: all of them, each once, and nothing else."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Independent

from shoal.changes import pages
from shoal.core.webhook import WebhookSettings
from shoal.store.webhook_messages import MessageFilter
from shoal.webhooks import page_changes
from tests.contract.databases import DATABASES, a_database
from tests.contract.recrawling import Ground, a_ground
from tests.receiver import Receiver, Reply, a_receiver
from tests.site.dated import DatedSite
from tests.site.generated import LinkedSite
from tests.site.reply import page
from tests.site.server import serve

PAGES = 40


@pytest.fixture(params=DATABASES)
def ground(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Generator[Ground]:
    with a_ground(valkey_url, tmp_path, a_database(request, tmp_path)) as ground:
        yield ground


@pytest.fixture
def receiver() -> Generator[Receiver]:
    with a_receiver() as receiver:
        yield receiver


def told(receiver: Receiver) -> list[tuple[str, str]]:
    """(kind, path) of all changes that came, in their order."""
    found = [change for came in receiver.of_type("page.changed") for change in came.json["data"]["changes"]]
    return [(change["kind"], "/" + change["url"].split("/", 3)[3]) for change in found]


def test_new_changed_and_gone_pages_are_told_at_the_end_of_a_run(
    ground: Ground, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "STRETCH", 7)
    monkeypatch.setattr(page_changes, "BATCH_PAGES", 2)
    site = DatedSite(LinkedSite(pages=PAGES, links=8, size=2_000))
    _, secret = ground.platform.webhooks.add(
        WebhookSettings(url=receiver.link(), name="watcher", events=("page.changed",)), "default"
    )
    settings: dict[str, Any] = {"name": "watched", "previous": "last", "changes": True}
    with serve(site) as server:
        first = ground.crawl(server.url, **settings)
        ground.platform.webhooks.postman.work()
        assert receiver.received == [], "there was nothing before it"
        for number in range(3, 10):
            site.change(f"/p/{number}", page(f"<h1>Other {number}</h1>"))
        site.change("/", page('<h1>Start</h1><a href="/p/1">1</a><a href="/p/new">new</a>'))
        site.change("/p/new", page("<h1>New</h1>"))
        second = ground.crawl(server.url, **settings)
        ground.platform.webhooks.postman.work()
    run, earlier = ground.platform.control.job(second), ground.platform.control.job(first)
    wanted = [
        (change.kind.value, "/" + change.page.url.split("/", 3)[3])
        for change in ground.platform.changes.pages(run, earlier)
        if change.kind.value in ("new", "changed", "gone")
    ]
    assert sorted(told(receiver)) == sorted(wanted)
    assert ("new", "/p/new") in wanted
    for came in receiver.received:
        verified: Any = Independent(secret).verify(came.body, came.headers)
        assert verified["data"]["since"] == first
        assert verified["data"]["job"] == second
        assert verified["data"]["count"] <= 2
    assert len({came.id for came in receiver.received}) == len(receiver.received)


def test_what_was_told_is_not_told_again_and_a_receiver_that_is_away_misses_nothing(
    ground: Ground, receiver: Receiver
) -> None:
    receiver.replies(Reply(status=500))
    ground.platform.webhooks.add(
        WebhookSettings(url=receiver.link(), name="watcher", events=("page.changed",)), "default"
    )
    site = DatedSite(LinkedSite(pages=PAGES, links=8, size=2_000))
    with serve(site) as server:
        ground.crawl(server.url, name="watched", previous="last")
        site.change("/p/3", page("<h1>Other</h1>"))
        ground.crawl(server.url, name="watched", previous="last")
        ground.platform.webhooks.postman.work()
        (missed,) = receiver.received
        ground.crawl(server.url, name="watched", previous="last")
        ground.platform.webhooks.postman.work()
    assert [each.id for each in receiver.received] == [missed.id], "the third run has changed nothing"
    receiver.replies(Reply())
    (waiting,) = ground.platform.webhooks.messages(10, MessageFilter())
    assert waiting.id == missed.id
    ground.platform.webhooks.resend(waiting)
    ground.platform.webhooks.postman.work()
    assert receiver.received[-1].id == missed.id
    assert ("changed", "/p/3") in told(receiver)
