"""What is judged without asking anybody."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from shoal import __version__
from shoal.core.egress import Egress
from shoal.core.fleet import QueueDepth, WorkerBeat
from shoal.doctor import broker, clock, database, fleet, network
from shoal.doctor import redis as redis_check
from shoal.doctor import settings as settings_check
from shoal.doctor.environment import Reading
from shoal.doctor.finding import Finding, Level
from shoal.doctor.ground import Ground, database_number, placed_like, redis_cli
from shoal.doctor.machine import file_system_of, memory_megabytes
from shoal.settings import Settings
from shoal.store.database import HEAD
from shoal.store.inspection import Sight
from tests.hostile_messages import hostile, ring

URL = "redis://127.0.0.1:6379/2"
CLI = "redis-cli -h 127.0.0.1 -p 6379"
WELL: dict[str, Any] = {"redis_version": "7.2.4", "aof_enabled": 1, "maxmemory_policy": "noeviction", "used_memory": 1}


def codes(findings: list[Finding]) -> list[tuple[str, Level]]:
    return [(finding.code, finding.level) for finding in findings]


# --- Redis ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, [("ok", Level.OK)]),
        ({"redis_version": "6.2.14"}, [("redis_old", Level.ERROR), ("ok", Level.OK)]),
        ({"aof_enabled": 0}, [("redis_not_persistent", Level.WARNING)]),
        ({"maxmemory_policy": "allkeys-lru"}, [("redis_evicts", Level.WARNING)]),
        ({"maxmemory_policy": "allkeys-lru", "maxmemory": 100}, [("redis_evicts", Level.ERROR)]),
        ({"maxmemory": 100, "used_memory": 95}, [("redis_nearly_full", Level.WARNING)]),
        ({"role": "master", "connected_slaves": 1}, [("redis_writes_alone", Level.WARNING)]),
        ({"role": "master", "connected_slaves": 1, "min_slaves_good_slaves": 1}, [("ok", Level.OK)]),
        ({"role": "master", "connected_slaves": 0}, [("ok", Level.OK)]),
        ({"role": "slave", "connected_slaves": 1}, [("ok", Level.OK)]),
        ({"loading": 1}, [("redis_loading", Level.WARNING), ("ok", Level.OK)]),
    ],
)
def test_what_a_server_says_about_itself_is_judged(told: dict[str, Any], expected: list[tuple[str, Level]]) -> None:
    assert codes(list(redis_check.judge({**WELL, **told}, URL, "Redis"))) == expected


@pytest.mark.parametrize(
    ("limit_mb", "machine_mb", "mend"),
    [
        (1_000, 0, f"{CLI} config set maxmemory 2001mb"),
        (1_000, 16_000, f"{CLI} config set maxmemory 2001mb"),
        (1_000, 2_000, f"{CLI} config set maxmemory 1501mb"),
        (1_000, 1_400, "export SHOAL_REDIS_URL=redis://LARGER:6379"),
        (3_000, 2_000, "export SHOAL_REDIS_URL=redis://LARGER:6379"),
    ],
)
def test_a_full_redis_is_given_no_more_memory_than_its_machine_has(limit_mb: int, machine_mb: int, mend: str) -> None:
    limit, machine = limit_mb * 2**20, machine_mb * 2**20
    told = {**WELL, "maxmemory": limit, "used_memory": limit - 1, "total_system_memory": machine}
    for is_full in (False, True):
        (finding,) = redis_check.judge(told, URL, "Redis", is_full=is_full)
        assert (finding.code, finding.mend) == ("redis_full" if is_full else "redis_nearly_full", mend)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://10.0.0.5", "redis-cli -h 10.0.0.5 -p 6379"),
        (
            "rediss://shoal:hunter2@redis.internal:6380/2",
            "redis-cli -h redis.internal -p 6380 --tls --user shoal --askpass",
        ),
        ("unix://:hunter2@/run/redis.sock?db=5", "redis-cli -s /run/redis.sock --askpass"),
    ],
)
def test_a_server_is_asked_by_hand_without_its_password_being_shown(url: str, words: str) -> None:
    assert redis_cli(url) == words


def test_the_number_of_a_database_is_read_from_its_url() -> None:
    assert [database_number(url) for url in (URL, "redis://h", "unix:///s?db=7", "unix:///s")] == [2, 0, 7, 0]


# --- broker and fleet -------------------------------------------------------------------------------------------------


def test_messages_are_judged_as_workers_judge_them(tmp_path: Path) -> None:
    raws = [raw for _, _, raw in hostile(tmp_path / "canary")]
    ours = json.dumps(ring()).encode()
    tasks, reasons = broker.judge([ours, *raws])
    assert tasks == {"os.system": 1, "celery.backend_cleanup": 1}
    assert sum(reasons.values()) == len(raws) - 2
    assert not (tmp_path / "canary").exists()
    assert broker.judge([ours]) == ({}, {})


def worker(name: str = "here:7", queues: tuple[str, ...] = ("http.batch", "control"), **more: Any) -> WorkerBeat:
    return WorkerBeat(name, queues, 1, 0, 0, 50, 0, more.get("version", __version__), schema=more.get("schema", HEAD))


def test_a_worker_that_has_no_mailbox_at_a_broker_is_not_there() -> None:
    bound = {"\x06\x16\x06\x16worker@here.celery.pidbox"}
    assert broker.unheard([worker(), worker("there:7")], bound) == [worker("there:7")]
    assert broker.node_of(worker(queues=("control",))) == "control@here"


@pytest.mark.parametrize(
    ("alive", "expected"),
    [
        ([], ["no_worker"]),
        ([worker()], ["unserved_queue", "ok"]),
        ([worker(queues=("browser.slow",))], ["no_housekeeping", "ok"]),
        ([worker(queues=("browser.slow", "control"), version="0.0.1")], ["other_version", "ok"]),
    ],
)
def test_workers_are_held_against_what_waits(alive: list[WorkerBeat], expected: list[str]) -> None:
    found = list(fleet.judge(alive, [QueueDepth("browser.slow", 1, 0, 0, 1), QueueDepth("http.high", 0, 0, 0, 0)]))
    assert [finding.code for finding in found] == expected


def test_nobody_to_keep_house_is_worse_where_somebody_counts_on_it() -> None:
    for level in (Level.WARNING, Level.ERROR):
        found = list(fleet.judge([worker(queues=("http.batch",))], [], without_house=level))
        assert codes(found)[0] == ("no_housekeeping", level)


def test_a_fleet_that_has_nothing_to_do_needs_no_worker() -> None:
    assert codes(list(fleet.judge([], []))) == [("note", Level.NOTE)]


def test_work_of_paused_jobs_waits_for_nobody() -> None:
    assert codes(list(fleet.judge([], [QueueDepth("browser.batch", 5, 2, 0, 0)]))) == [("note", Level.NOTE)]


# --- commands to paste ------------------------------------------------------------------------------------------------


def test_what_stands_in_a_command_cannot_be_another_command() -> None:
    finding = network.NO_NAME.found("x", name="shop;id $(id) `id`")
    assert shlex.split(finding.mend) == ["getent", "hosts", "shop;id $(id) `id`"]
    assert redis_cli("unix:///tmp/a b/redis.sock") == "redis-cli -s '/tmp/a b/redis.sock'"


def test_a_command_for_a_misspelt_secret_keeps_its_value() -> None:
    named = frozenset({"SHOAL_FLOWER_PASWORD"})
    (finding,) = settings_check.variables(Ground(Reading(Settings(), {}, named), None, frozenset))
    assert finding.mend == 'export SHOAL_FLOWER_PASSWORD="$SHOAL_FLOWER_PASWORD"; unset SHOAL_FLOWER_PASWORD'


def test_a_server_of_the_same_kind_is_named_with_a_login_to_fill_in() -> None:
    assert placed_like("rediss://me:hidden@h:6380/0", "other:6380/9") == "rediss://user:password@other:6380/9"
    assert placed_like("unix:///run/redis.sock", "other:6379") == "redis://other:6379"


# --- database, network, clock, machine --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sight", "code"),
    [
        (Sight(HEAD, 30, None), "ok"),
        (Sight("0001", 30, None), "schema_older"),
        (Sight("9999", 30, None), "schema_newer"),
        (Sight("9999", 30, None, "9998"), "schema_newer"),
        (Sight("1975ea83b712", 30, None), "database_not_ours"),
        (Sight(None, 3, None), "database_not_ours"),
        (Sight(None, 0, None), "note"),
    ],
)
def test_a_schema_is_held_against_ours(sight: Sight, code: str) -> None:
    assert database.judge(sight, "sqlite:///x").code == code


def test_a_newer_schema_says_which_shoal_can_work_with_it() -> None:
    finding = database.judge(Sight("9999", 30, None, "9998", "99.0"), "x")
    known = f"this Shoal, {__version__}, knows those up to {HEAD}"
    assert finding.what == f"x has the schema 9999, made by Shoal 99.0, and {known}"
    assert finding.mend == "pip install 'shoal>=99.0'"


def test_a_newer_schema_that_we_can_work_with_is_but_a_warning() -> None:
    levels = {
        usable_from: database.judge(Sight("9999", 30, None, usable_from), "x").level
        for usable_from in (None, HEAD, "9998")
    }
    assert levels == {None: Level.ERROR, HEAD: Level.WARNING, "9998": Level.ERROR}


@pytest.mark.parametrize(
    ("url", "code"),
    [("nonsense", "database_url"), ("mysql://h/x", "database_driver"), ("postgresql://u:p@x@h/d", "database_url")],
)
def test_a_database_that_nobody_could_ask_is_told(url: str, code: str) -> None:
    ground = Ground(Reading(Settings(database_url=url), {}, frozenset()), None, frozenset)
    (finding,) = database.schema(ground)
    assert (finding.code, finding.level) == (code, Level.ERROR)


def test_a_system_without_time_zones_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "ZONE", "Nowhere/At_All")
    ground = Ground(Reading(Settings(), {}, frozenset()), None, frozenset)
    (finding,) = clock.zones(ground)
    assert (finding.code, finding.mend) == ("no_time_zones", "pip install tzdata")


@pytest.mark.parametrize(
    ("address", "allow", "code"),
    [
        ("93.184.216.34", "", "ok"),
        ("10.0.0.7", "", "egress_closed"),
        ("10.0.0.7", "10.0.0.0/8", "ok"),
        ("169.254.169.254", "169.254.0.0/16", "egress_closed"),
    ],
)
def test_a_host_may_be_asked_or_not(address: str, allow: str, code: str) -> None:
    (finding,) = network.judge("host.example", [address], Egress.read(allow))
    assert finding.code == code


@pytest.mark.parametrize(
    ("theirs", "code", "level"),
    [
        (100_000, "ok", Level.OK),
        (101_900, "ok", Level.OK),
        (105_000, "clock_skew", Level.WARNING),
        (95_000, "clock_skew", Level.WARNING),
        (200_000, "clock_skew", Level.ERROR),
    ],
)
def test_clocks_are_compared(theirs: int, code: str, level: Level) -> None:
    finding = clock.compare("Redis", lambda: theirs, lambda: 100.0)
    assert (finding.code, finding.level) == (code, level)


def test_an_answer_that_took_long_is_no_skew() -> None:
    times = iter((100.0, 110.0))
    assert clock.compare("Redis", lambda: 105_000, lambda: next(times)).level is Level.OK


def test_the_file_system_of_a_path_is_that_of_its_longest_mount() -> None:
    mounts = "/dev/a / ext4 rw 0 0\nserver:/x /srv/shared nfs4 rw 0 0\nb /srv/my\\040disk xfs rw 0 0\n"
    places = ("/home/x/shoal.db", "/srv/shared/shoal.db", "/srv/shared2/x", "/srv/my disk/x")
    assert [file_system_of(Path(place), mounts) for place in places] == ["ext4", "nfs4", "ext4", "xfs"]
    assert memory_megabytes() > 100
