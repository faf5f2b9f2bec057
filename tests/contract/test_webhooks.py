"""Webhooks over each database, to a real receiver: what is told to whom, when it is tried again, and when no more."""

from __future__ import annotations

import socket
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from standardwebhooks.webhooks import Webhook as Independent
from standardwebhooks.webhooks import WebhookVerificationError

from shoal.changes.telling import ToldChanges
from shoal.core.webhook import MESSAGE_TRIES, RETRIES, MessageState, Webhook, WebhookSettings, WebhookState
from shoal.errors import Conflict, InputError, NotFound
from shoal.store.items import ItemRow
from shoal.store.webhook_messages import MessageFilter
from shoal.store.webhook_rows import Message
from shoal.webhooks import letters, postman, sources
from shoal.webhooks.assembly import Parts, make_webhooks
from shoal.webhooks.webhooks import Webhooks, shown
from tests.contract.api import Desk, a_desk, page, some_dead
from tests.contract.databases import DATABASES, a_database
from tests.guards import HERE
from tests.receiver import Receiver, Reply, a_receiver
from tests.waiting import wait_until

DAY = timedelta(days=1)
URL = "https://books.example/"
ENDED = ("job.finished",)


@dataclass(slots=True)
class Office:
    """Webhooks on a desk, with a clock that the test moves."""

    desk: Desk
    receiver: Receiver
    hooks: Webhooks = field(init=False)
    ahead: timedelta = timedelta()
    counted: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        settings = self.desk.platform.settings
        parts = Parts("Shoal/test", settings.egress, None, "", frozenset(), self.now_ms, self.counted.append)
        platform = self.desk.platform
        look = ToldChanges(platform.jobs, platform.changes)
        self.hooks = make_webhooks(parts, platform.engine, platform.pages, look)

    def now_ms(self) -> int:
        return self.desk.platform.frontier.audit.now_ms() + self.ahead // timedelta(milliseconds=1)

    def add(self, **settings: Any) -> tuple[Webhook, str]:
        given: dict[str, Any] = {"url": self.receiver.link(), "name": "first", **settings}
        return self.hooks.add(WebhookSettings(**given), "default")

    def work(self, ahead: timedelta = timedelta()) -> int:
        """Carry what is due so much later."""
        self.ahead += ahead
        return self.hooks.postman.work()

    def find(self, name: str = "first") -> Webhook:
        return self.hooks.find(name)

    def messages(self, state: MessageState | None = None) -> list[Message]:
        return self.hooks.messages(1_000, MessageFilter(state=state))

    def run_job(self, *urls: str, items: int = 0, **settings: Any) -> str:
        """One that ends."""
        fields = {"fields": {"n": "h1"}} if items else {}
        job = self.desk.submit(*(urls or (URL,)), **fields, **settings)
        if items:
            self.store_items(job, range(items))
        self.desk.work()
        return job

    def store_items(self, job: str, numbers: range, text: str = "") -> None:
        rows = [ItemRow(job, 1_000 + number, 0, f"{URL}{number}", {"n": number, "text": text}) for number in numbers]
        self.desk.platform.pages.write([], rows, [])


@pytest.fixture(params=DATABASES)
def each_office(request: pytest.FixtureRequest, valkey_url: str, tmp_path: Path) -> Generator[Office]:
    """On each database."""
    database = a_database(request, tmp_path)
    with a_receiver() as receiver, a_desk(valkey_url, tmp_path, database, egress_allow=HERE) as desk:
        yield Office(desk, receiver)


@pytest.fixture
def office(valkey_url: str, tmp_path: Path) -> Generator[Office]:
    with a_receiver() as receiver, a_desk(valkey_url, tmp_path, egress_allow=HERE) as desk:
        yield Office(desk, receiver)


def _verified(secret: str, came: Any) -> dict[str, Any]:
    """By an implementation that is not ours; the time is what it was signed with."""
    verified: Any = Independent(secret).verify(came.body, came.headers)
    return cast("dict[str, Any]", verified)


# --- what is told -------------------------------------------------------------------------------------------------


