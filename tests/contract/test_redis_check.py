"""A Redis that answers and refuses is not one that is away: found out on real servers, when a command starts."""

# Celery has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from shoal.errors import RedisUnavailable
from shoal.frontier.away import is_away
from shoal.frontier.scripts import connect
from shoal.redis_check import check_broker, check_redis
from shoal.redis_url import RedisUrls
from shoal.worker.app import make_app
from tests.command import REPOSITORY
from tests.documents import blocks
from tests.servers import running_with, valkey

SECRET = "s3cret"


def rights(database: int = 0) -> str:
    """The user of the guide, for a broker in this database."""
    (text,) = (b.text for b in blocks(REPOSITORY / "docs/guides/redis.md") if b.text.startswith("user default off"))
    return text.replace(">change-me", f">{SECRET}").replace("&/0.", f"&/{database}.")


@contextmanager
def server(folder: Path, users: str) -> Generator[str]:
    """Its socket; the user `test` may do everything."""
    file = folder / "users.acl"
    file.write_text(f"{users.strip()}\nuser test on >test ~* &* +@all\n")
    with running_with(valkey(), "--aclfile", str(file), login="test:test@") as url:
        yield url.removeprefix("unix://test:test@")


def refusal(url: str, broker: str | None = None) -> str:
    """Why we are not let in; empty when we are."""
    try:
        check_redis(url)
        check_broker(RedisUrls.of(url, broker).broker)
    except RedisUnavailable as exc:
        assert not is_away(exc)
        assert SECRET not in str(exc)
        return str(exc)
    return ""


@pytest.mark.parametrize(("database", "pattern"), [(0, 0), (5, 5)])
def test_the_rights_of_the_guide_are_enough(tmp_path: Path, database: int, pattern: int) -> None:
    with server(tmp_path, rights(pattern)) as socket:
        assert refusal(f"unix://shoal:{SECRET}@{socket}?db={database}") == ""


def test_channels_are_named_after_the_brokers_database(tmp_path: Path) -> None:
    with server(tmp_path, rights(0)) as socket:
        told = refusal(f"unix://shoal:{SECRET}@{socket}?db=5")
    assert f"the broker at redis+socket://***@{socket}" in told
    assert "lets us in, but not do what Shoal needs" in told
    assert "channel" in told
    assert "docs/guides/redis.md" in told


@pytest.mark.parametrize(
    "missing", ["~http.*", "~browser.*", "~control*", "~unacked*", "~_kombu.*", "+@pubsub", "+@transaction"]
)
def test_a_right_that_celery_needs_is_missed_at_once(tmp_path: Path, missing: str) -> None:
    with server(tmp_path, rights().replace(f" {missing}", "")) as socket:
        assert "lets us in, but not do what Shoal needs" in refusal(f"unix://shoal:{SECRET}@{socket}")


def test_so_is_one_that_the_frontier_needs(tmp_path: Path) -> None:
    with server(tmp_path, rights().replace(" +info", "")) as socket:
        told = refusal(f"unix://shoal:{SECRET}@{socket}")
    assert told.startswith("Redis at unix://***@")
    assert "lets us in, but not do what Shoal needs" in told


@pytest.mark.parametrize("login", ["", "shoal:wrong@", "nobody:s3cret@"])
def test_who_is_not_let_in_is_told_so_and_what_to_correct(tmp_path: Path, login: str) -> None:
    with server(tmp_path, rights()) as socket:
        told = refusal(f"unix://{login}{socket}")
    assert "does not let us in" in told
    assert "SHOAL_REDIS_URL" in told


def test_a_broker_of_its_own_is_tried_with_its_own_password(tmp_path: Path) -> None:
    with server(tmp_path, rights()) as socket, running_with(valkey()) as frontier:
        assert refusal(frontier, f"unix://shoal:{SECRET}@{socket}") == ""
        told = refusal(frontier, f"unix://shoal:wrong@{socket}")
    assert f"the broker at redis+socket://***@{socket}" in told
    assert "SHOAL_BROKER_URL" in told


def test_a_redis_that_is_away_can_be_waited_for() -> None:
    with pytest.raises(RedisUnavailable, match="cannot reach Redis") as caught:
        check_redis("redis://127.0.0.1:9")
    assert is_away(caught.value)


@pytest.mark.parametrize("broker", ["redis://127.0.0.1:9", "amqp://127.0.0.1:9"])
def test_a_broker_that_is_away_or_of_another_kind_keeps_nobody_from_starting(broker: str) -> None:
    with running_with(valkey()) as url:
        assert refusal(url, broker) == ""


def test_a_check_takes_nothing_from_the_queues(tmp_path: Path) -> None:
    with running_with(valkey()) as url, connect(f"{url}?db=0") as client:
        client.lpush("http.batch", "a ring")
        assert refusal(url) == ""
        assert (client.lrange("http.batch", 0, -1), client.keys()) == (["a ring"], ["http.batch"])


def test_events_can_be_watched_with_the_rights_of_the_guide(tmp_path: Path) -> None:
    with server(tmp_path, rights(5)) as socket:
        app: Any = make_app(RedisUrls.of(f"unix://shoal:{SECRET}@{socket}?db=5"))
        seen: list[str] = []
        ended = threading.Event()

        def send() -> None:
            with app.connection() as connection, app.events.Dispatcher(connection) as dispatcher:
                while not ended.wait(0.1):
                    dispatcher.send("worker-test")

        with app.connection() as connection:
            receiver = app.events.Receiver(connection, handlers={})

            def note(event: dict[str, str]) -> None:
                seen.append(event["type"])
                receiver.should_stop = True

            receiver.handlers["*"] = note
            sender = threading.Thread(target=send, daemon=True)
            sender.start()
            receiver.capture(limit=None, timeout=20, wakeup=False)
            ended.set()
            sender.join()
        with connect(f"unix://test:test@{socket}") as client:
            denied = [line for line in cast("list[dict[str, str]]", client.acl_log()) if line["username"] == "shoal"]
    assert (set(seen), denied) == ({"worker-test"}, [])
