"""RabbitMQ as the broker: doorbells over it, under the permissions of the guide; nothing that strangers send is run."""

# py-amqp has no type hints: what it gives is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

import amqp
import psutil
import pytest

from shoal.core.model import ALL_QUEUES, CONTROL_QUEUE
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.rabbitmq import connected, has_mailbox, lengths, mailbox_of
from shoal.redis_url import RedisUrls
from tests.command import REPOSITORY, Done, Shoal, end
from tests.conftest import lack
from tests.documents import blocks
from tests.hostile_messages import Canary, ring
from tests.rabbitmq import PASSWORD, RabbitMQ
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

WITHIN = timedelta(seconds=90)
FAST = ("--rate", "unlimited", "--no-robots", "--json", "--quiet")
DATABASE = 5


class _Place:
    """A home with a Redis of the tests and a virtual host of its own."""

    def __init__(self, home: Path, redis_url: str, broker: str) -> None:
        url, prefix = f"{redis_url}?db={DATABASE}", f"rabbit-{uuid4().hex[:8]}"
        names = (("SHOAL_REDIS_URL", url), ("SHOAL_PREFIX", prefix), ("SHOAL_BROKER_URL", broker))
        self.shoal = Shoal(home, (*names, ("SHOAL_LEASE_SECONDS", "3"), ("SHOAL_STALL_SECONDS", "5")))
        self.broker = broker
        self.client = connect(RedisUrls.of(url).frontier)
        self.watch = Watch(self.client, prefix)
        self.prefix = prefix

    def wait_for_workers(self, many: int = 1) -> None:
        wait_until(lambda: len(self.watch.workers()) == many, within=WITHIN)

    def crawl(self, pages: int = 10) -> None:
        """A job that the workers which run bring to its end."""
        with serve(LinkedSite(pages=pages, links=5, size=500)) as site:
            done = self.shoal.run("crawl", site.url, *FAST, "--workers", "0", timeout_s=WITHIN.total_seconds())
            assert (done.code, done.json["pages"], done.json["reconciles"]) == (0, pages, True), done.err


@pytest.fixture
def place(tmp_path: Path, valkey_url: str, rabbitmq: RabbitMQ) -> Iterator[_Place]:
    made = _Place(tmp_path / "home", valkey_url, rabbitmq.new_url())
    yield made
    made.client.close()


def test_a_crawl_runs_over_tls_under_the_permissions_of_the_guide(
    tmp_path: Path, valkey_url: str, rabbitmq: RabbitMQ, certificate: Path
) -> None:
    (rights,) = (b.text.strip() for b in blocks(REPOSITORY / "docs/guides/brokers.md") if b.text.startswith("^(amq"))
    user, vhost = f"least-{uuid4().hex[:6]}", rabbitmq.new_url().rpartition("/")[2]
    rabbitmq.add_user(user, PASSWORD)
    rabbitmq.permit(user, vhost, rights, rights, rights)
    url = rabbitmq.url(vhost, user=user, tls=f"ssl_ca_certs={certificate / 'cert.pem'}")
    place = _Place(tmp_path / "home", valkey_url, url)
    with place.shoal.running("worker", "--queues", "http.high,http.batch,http.slow") as worker:
        place.wait_for_workers()
        place.crawl()
        told = _celery(place.shoal, "inspect", "ping")
        assert "1 node online" in told.out, told.err
        commands = [" ".join(process.cmdline()) for process in place.shoal.processes()]
        worker.send_signal(signal.SIGTERM)
        _, logged = worker.communicate(timeout=30)
    assert worker.returncode == 0
    for text in (logged, told.out, told.err, *commands):
        assert PASSWORD not in text
        assert quote(PASSWORD, safe="") not in text
    place.client.close()


