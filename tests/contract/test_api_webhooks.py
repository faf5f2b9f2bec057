"""Webhooks over the API: added, listed, changed, tried; tenants apart, secrets shown once."""

from __future__ import annotations

import threading
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.access import Permission
from tests.contract.api import Client, Desk, a_desk, flaws, refused, told
from tests.guards import HERE
from tests.receiver import Receiver, Reply, a_receiver
from tests.waiting import wait_until

URL = "https://example.org/hooks/shoal"


@pytest.fixture
def receiver() -> Generator[Receiver]:
    with a_receiver() as receiver:
        yield receiver


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    with a_desk(valkey_url, tmp_path, egress_allow=HERE) as desk:
        yield desk


def _add(client: Client, url: str = URL, **settings: Any) -> dict[str, Any]:
    return told(client.post("webhooks", {"url": url, **settings}), 201)


def test_one_is_added_and_its_secret_shown_once(each: Desk) -> None:
    added = _add(each, headers={"Authorization": "Bearer hunter2"}, template="slack", labels=["nightly"])
    assert added["secret"].startswith("whsec_")
    assert (added["name"], added["state"], added["url"]) == ("example.org", "enabled", "https://example.org/hooks/***")
    assert added["headers"] == {"Authorization": "***"}
    secret = added.pop("secret")
    for path in ("webhooks", f"webhooks/{added['id']}", "webhooks/example.org"):
        answer = each.get(path)
        assert answer.status_code == 200
        text = answer.get_data(as_text=True)
        assert secret not in text
        assert "hunter2" not in text
    assert told(each.get("webhooks"))["data"] == [added]


def test_it_can_be_changed_paused_resumed_and_removed(each: Desk) -> None:
    hook = _add(each, name="first")["id"]
    changed = told(each.patch(f"webhooks/{hook}", {"name": "second", "events": ["items"], "state": "paused"}))
    assert (changed["name"], changed["events"], changed["state"]) == ("second", ["items"], "paused")
    assert told(each.patch(f"webhooks/{hook}", {"state": "enabled"}))["state"] == "enabled"
    assert each.delete(f"webhooks/{hook}").status_code == 204
    refused(each.get(f"webhooks/{hook}"), 404)


def test_headers_do_not_go_to_another_host(desk: Desk) -> None:
    """Nobody sees their values, also not by having them sent somewhere else."""
    hook = _add(desk, name="first", headers={"Authorization": "Bearer hunter2hunter2"})["id"]
    told(desk.patch(f"webhooks/{hook}", {"url": f"{URL}/other"}))
    assert "another host" in flaws(desk.patch(f"webhooks/{hook}", {"url": "https://evil.example/"}))["headers"]
    told(desk.patch(f"webhooks/{hook}", {"url": "https://other.example/", "headers": {}}))
    assert desk.platform.webhooks.find(hook).settings.headers == {}


def test_what_is_wrong_is_named(desk: Desk) -> None:
    assert "not on the internet" in flaws(desk.post("webhooks", {"url": "http://10.0.0.1/"}))["url"]
    assert "mail server" in flaws(desk.post("webhooks", {"url": "mailto:a@example.org"}))["url"]
    found = flaws(desk.post("webhooks", {"url": URL, "template": "nonsense", "headers": {"Host": "x"}}))
    assert found.keys() == {"template", "headers"}
    answer = desk.post("webhooks", {"url": "https://user:hunter2@example.org/", "events": ["job.finished"]})
    assert "hunter2" not in answer.get_data(as_text=True)
    assert answer.status_code == 422
    _add(desk)
    assert "another name" in refused(desk.post("webhooks", {"url": URL}), 409)["detail"]
    refused(desk.patch("webhooks/nobody", {"name": "x"}), 404)


