"""Webhooks when the one who carries them is killed: nothing is lost, and no message gets another name."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from shoal.core.webhook import MessageState, WebhookSettings
from shoal.store.webhook_messages import MessageFilter
from shoal.store.webhook_tables import webhook_messages
from tests.command import Shoal
from tests.contract.api import Desk, a_desk
from tests.guards import HERE
from tests.receiver import Reply, a_receiver
from tests.waiting import wait_until

JOBS = 5
SOON = timedelta(seconds=90)


def _control_worker(desk: Desk) -> Shoal:
    settings = desk.platform.settings
    given = {
        "SHOAL_REDIS_URL": str(settings.redis_url),
        "SHOAL_PREFIX": settings.prefix,
        "SHOAL_DATABASE_URL": settings.sql_url,
        "SHOAL_QUEUES": "control",
        "SHOAL_BEAT": "true",
    }
    return Shoal(settings.home, tuple(given.items()))


def _ids(desk: Desk, state: MessageState | None = None) -> set[str]:
    return {message.id for message in desk.platform.webhooks.messages(100, MessageFilter(state=state))}


@pytest.mark.timeout(240)
def test_kill_9_of_the_control_worker_loses_no_message_and_renames_none(valkey_url: str, tmp_path: Path) -> None:
    with a_receiver() as receiver, a_desk(f"{valkey_url}?db=9", tmp_path, egress_allow=HERE) as desk:
        desk.platform.webhooks.add(WebhookSettings(url=receiver.link(), name="here"), "default")
        receiver.answer = lambda _: Reply(hangs=True)
        jobs = {desk.submit(f"https://books.example/{number}") for number in range(JOBS)}
        desk.work()
        worker = _control_worker(desk).start("worker", "--log-level", "error")
        try:
            wait_until(lambda: bool(receiver.received), within=SOON)
        finally:
            worker.kill()
            worker.communicate()
        cut = [came.id for came in receiver.received]
        receiver.replies(Reply())
        with desk.platform.engine.begin() as connection:  # the time of its owner is over
            connection.execute(sa.update(webhook_messages).values(owned_ms=0))
        with _control_worker(desk).running("worker", "--log-level", "error"):
            wait_until(lambda: len(_ids(desk, MessageState.DELIVERED)) == JOBS, within=SOON)
        assert {came.json["data"]["job"] for came in receiver.received} == jobs
        times = Counter(came.id for came in receiver.received)
        assert times.keys() == _ids(desk)
        assert {times[message] for message in cut} == {2}