def test_a_jobs_end_arrives_and_its_signature_is_good(each_office: Office) -> None:
    _, secret = each_office.add()
    job = each_office.run_job(URL, f"{URL}gone", name="books", labels=["nightly"])
    assert each_office.work() == 1
    (came,) = each_office.receiver.received
    told = _verified(secret, came)
    assert (told["type"], told["data"]["job"], told["data"]["name"]) == ("job.finished", job, "books")
    assert (told["data"]["pages"], told["data"]["errors"], told["data"]["labels"]) == (2, 0, ["nightly"])
    assert told["timestamp"].endswith("Z")
    assert came.headers["content-type"] == "application/json"
    assert each_office.work() == 0
    (message,) = each_office.messages()
    assert (message.state, message.tries, message.id) == (MessageState.DELIVERED, 1, came.id)
    (attempt,) = each_office.hooks.attempts(message.id)
    assert (attempt.status, attempt.reason, attempt.answer) == (200, "", "thank you")
    assert each_office.counted == ["delivered"]


def test_what_was_changed_on_the_way_is_not_taken_for_ours(office: Office) -> None:
    _, secret = office.add()
    office.run_job()
    office.work()
    (came,) = office.receiver.received
    with pytest.raises(WebhookVerificationError):
        Independent(secret).verify(came.body + b" ", came.headers)


def test_each_event_has_its_own_kind(each_office: Office) -> None:
    kinds = ("job.started", "job.finished", "job.failed", "job.cancelled")
    each_office.add(events=kinds)
    finished = each_office.run_job()
    failed = each_office.desk.submit(f"{URL}gone")
    each_office.desk.work(some_dead("gone"))
    cancelled = each_office.desk.submit(f"{URL}late")
    each_office.desk.platform.control.cancel(cancelled)
    each_office.work()
    told = {(each.type, each.json["data"]["job"]) for each in each_office.receiver.received}
    jobs = zip(kinds[1:], (finished, failed, cancelled), strict=True)
    assert told == {*jobs, *(("job.started", job) for job in (finished, failed, cancelled))}


def test_nothing_is_written_where_nobody_listens(each_office: Office) -> None:
    each_office.run_job()
    each_office.add()
    assert each_office.work() == 0
    assert each_office.messages() == []


def test_an_end_is_told_once_however_often_it_is_written_down(each_office: Office) -> None:
    each_office.add(events=ENDED)
    job = each_office.run_job()
    row = each_office.desk.platform.jobs.get(job)
    assert row is not None and row.status is not None
    each_office.work()
    each_office.desk.platform.jobs.record(row.status)
    each_office.work()
    assert len(each_office.receiver.received) == 1


def test_a_job_that_goes_on_ends_once_more(office: Office) -> None:
    office.add()
    job = office.desk.submit(URL, f"{URL}gone")
    office.desk.work(some_dead("gone"))
    office.desk.post(f"jobs/{job}/dead/replay")
    office.desk.work()
    office.work()
    assert sorted(each.json["data"]["errors"] for each in office.receiver.received) == [0, 1]
    assert len({each.id for each in office.receiver.received}) == 2


def test_names_and_labels_choose_jobs(office: Office) -> None:
    office.add(name="by-name", url=office.receiver.link("/name"), jobs=("book*",))
    office.add(name="by-label", url=office.receiver.link("/label"), labels=("nightly", "weekly"))
    office.run_job(name="books")
    office.run_job(name="cars", labels=["nightly"])
    office.run_job(name="cars")
    office.work()
    told = sorted((each.path, each.json["data"]["name"]) for each in office.receiver.received)
    assert told == [("/label", "cars"), ("/name", "books")]


def test_tenants_hear_of_their_own_jobs_only(office: Office) -> None:
    office.hooks.add(WebhookSettings(url=office.receiver.link(), name="other"), "another")
    office.run_job()
    assert office.work() == 0
    with pytest.raises(NotFound):
        office.hooks.find("other", "default")


def test_drift_is_told(office: Office) -> None:
    office.add(events=("job.drift",))
    for count in (100, 5):
        office.run_job(items=count, name="books")
        office.desk.platform.field_stats.judge_ended()
    office.work()
    (came,) = office.receiver.received
    assert came.type == "job.drift"
    assert came.json["data"]["drift"][0]["what"] == "volume"