@pytest.mark.parametrize("command", [("worker",), ("jobs",)])
def test_what_is_wrong_is_said_in_a_line_and_ends_a_command_at_once(
    tmp_path: Path, valkey_url: str, rabbitmq: RabbitMQ, command: tuple[str, ...]
) -> None:
    poor = f"poor-{uuid4().hex[:6]}"
    rabbitmq.add_user(poor, "poor")
    taken = rabbitmq.new_url()
    rabbitmq.permit(poor, taken.rpartition("/")[2], "^$", "^$", "^$")
    secret = quote(PASSWORD, safe="")
    for url, *words in (
        (taken.replace(secret, "wrong"), "does not let us in", "SHOAL_BROKER_URL"),
        (rabbitmq.url("nowhere"), "does not let us into the virtual host", "add_vhost"),
        (taken.replace(f"shoal:{secret}", f"{poor}:poor"), "but not do what Shoal needs", "docs/guides/brokers.md"),
        (rabbitmq.url("%2F", tls="ssl_check_hostname=true"), "is not trusted", "ssl_ca_certs"),
    ):
        place = _Place(tmp_path / "home", valkey_url, url)
        done = place.shoal.run(*command, timeout_s=60)
        place.client.close()
        assert done.code != 0, url
        for said in words:
            assert said in done.err
        assert "Traceback" not in done.err
        assert secret not in done.err


def test_a_queue_that_is_not_like_shoals_is_named(place: _Place) -> None:
    with connected(place.broker) as connection:
        connection.channel().queue_declare("http.batch", durable=False, auto_delete=True)
        done = place.shoal.run("worker", timeout_s=60)
    assert done.code == 1
    assert "has a queue of Shoal's name that is not like Shoal's" in done.err
    assert "'http.batch'" in done.err


def test_a_broker_that_is_away_is_waited_for(tmp_path: Path, valkey_url: str, rabbitmq: RabbitMQ) -> None:
    url = rabbitmq.new_url()
    rabbitmq.kill()
    place = _Place(tmp_path / "home", valkey_url, url)
    site = serve(LinkedSite(pages=5, links=5, size=500))
    with site as served, place.shoal.running("worker", "--queues", "http.batch"):
        done = place.shoal.run("crawl", served.url, *FAST, "--detach")
        assert done.code == 0
        rabbitmq.start()
        wait_until(lambda: place.shoal.status(done.json["job"])["state"] == "finished", within=timedelta(seconds=120))
    place.client.close()


def test_each_worker_of_a_machine_has_a_mailbox_and_only_while_it_lives(place: _Place) -> None:
    with place.shoal.running("worker", "--queues", "http.batch") as one, place.shoal.running("worker"):
        place.wait_for_workers(2)
        names = [mailbox_of(worker) for worker in place.watch.workers()]
        with connected(place.broker) as connection:
            assert [has_mailbox(connection, name) for name in [*names, "worker.1@nowhere"]] == [True, True, False]
        assert "2 nodes online" in _celery(place.shoal, "inspect", "ping").out
        one.send_signal(signal.SIGTERM)
        one.communicate(timeout=30)
        with connected(place.broker) as connection:
            left = [name for name in names if has_mailbox(connection, name)]
        assert len(left) == 1


def test_workers_of_containers_that_are_called_alike_have_a_mailbox_each(place: _Place) -> None:
    """With the network of their machine they have its name too, and each is the process 1."""
    with _contained_worker(place.shoal), _contained_worker(place.shoal):
        place.wait_for_workers(2)
        workers = place.watch.workers()
        assert {worker.name.rpartition(":")[2].partition("-")[0] for worker in workers} == {"1"}
        with connected(place.broker) as connection:
            wait_until(lambda: all(has_mailbox(connection, mailbox_of(each)) for each in workers), within=WITHIN)
        assert "2 nodes online" in _celery(place.shoal, "inspect", "ping").out
        place.crawl()