def test_tenants_do_not_see_each_others(each: Desk) -> None:
    _, ours = each.make_key()
    _, theirs = each.make_key(tenant="others")
    hook = _add(ours, name="ours")["id"]
    _add(theirs, name="ours")
    message = told(ours.post(f"webhooks/{hook}/test"), 202)["id"]
    assert [row["name"] for row in told(theirs.get("webhooks"))["data"]] == ["ours"]
    assert told(theirs.get("webhook-deliveries"))["data"] == []
    assert told(theirs.get(f"webhook-deliveries?webhook={hook}"))["data"] == []
    for answer in (
        theirs.get(f"webhooks/{hook}"),
        theirs.patch(f"webhooks/{hook}", {"name": "mine"}),
        theirs.delete(f"webhooks/{hook}"),
        theirs.post(f"webhooks/{hook}/rotate"),
        theirs.post(f"webhooks/{hook}/test"),
        theirs.get(f"webhook-deliveries/{message}"),
        theirs.post(f"webhook-deliveries/{message}/resend"),
    ):
        refused(answer, 404)


def test_who_may_read_may_not_change(desk: Desk) -> None:
    _add(desk, name="first")
    _, reader = desk.make_key(Permission.READ)
    assert told(reader.get("webhooks"))["data"]
    refused(reader.post("webhooks", {"url": URL}), 403)
    refused(reader.post("webhooks/first/rotate"), 403)
    refused(reader.post("webhooks/first/test"), 403)


def test_a_test_waits_for_the_answer(desk: Desk, receiver: Receiver) -> None:
    hook = _add(desk, receiver.link(), name="here")["id"]
    ended = threading.Event()

    def keep_house() -> None:
        while not ended.wait(0.05):
            desk.platform.webhooks.postman.work()

    housekeeping = threading.Thread(target=keep_house)
    housekeeping.start()
    try:
        sent = told(desk.client().post(f"webhooks/{hook}/test?wait=20"))
    finally:
        ended.set()
        housekeeping.join()
    assert (sent["type"], sent["state"]) == ("ping", "delivered")
    assert [(attempt["status"], attempt["answer"]) for attempt in sent["attempts"]] == [(200, "thank you")]


def test_deliveries_are_listed_with_attempts_and_sent_again(desk: Desk, receiver: Receiver) -> None:
    hook = _add(desk, receiver.link(), name="here")["id"]
    receiver.replies(Reply(500, body=b"broken"), Reply())
    desk.submit("https://books.example/")
    desk.work()
    desk.platform.webhooks.postman.work()
    (row,) = told(desk.get("webhook-deliveries?webhook=here&state=waiting"))["data"]
    assert (row["webhook"], row["type"], row["tries"], row["message"]) == (hook, "job.finished", 1, "http_500")
    assert row["next_at"]
    shown = told(desk.get(f"webhook-deliveries/{row['id']}"))
    assert shown["attempts"][0]["answer"] == "broken"
    assert told(desk.post(f"webhook-deliveries/{row['id']}/resend"), 202)["tries"] == 0
    desk.platform.webhooks.postman.work()
    assert told(desk.get(f"webhook-deliveries/{row['id']}"))["state"] == "delivered"
    assert len({came.id for came in receiver.received}) == 1
    refused(desk.post("webhook-deliveries/msg_unknown/resend"), 404)


def test_a_long_list_goes_on_behind_its_cursor(desk: Desk) -> None:
    hook = _add(desk)["id"]
    for _ in range(5):
        desk.post(f"webhooks/{hook}/test")
    assert len({row["id"] for row in desk.rows("webhook-deliveries", limit=2)}) == 5


def test_a_new_secret_is_shown_once_and_both_are_in_force(desk: Desk) -> None:
    added = _add(desk)
    rotated = told(desk.post(f"webhooks/{added['id']}/rotate?keep_seconds=60"))
    assert rotated["secret"] != added["secret"]
    assert rotated["secrets"] == 2
    assert told(desk.post(f"webhooks/{added['id']}/rotate?keep_seconds=0"))["secrets"] == 1


def test_the_metrics_tell_what_waits(desk: Desk, receiver: Receiver) -> None:
    hook = _add(desk, receiver.link())["id"]
    desk.post(f"webhooks/{hook}/test")
    assert "shoal_webhook_messages_waiting 1.0" in desk.get("/metrics").get_data(as_text=True)
    desk.platform.housekeeper.tick()
    wait_until(lambda: len(receiver.received) == 1, within=timedelta(seconds=20))
    delivered = 'shoal_webhook_attempts_total{outcome="delivered"} 1.0'
    wait_until(lambda: delivered in desk.get("/metrics").get_data(as_text=True))
    assert "shoal_webhook_messages_waiting 0.0" in desk.get("/metrics").get_data(as_text=True)