# --- items --------------------------------------------------------------------------------------------------------


def test_every_item_arrives_once_in_batches(each_office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ITEMS", 10)
    each_office.add(events=("items",))
    job = each_office.desk.submit(URL, fields={"n": "h1"})
    each_office.store_items(job, range(25))
    each_office.work()
    assert [each.json["data"]["count"] for each in each_office.receiver.received] == [10, 10]
    each_office.work(sources.BATCH_WAIT)
    assert len(each_office.receiver.received) == 3
    each_office.store_items(job, range(25, 31))
    each_office.desk.work()
    each_office.work()
    found = [item["data"]["n"] for each in each_office.receiver.received for item in each.json["data"]["items"]]
    assert sorted(found) == list(range(31))
    assert {each.json["data"]["job"] for each in each_office.receiver.received} == {job}
    assert each_office.work(DAY) == 0


def test_items_that_come_after_a_jobs_end_are_sent_at_the_next_one(office: Office) -> None:
    office.add(events=("items",))
    job = office.desk.submit(URL, f"{URL}gone", fields={"n": "h1"})
    office.store_items(job, range(3))
    office.desk.work(some_dead("gone"))
    office.work()
    office.desk.post(f"jobs/{job}/dead/replay")
    office.store_items(job, range(3, 5))
    office.desk.work()
    office.work()
    found = [item["data"]["n"] for each in office.receiver.received for item in each.json["data"]["items"]]
    assert found == [0, 1, 2, 3, 4]


def test_a_receiver_that_is_away_holds_no_copy_of_the_items(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BATCH_ITEMS", 2)
    office.add(events=("items",))
    office.receiver.replies(Reply(500))
    office.run_job(items=200)
    office.work()
    assert len(office.messages()) == sources.MOST_WAITING
    office.receiver.replies(Reply())
    while office.work(timedelta(hours=1)):
        pass
    found = {item["data"]["n"] for each in office.receiver.received for item in each.json["data"]["items"]}
    assert found == set(range(200))


def test_batches_are_bounded_by_bytes_and_an_item_that_is_too_large_is_named(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sources, letters):
        monkeypatch.setattr(module, "BATCH_BYTES", 1_000)
    office.add(events=("items",))
    job = office.desk.submit(URL, fields={"n": "h1"})
    office.store_items(job, range(4), "x" * 400)
    office.store_items(job, range(4, 5), "x" * 2_000)
    office.desk.work()
    office.work()
    batches = sorted(
        (each.json["data"]["items"] for each in office.receiver.received), key=lambda items: items[0]["id"]
    )
    assert [[item["number"] for item in batch] for batch in batches] == [[0, 0], [0, 0], [0]]
    assert batches[-1] == [{"id": 5, "url": f"{URL}4", "number": 0, "data": None, "too_large": True}]


def test_items_of_a_job_that_was_removed_are_not_waited_for(office: Office) -> None:
    office.add(events=("items",))
    office.receiver.replies(Reply(500))
    job = office.run_job(items=3)
    office.work()
    office.desk.platform.pages.remove(job)
    office.work(timedelta(minutes=1))
    (message,) = office.messages()
    assert message.state is MessageState.FAILED
    assert "are gone" in message.error


# --- receivers that do not do what they should ----------------------------------------------------------------------


def test_a_receiver_that_is_down_for_ten_minutes_gets_the_same_message_later(each_office: Office) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    each_office.add(url=f"http://127.0.0.1:{port}/hook")
    each_office.run_job()
    assert each_office.work() == 1
    for wait in RETRIES[:3]:
        assert each_office.work(wait * 0.9) == 0
        assert each_office.work(wait * 0.21) == 1
    (message,) = each_office.messages(MessageState.WAITING)
    assert message.tries == 4
    assert each_office.find().failures == 4
    with a_receiver(port) as back:
        assert each_office.work(RETRIES[3] * 1.1) == 1
        (came,) = back.received
    assert came.id == message.id
    attempts = each_office.hooks.attempts(message.id)
    assert [attempt.status for attempt in attempts] == [0, 0, 0, 0, 200]
    assert "connect" in attempts[0].reason
    assert each_office.find().failures == 0


@pytest.mark.parametrize(
    ("reply", "status", "said"),
    [
        (Reply(500, body=b"sorry"), 500, "http_500"),
        (Reply(302, {"Location": "/elsewhere"}), 302, "redirects are not followed"),
        (Reply(resets=True), 0, "reset"),
        (Reply(404), 404, "http_404"),
    ],
)
def test_what_fails_is_recorded_and_tried_again_with_the_same_id(
    reply: Reply, status: int, said: str, office: Office
) -> None:
    _, secret = office.add()
    office.receiver.replies(reply, Reply())
    office.run_job()
    office.work()
    (message,) = office.messages()
    (attempt,) = office.hooks.attempts(message.id)
    assert (message.state, attempt.status) == (MessageState.WAITING, status)
    assert said in attempt.reason
    assert office.work(RETRIES[0] * 1.1) == 1
    first, second = office.receiver.received
    assert first.id == second.id == message.id
    assert first.body == second.body
    assert {each.path for each in office.receiver.received} == {"/hook"}
    assert _verified(secret, first) == _verified(secret, second)


def test_an_endless_answer_is_an_answer(office: Office) -> None:
    office.add()
    office.receiver.replies(Reply(endless=True))
    office.run_job()
    office.work()
    (message,) = office.messages()
    (attempt,) = office.hooks.attempts(message.id)
    assert (message.state, len(attempt.answer)) == (MessageState.DELIVERED, 1024)


def test_410_disables_the_endpoint_at_once(each_office: Office) -> None:
    each_office.add()
    each_office.receiver.replies(Reply(410))
    each_office.run_job()
    each_office.work()
    hook = each_office.find()
    assert (hook.state, "410" in hook.reason) == (WebhookState.DISABLED, True)
    each_office.run_job()
    assert each_office.work(DAY) == 0
    assert len(each_office.receiver.received) == 1
    with pytest.raises(Conflict, match="disabled"):
        each_office.hooks.ping(hook)
    each_office.hooks.resume(hook)
    assert each_office.find().state is WebhookState.ENABLED


def test_a_receiver_that_asks_for_rest_is_left_alone(each_office: Office) -> None:
    each_office.add()
    each_office.receiver.replies(Reply(429, {"Retry-After": "600"}), Reply())
    each_office.run_job()
    each_office.work()
    each_office.run_job()
    assert each_office.work(timedelta(minutes=9)) == 0
    assert each_office.work(timedelta(minutes=2)) == 2
    assert {message.state for message in each_office.messages()} == {MessageState.DELIVERED}


@pytest.mark.parametrize(
    ("asked", "rest"),
    [
        ("999999999", timedelta(hours=6)),
        *((asked, timedelta(seconds=30)) for asked in ("", "soon", "-5", "1e9")),
        ("0", timedelta(seconds=1)),
    ],
)
def test_rest_has_bounds(asked: str, rest: timedelta, office: Office) -> None:
    office.add()
    office.receiver.replies(Reply(503, {"Retry-After": asked} if asked else {}))
    office.run_job()
    before = office.now_ms()
    office.work()
    held = timedelta(milliseconds=office.find().hold_ms - before)
    assert rest <= held <= rest + timedelta(seconds=20)


def test_an_endpoint_that_never_answers_is_given_up_over_days(office: Office) -> None:
    office.add()
    office.receiver.replies(Reply(500))
    for _ in range(3):
        office.run_job()
    tries = 0
    while office.find().state is WebhookState.ENABLED:
        tries += office.work(timedelta(hours=1))
        assert office.ahead < 30 * DAY
    assert office.ahead >= 3 * DAY
    assert tries == 3 * MESSAGE_TRIES
    assert "3 messages were given up" in office.find().reason
    assert {message.state for message in office.messages()} == {MessageState.FAILED}
    assert office.counted.count("given_up") == 3


def test_one_message_that_is_given_up_disables_nothing(office: Office) -> None:
    office.add()
    office.receiver.replies(Reply(400))
    office.run_job()
    while not office.messages(MessageState.FAILED):
        office.work(timedelta(hours=1))
    assert office.find().state is WebhookState.ENABLED


def test_a_slow_receiver_does_not_hold_up_another(office: Office) -> None:
    office.add(name="slow", url=office.receiver.link("/slow"))
    office.receiver.answer = lambda came: Reply(hangs=True)
    with a_receiver() as quick:
        office.add(name="quick", url=quick.link())
        for _ in range(6):
            office.run_job()
        office.hooks.postman.start()
        wait_until(lambda: len(quick.received) == 6, within=timedelta(seconds=10))
        assert 0 < len(office.receiver.received) <= postman.PER_ENDPOINT
    office.receiver.closed.set()


def test_what_is_cut_off_is_carried_once_more_with_the_same_id(office: Office) -> None:
    office.add()
    office.run_job()
    office.receiver.answer = lambda came: Reply(hangs=True)
    assert office.hooks.postman.work(timedelta(seconds=1)) == 0
    (cut,) = office.receiver.received
    office.receiver.replies(Reply())
    assert office.work() == 0  # somebody may be carrying it
    assert office.work(postman.OWNED) == 1
    assert [each.id for each in office.receiver.received] == [cut.id, cut.id]


def test_who_comes_late_changes_nothing(office: Office) -> None:
    office.add()
    office.run_job()
    office.hooks.postman._gather()  # pyright: ignore[reportPrivateUsage]
    (message,) = office.messages()
    store = office.hooks._messages  # pyright: ignore[reportPrivateUsage]
    assert store.claim_one(message.id, "first", office.now_ms(), timedelta(seconds=1))
    assert store.claim_one(message.id, "second", office.now_ms(), timedelta(seconds=1)) is None
    office.ahead = timedelta(minutes=1)
    assert store.claim_one(message.id, "second", office.now_ms(), timedelta(seconds=1))


# --- secrets ------------------------------------------------------------------------------------------------------


def test_while_secrets_rotate_both_are_good_and_then_the_old_one_is_not(each_office: Office) -> None:
    hook, old = each_office.add()
    _, new = each_office.hooks.rotate(hook, timedelta(hours=1))
    each_office.run_job()
    each_office.work()
    (came,) = each_office.receiver.received
    assert _verified(old, came) == _verified(new, came)
    assert len(came.headers["webhook-signature"].split()) == 2
    each_office.ahead = timedelta(hours=1, seconds=1)
    each_office.run_job()
    each_office.work()
    assert len(each_office.receiver.received[-1].headers["webhook-signature"].split()) == 1


def test_nothing_that_is_secret_is_shown(office: Office) -> None:
    token = "T0KEN-" + "x" * 30
    url = office.receiver.link(f"/services/{token}")
    hook, secret = office.add(url=url, headers={"Authorization": f"Bearer {token}"})
    office.receiver.replies(Reply(500, body=f"you said Bearer {token} to {url} with {secret}".encode()))
    office.run_job()
    office.work()
    (message,) = office.messages()
    told = f"{shown(office.find())} {office.hooks.attempts(message.id)} {hook!r}"
    assert token not in f"{shown(office.find())} {office.hooks.attempts(message.id)}"
    assert secret not in f"{shown(office.find())} {office.hooks.attempts(message.id)}"
    assert office.receiver.received[0].headers["authorization"] == f"Bearer {token}"
    assert "services/***" in told


@pytest.mark.parametrize(
    "said",
    [
        "Cannot POST /services/T0/B0/{token}",
        '{{"path": "\\/services\\/T0\\/B0\\/{token}"}}',
        "no such token: {header}",
        "x" * 1_000 + "{token}",
        "x" * 1_010 + "{token}",
    ],
)
def test_what_a_receiver_repeats_of_what_is_hidden_is_not_shown(said: str, office: Office) -> None:
    token, header = "t0ken5t0ken5t0ken5t0ken5", "h3ader6h3ader6h3ader6"
    office.add(url=office.receiver.link(f"/services/T0/B0/{token}"), headers={"X-Token": f"Token {header}"})
    office.receiver.replies(Reply(404, body=said.format(token=token, header=header).encode()))
    office.run_job()
    office.work()
    (attempt,) = office.hooks.attempts(office.messages()[0].id)
    assert (attempt.status, "t0ken" in attempt.answer, "h3ader" in attempt.answer) == (404, False, False)
    assert attempt.answer


# --- endpoints ----------------------------------------------------------------------------------------------------


def test_a_paused_endpoint_is_told_when_it_is_resumed(each_office: Office) -> None:
    hook, _ = each_office.add()
    each_office.hooks.pause(hook)
    each_office.run_job()
    assert each_office.work() == 0
    each_office.hooks.resume(hook)
    assert each_office.work() == 1


def test_a_message_can_be_sent_once_more(each_office: Office) -> None:
    each_office.add()
    each_office.run_job()
    each_office.work()
    (message,) = each_office.messages()
    each_office.hooks.resend(message)
    each_office.work()
    assert [each.id for each in each_office.receiver.received] == [message.id] * 2
    assert len(each_office.hooks.attempts(message.id)) == 2


def test_a_test_is_sent_at_once(office: Office) -> None:
    hook, secret = office.add(events=("job.drift",))
    message = office.hooks.ping(hook)
    assert office.hooks.postman.carry_now(message)
    (came,) = office.receiver.received
    assert _verified(secret, came)["type"] == "ping"


def test_a_template_shapes_what_is_sent(office: Office) -> None:
    office.add(template="slack")
    office.run_job(name='<!channel> "books"')
    office.work()
    (came,) = office.receiver.received
    assert came.json["text"].startswith('&lt;!channel&gt; "books" (')
    assert "has finished: 1 pages" in came.json["text"]


def test_the_same_name_twice_is_refused(each_office: Office) -> None:
    each_office.add()
    with pytest.raises(Conflict, match="another name"):
        each_office.add()
    other, _ = each_office.add(name="second")
    with pytest.raises(Conflict):
        each_office.hooks.change(other, {"name": "first"})
    assert each_office.hooks.change(other, {"name": "third", "events": ["items"]}).settings.events == ("items",)
    with pytest.raises(InputError, match="events"):
        each_office.hooks.change(other, {"events": ["nonsense"]})


def test_removed_is_removed(each_office: Office) -> None:
    hook, _ = each_office.add(events=("job.finished", "items"))
    each_office.run_job(items=2)
    each_office.work()
    each_office.hooks.remove(hook)
    assert each_office.messages() == []
    assert each_office.work() == 0


def test_what_is_kept_has_bounds(each_office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.webhooks import webhooks

    each_office.add()
    for _ in range(4):
        each_office.run_job()
    each_office.work()
    monkeypatch.setattr(webhooks, "MOST_MESSAGES", 3)
    each_office.hooks.trim()
    assert len(each_office.messages()) == 3
    hook = each_office.find()
    each_office.hooks.pause(hook)
    for _ in range(3):
        each_office.run_job()
    each_office.hooks.postman.work()
    monkeypatch.setattr(webhooks, "MAX_WAITING", 1)
    monkeypatch.setattr(webhooks, "MOST_MESSAGES", 100)
    each_office.hooks.trim()
    assert len(each_office.messages(MessageState.WAITING)) == 1
    assert "messages wait" in each_office.messages(MessageState.FAILED)[0].error
    each_office.ahead = (webhooks.KEPT_DAYS + 1) * DAY
    each_office.hooks.trim()
    assert each_office.messages() == []


def test_the_housekeeper_carries_without_waiting(office: Office) -> None:
    office.desk.platform.webhooks.add(WebhookSettings(url=office.receiver.link(), name="kept"), "default")
    office.run_job()
    office.desk.platform.housekeeper.tick()
    wait_until(lambda: len(office.receiver.received) == 1, within=timedelta(seconds=30))
    wait_until(lambda: office.desk.platform.webhooks.age_of_oldest_s() == (0, 0.0))


def test_a_page_that_was_stored_is_told_to_nobody(office: Office) -> None:
    office.add()
    office.desk.submit(URL, f"{URL}2")
    office.desk.work(page, at_most=1)
    assert office.work() == 0