@contextmanager
def _contained_worker(shoal: Shoal) -> Generator[None]:
    """The first process of a container, as far as process ids go."""
    alone = ["unshare", *(["--map-root-user"] if os.geteuid() else []), "--pid", "--mount-proc", "--fork"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        lack("namespaces of processes (unshare of util-linux, and the right to use it)")
    command = [*alone, "--kill-child", sys.executable, "-m", "shoal", "worker", "--queues", "http.batch"]
    process = subprocess.Popen(command, env=shoal.environment, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        process.kill()  # and with it, all in there
        process.communicate(timeout=30)


def test_a_celery_process_that_was_killed_comes_back_to_its_mailbox(place: _Place) -> None:
    with place.shoal.running("worker", "--queues", "http.batch") as worker:
        place.wait_for_workers()
        (before,) = place.watch.workers()
        for process in psutil.Process(worker.pid).children():
            process.kill()
        wait_until(lambda: place.watch.stats().get("restarts:died", 0) == 1, within=WITHIN)
        place.crawl()
        (after,) = place.watch.workers()
    assert after.name == before.name
    assert after.started_ms > before.started_ms


def test_workers_beat_and_commands_go_on_after_the_broker_was_killed_and_was_frozen(
    place: _Place, rabbitmq: RabbitMQ
) -> None:
    """Housekeeping beside slices, a worker that fetches, and a beat: each has connections of its own."""
    with place.shoal.running("worker"), place.shoal.running("beat"):
        place.wait_for_workers()
        place.crawl()
        rabbitmq.kill()
        rabbitmq.start()
        place.crawl()
        _check_that_housekeeping_goes_on(place)
        os.kill(rabbitmq.pid, signal.SIGSTOP)
        wait_until(_later(timedelta(seconds=12)), within=WITHIN)  # longer than anybody waits for an answer
        os.kill(rabbitmq.pid, signal.SIGCONT)
        place.crawl()
        _check_that_housekeeping_goes_on(place)
        (worker,) = place.watch.workers()
        assert worker.slices > 0
        with connected(place.broker) as connection:
            told = lengths(connection, (*ALL_QUEUES, CONTROL_QUEUE))
    assert all(found is not None and found[0] <= 2 for found in told.values()), told


def _later(span: timedelta) -> Any:
    until = datetime.now(UTC) + span
    return lambda: datetime.now(UTC) >= until


def _check_that_housekeeping_goes_on(place: _Place) -> None:
    chores: list[str] = list(place.client.scan_iter(f"{place.prefix}:chore:*"))
    for chore in chores:
        place.client.delete(chore)
    wait_until(lambda: any(place.client.scan_iter(f"{place.prefix}:chore:*")), within=WITHIN)


# --- what strangers send --------------------------------------------------------------------------------------------


def _hostile(canary: Path) -> Iterator[tuple[str, amqp.Message]]:
    """(reason, message) of each."""
    pickled = pickle.dumps(Canary(canary))
    good = ring()["headers"]
    deep: dict[str, Any] = {}
    for _ in range(3_000):
        deep = {"a": deep}

    def made(body: Any, kind: str = "application/json", headers: Any = good, encoding: str = "utf-8") -> amqp.Message:
        data: Any = body if isinstance(body, bytes) else json.dumps(body)
        return amqp.Message(data, content_type=kind, content_encoding=encoding, application_headers=headers)

    call: list[Any] = [["http.batch"], {}, {}]
    yield "content_type", made(pickled, "application/x-python-serialize", encoding="binary")
    yield "not_json", made(pickled)
    yield "content_type", amqp.Message(cast(Any, pickled))
    yield "content_type", made(f"!!python/object/apply:builtins.open [{canary}, w]".encode(), "application/x-yaml")
    yield "content_type", made(call, headers={**good, "compression": "application/x-gzip"})
    yield "too_large", made([["x" * 2_000_000], {}, {}])
    yield "not_json", made(b"[" * 20_000 + b"]" * 20_000)
    yield "unknown_task", made(call, headers={**good, "task": "os.system"})
    yield "malformed", made(call, headers={})
    yield "malformed", made(call, headers={**good, "task": ["x"]})
    yield "malformed", made(call, headers={**good, "root_id": 7})
    yield "arguments", made(call, headers={**good, "eta": "2036-01-01T00:00:00+00:00"})
    yield "arguments", made(call, headers={**good, "timelimit": [1, 1]})
    yield "arguments", made([["http.evil"], {}, {}])
    yield "arguments", made([["http.batch"], {}, {"callbacks": [{"task": "shoal.slice"}]}])
    yield "malformed", made({"__type__": "bytes", "__value__": 7})
    slow = b"x" * 400_000 + b"-" + b"z" * 400_000
    yield "too_large", made(slow, encoding="punycode")  # which would take a minute to decode


def _unreadable(url: str, queue: str) -> Counter[str]:
    """Messages that no client can read, sent as bytes, for none writes them; returns what they are refused for.

    Headers that are nested too deeply, a time in them beyond all years, and an address that is no text.
    """
    deep = b""
    for _ in range(5_000):
        deep = b"\x01aF" + len(deep).to_bytes(4, "big") + deep
    never = b"\x01xT" + (2**60).to_bytes(8, "big")
    with connected(url) as connection:
        channel = connection.channel()
        for table in (deep, never):
            message = amqp.Message("x", content_type="application/json")
            flags = b"\xa0\x00" + b"\x10application/json" + len(table).to_bytes(4, "big") + table
            message._serialize_properties = lambda flags=flags: flags  # pyright: ignore[reportPrivateUsage]
            channel.basic_publish(message, exchange="", routing_key=queue)
        channel.queue_bind(queue, "amq.fanout", "")
        strange: Any = b"\xff\xfe"
        channel.basic_publish(amqp.Message("x", content_type="application/json"), "amq.fanout", strange)
        channel.queue_unbind(queue, "amq.fanout", "")
        channel.close()
    return Counter({"refused:content_type": 2, "refused:malformed": 1})


@pytest.mark.parametrize("queues", [(*ALL_QUEUES, CONTROL_QUEUE), (CONTROL_QUEUE,)], ids=["all queues", "control"])
def test_a_hostile_message_is_refused_and_counted_and_the_worker_goes_on(
    tmp_path: Path, place: _Place, queues: tuple[str, ...]
) -> None:
    canary, expected = tmp_path / "canary", Counter[str]()
    worker = place.shoal.start("worker", "--queues", ",".join(queues), "--beat")
    try:
        place.wait_for_workers()
        (before,) = place.watch.workers()
        with connected(place.broker) as connection:
            channel = connection.channel()
            for reason, message in _hostile(canary):
                for queue in queues:
                    channel.basic_publish(message, exchange="shoal", routing_key=queue)
                    expected[f"refused:{reason}"] += 1
            for reason, body, kind in (
                ("content_type", pickle.dumps(Canary(canary)), "application/x-python-serialize"),
                ("not_json", pickle.dumps(Canary(canary)), "application/json"),
                ("malformed", b"[]", "application/json"),
                ("malformed", b'{"method": 7}', "application/json"),
            ):
                word = amqp.Message(
                    cast(Any, body), content_type=kind, content_encoding="utf-8", application_headers={}
                )
                channel.basic_publish(word, exchange="celery.pidbox", routing_key="")
                expected[f"refused:{reason}"] += 1
        for queue in queues:
            expected += _unreadable(place.broker, queue)

        def counted() -> dict[str, int]:
            return {name: count for name, count in place.watch.stats().items() if name.startswith("refused:")}

        wait_until(lambda: counted() == expected, within=WITHIN)
        assert not canary.exists()
        assert [(beat.name, beat.started_ms) for beat in place.watch.workers()] == [(before.name, before.started_ms)]
        if queues[0] != CONTROL_QUEUE:
            place.crawl()
        _check_that_housekeeping_goes_on(place)
        assert counted() == expected
        worker.send_signal(signal.SIGTERM)
        _, logged = worker.communicate(timeout=60)
    finally:
        end(worker)
    assert worker.returncode == 0
    assert '"event": "messages_refused"' in logged
    assert not [word for word in ("os.system", "xxxx", "python/object", "Traceback") if word in logged]


def _celery(shoal: Shoal, *args: str) -> Done:
    command = [sys.executable, "-m", "celery", "-A", "shoal", *args]
    ended = subprocess.run(
        command, env=shoal.environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False
    )
    return Done(ended.returncode, ended.stdout, ended.stderr)
