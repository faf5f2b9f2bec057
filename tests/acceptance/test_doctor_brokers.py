"""Faults of sentinels and of RabbitMQ, prepared with real ones: `shoal doctor` recognises each."""

# py-amqp has no type hints: what falls into the gap is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import amqp
import pytest

from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.rabbitmq import connected
from shoal.redis_url import RedisUrls
from tests.acceptance.test_doctor import SECRET, WITHIN, all_found, found, look
from tests.command import Shoal
from tests.conftest import lack
from tests.rabbitmq import RabbitMQ
from tests.sentinels import running_sentinels
from tests.servers import redis as redis_server
from tests.waiting import wait_until


def test_sentinels_that_are_few_away_or_without_a_replica_are_told(shoal: Shoal) -> None:
    binary = redis_server()
    if binary is None:
        lack("redis-server 7.0 or newer is not on the PATH, and it is the one that can be a sentinel")
    with running_sentinels(binary) as family:
        finding = found(shoal, "redis_writes_alone", "warning", SHOAL_REDIS_URL=family.url)
        cli, _, words = finding["mend"].partition(" config set ")
        assert (cli, words.split()[:2]) == (
            f"redis-cli -h 127.0.0.1 -p {family.primary()}",
            ["min-replicas-to-write", "1"],
        )
        with family.server(family.primary()) as primary:  # as the command does
            primary.config_set(*words.split())
        wait_until(lambda: _troubles(shoal, family.url) <= {"redis_not_persistent"}, within=WITHIN)
        family.kill(family.servers[1])
        family.kill(family.sentinels[1])
        family.kill(family.sentinels[2])
        wait_until(lambda: "no_quorum" in _troubles(shoal, family.url), within=WITHIN)
        wait_until(lambda: "no_replica" in _troubles(shoal, family.url), within=WITHIN)
        _, findings = look(shoal, SHOAL_REDIS_URL=family.url)
        away = [each for each in findings if each["code"] == "sentinel_away"]
        assert [each["mend"] for each in away] == [
            f"redis-cli -h 127.0.0.1 -p {port} ping" for port in family.sentinels[1:]
        ]
        family.kill(family.sentinels[0])
        finding = found(shoal, "no_primary", SHOAL_REDIS_URL=family.url)
        assert finding["mend"] == f"redis-cli -h 127.0.0.1 -p {family.sentinels[0]} sentinel masters"


def _troubles(shoal: Shoal, url: str) -> set[str]:
    _, findings = look(shoal, SHOAL_REDIS_URL=url)
    return {each["code"] for each in findings if each["area"] == "redis" and each["level"] in ("warning", "error")}


def test_a_rabbitmq_that_refuses_us_is_told(shoal: Shoal, rabbitmq: RabbitMQ, valkey_url: str) -> None:
    def told(code: str, broker: str) -> str:
        return found(shoal, code, SHOAL_REDIS_URL=f"{valkey_url}?db=6", SHOAL_BROKER_URL=broker)["mend"]

    user, taken = f"poor-{uuid4().hex[:6]}", rabbitmq.new_url()
    vhost = taken.rpartition("/")[2]
    rabbitmq.add_user(user, SECRET)
    assert told("rabbitmq_unreachable", f"amqp://shoal:{SECRET}@127.0.0.1:9") == "rabbitmq-diagnostics -q ping"
    wrong = rabbitmq.url(vhost, password=SECRET)
    assert told("rabbitmq_login", wrong) == "rabbitmqctl authenticate_user shoal PASSWORD"
    poor = rabbitmq.url(vhost, user=user, password=SECRET)
    assert told("rabbitmq_vhost", poor).startswith(f"rabbitmqctl add_vhost {vhost} && rabbitmqctl set_permissions")
    rabbitmq.permit(user, vhost, "^$", "^$", "^$")
    assert told("rabbitmq_rights", poor) == f"rabbitmqctl list_user_permissions {user}"
    assert "ssl_ca_certs" in told("rabbitmq_certificate", rabbitmq.url(vhost, tls="ssl_check_hostname=true"))


def test_what_is_wrong_about_a_rabbitmq_that_works_is_told(
    shoal: Shoal, rabbitmq: RabbitMQ, valkey_url: str, certificate: Path
) -> None:
    place, plain = {"SHOAL_REDIS_URL": f"{valkey_url}?db=6"}, rabbitmq.new_url()
    with connected(plain) as connection:
        channel = connection.channel()
        channel.queue_declare("http.batch", durable=True, auto_delete=False)
        for _ in range(10):
            channel.basic_publish(amqp.Message("ring"), exchange="", routing_key="http.batch")
        channel.queue_declare("http.batch", passive=True)
    kinds = {"unheard_rings": "warning", "slice_too_long": "warning"}
    unheard, _ = all_found(shoal, kinds, **{**place, "SHOAL_BROKER_URL": plain, "SHOAL_SLICE_SECONDS": "2000"})
    assert unheard["mend"] == "shoal worker --queues http.batch"
    trusting = rabbitmq.new_url(tls=f"ssl_ca_certs={certificate / 'cert.pem'}&ssl_cert_reqs=none")
    found(shoal, "rabbitmq_plain", "warning", **place, SHOAL_BROKER_URL=trusting)


def test_a_queue_that_is_not_like_shoals_is_told(shoal: Shoal, rabbitmq: RabbitMQ, valkey_url: str) -> None:
    url = rabbitmq.new_url()
    with connected(url) as connection:
        connection.channel().queue_declare("control", durable=False, auto_delete=True)
        finding = found(shoal, "rabbitmq_queue", SHOAL_REDIS_URL=f"{valkey_url}?db=6", SHOAL_BROKER_URL=url)
    assert "'control'" in finding["what"]


@pytest.mark.parametrize("queues", ["http.batch", "control"])
def test_a_worker_that_listens_is_heard_and_one_of_another_broker_is_told(
    shoal: Shoal, rabbitmq: RabbitMQ, valkey_url: str, queues: str
) -> None:
    redis, prefix = f"{valkey_url}?db=6", f"doctor-{uuid4().hex[:8]}"
    place = {"SHOAL_REDIS_URL": redis, "SHOAL_PREFIX": prefix, "SHOAL_BROKER_URL": rabbitmq.new_url()}
    watch = Watch(connect(RedisUrls.of(redis).frontier), prefix)
    with Shoal(shoal.home, tuple(place.items())).running("worker", "--queues", queues):
        wait_until(lambda: bool(watch.workers()), within=WITHIN)
        _, findings = look(shoal, **place)
        told = [each["what"] for each in findings if each["area"] == "broker"]
        assert "all workers (1) listen to it" in told
        found(shoal, "other_broker", "warning", **{**place, "SHOAL_BROKER_URL": rabbitmq.new_url()})
    watch.close_connections()
