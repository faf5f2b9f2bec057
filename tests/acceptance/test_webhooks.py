"""Webhooks as users meet them: a crawl's end arrives and verifies, on `shoal up` and from a command."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from standardwebhooks.webhooks import Webhook as Independent

from tests.acceptance.test_up import ask, running_up
from tests.command import Shoal
from tests.receiver import Receiver, Reply, a_receiver
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

PAGES = 30
FIELDS = {"title": "h1", "links[]": "a@href"}
SOON = timedelta(seconds=60)


def _items(receiver: Receiver) -> list[str]:
    return [item["url"] for came in receiver.of_type("items") for item in came.json["data"]["items"]]


def test_a_crawls_end_and_its_items_arrive_and_verify(shoal: Shoal) -> None:
    spec: dict[str, Any] = {"rate": "unlimited", "robots": False, "fields": FIELDS, "labels": ["nightly"]}
    with (
        serve(LinkedSite(pages=PAGES, links=10, size=500)) as site,
        a_receiver() as receiver,
        running_up(shoal, "--workers", "1") as (_, url),
    ):
        events = ["job.started", "job.finished", "items"]
        hook = ask(f"{url}/api/v1/webhooks", {"url": receiver.link(), "events": events, "labels": ["nightly"]})
        job = ask(f"{url}/api/v1/jobs", {"urls": [site.url], **spec})["id"]
        told = ("job.started", "job.finished")  # in any order: several are on their way at once
        wait_until(lambda: len(_items(receiver)) >= PAGES and all(map(receiver.of_type, told)), within=SOON)
        verifier = Independent(hook["secret"])
        for came in receiver.received:
            verifier.verify(came.body, came.headers)
        (ended,) = receiver.of_type("job.finished")
        assert (ended.json["data"]["job"], ended.json["data"]["pages"]) == (job, PAGES)
        assert len(receiver.of_type("job.started")) == 1
        assert sorted(_items(receiver)) == sorted(set(_items(receiver)))
        assert len(_items(receiver)) == PAGES


def test_a_command_adds_tries_and_tells_and_shows_the_secret_once(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=3, links=2, size=200)) as site, a_receiver() as receiver:
        added = shoal.run("webhooks", "add", receiver.link("/hook/token"), "--name", "here", "--json")
        assert added.code == 0, added.err
        secret = added.json["secret"]
        tried = shoal.run("webhooks", "test", "here")
        assert (tried.code, tried.out.split(" in ")[0]) == (0, "delivered: 200")
        done = shoal.run("crawl", site.url, "--rate", "unlimited", "--json")
        assert done.code == 0, done.err
        (came,) = receiver.of_type("job.finished")
        Independent(secret).verify(came.body, came.headers)
        receiver.replies(Reply(404, body=b"nobody"))
        refused = shoal.run("webhooks", "resend", came.id)
        assert refused.code == 1
        assert "http_404" in refused.out
        listed = shoal.run("webhooks", "deliveries", "here", "--json")
        rows: list[dict[str, Any]] = json.loads(listed.out)
        assert [row["type"] for row in rows] == ["job.finished", "ping"]
        shown = shoal.run("webhooks", "show", "here").out + shoal.run("webhooks", "list", "--json").out
        assert secret not in shown
        assert "token" not in shown


def test_what_cannot_be_told_is_said(shoal: Shoal) -> None:
    for args, said in (
        (("add", "http://10.0.0.1/x"), "is not on the internet"),
        (("add", "https://example.org/", "--events", "nonsense"), "input should be 'job.started'"),
        (("add", "https://example.org/", "--template", "nonsense"), "one of slack, discord, teams"),
        (("add", "mailto:a@example.org"), "SHOAL_SMTP_URL"),
        (("add", "https://example.org/", "--header", "nonsense"), "write 'Name: value'"),
    ):
        done = shoal.run("webhooks", *args)
        assert (done.code, said in done.err) == (2, True), done.err
    missing = shoal.run("webhooks", "test", "nobody")
    assert (missing.code, "there is no webhook 'nobody'" in missing.err) == (1, True)
