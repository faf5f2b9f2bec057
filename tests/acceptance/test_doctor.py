"""Faults that were prepared with real parts: `shoal doctor` recognises each, and names the command that mends it."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import pickle
import resource
import shlex
import socket
import sqlite3
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from celery import Celery

from shoal.core.fleet import WorkerBeat
from shoal.core.trouble import Need, Trouble
from shoal.doctor.finding import Level
from shoal.doctor.machine import is_container
from shoal.embedded import hold_embedded, server_process
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect
from shoal.frontier.troubles import TroubleBoard
from shoal.redis_url import RedisUrls, redis_of
from shoal.store.database import open_database
from shoal.store.tables import pages
from tests.command import Done, Shoal
from tests.documents import REPOSITORY
from tests.postgres import Postgres
from tests.s3 import S3
from tests.servers import running_with, valkey
from tests.small_disk import fill, small_disk
from tests.waiting import wait_until

HERE = "http://127.0.0.1:9/"
"""A site of this machine: nobody is asked beyond it."""
SECRET = "s3cret-pass"
WITHIN = timedelta(seconds=30)
AT_MOST_S = 15.0


def look(shoal: Shoal, site: str = HERE, **variables: str) -> tuple[Done, list[dict[str, Any]]]:
    """The findings, under more variables."""
    done = with_variables(shoal, **variables).run("doctor", site, "--json", timeout_s=60)
    assert "Traceback" not in done.err, done.err
    findings = done.json["findings"]
    assert done.json["well"] == all(finding["level"] != Level.ERROR for finding in findings)
    assert done.code == (0 if done.json["well"] else 1)
    assert [finding for finding in findings if finding["code"] in ("check_failed", "check_stuck")] == []
    return done, findings


def found(shoal: Shoal, code: str, level: str = "error", site: str = HERE, **variables: str) -> dict[str, Any]:
    """The one finding of this kind; whatever else is wrong."""
    return all_found(shoal, {code: level}, site, **variables)[0]


def all_found(shoal: Shoal, levels: Mapping[str, str], site: str = HERE, **variables: str) -> list[dict[str, Any]]:
    """The one finding of each of these kinds, in one look."""
    done, findings = look(shoal, site, **variables)
    assert SECRET not in done.out
    chosen: list[dict[str, Any]] = []
    for code, level in levels.items():
        (finding,) = (each for each in findings if each["code"] == code)
        assert finding["level"] == level
        assert finding["means"]
        assert finding["mend"]
        chosen.append(finding)
    return chosen


def with_variables(shoal: Shoal, **variables: str) -> Shoal:
    named = {**dict(shoal.extra), **variables}
    return Shoal(shoal.home, tuple(named.items()))


@pytest.fixture(scope="module")
def durable() -> Generator[str]:
    """A server as it should be."""
    with running_with(valkey(), "--appendonly", "yes") as url:
        yield url


@pytest.fixture
def url(durable: str) -> Generator[str]:
    """The same, empty."""
    with connect(durable) as client:
        client.flushall()
        yield durable


@pytest.fixture
def beside(shoal: Shoal, url: str) -> Shoal:
    """Commands on a home that uses this server."""
    return with_variables(shoal, SHOAL_REDIS_URL=url)


# --- nothing is wrong -------------------------------------------------------------------------------------------------


def test_an_installation_that_is_well_is_called_so_and_left_as_it_is(beside: Shoal, url: str) -> None:
    done, findings = look(beside, SHOAL_EGRESS_ALLOW="127.0.0.1")
    assert {finding["code"] for finding in findings} <= {"ok", "note", "egress_open", "disk_nearly_full"}
    assert done.code == 0
    assert not beside.home.exists()
    with connect(url) as client:
        assert client.info("keyspace") == {}


@pytest.mark.embedded
def test_a_new_home_is_well_and_no_redis_is_started_for_the_look(shoal: Shoal) -> None:
    done = shoal.run("doctor", HERE, "--all")
    assert (done.code, done.err) == (0, "")
    assert "the embedded Redis does not run; a command starts it" in done.out
    assert done.out.splitlines()[-1].startswith("0 errors, ")
    assert not shoal.home.exists()
    assert shoal.processes() == []


def test_findings_are_told_to_people_by_area_with_their_meaning_and_the_command(shoal: Shoal) -> None:
    done = with_variables(shoal, SHOAL_SOKETS="7").run("doctor", HERE)
    lines = done.out.splitlines()
    assert lines[0] == "! settings"
    assert lines[1] == "  ! SHOAL_SOKETS is set, and there is no such setting: is SHOAL_SOCKETS meant?"
    assert lines[2] == "    Nothing reads this variable: what it should set has its default."
    assert lines[3] == '    → export SHOAL_SOCKETS="$SHOAL_SOKETS"; unset SHOAL_SOKETS'
    assert done.code == 0


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_variable_that_nothing_reads_is_told_with_the_one_that_is_meant(shoal: Shoal) -> None:
    finding = found(shoal, "unknown_variable", "warning", SHOAL_CONCURENCY="4", SHOAL_RATE="unlimited")
    assert "SHOAL_CONCURRENCY" in finding["what"]
    assert finding["mend"] == 'export SHOAL_CONCURRENCY="$SHOAL_CONCURENCY"; unset SHOAL_CONCURENCY'


def test_a_bad_value_and_a_browser_that_is_not_there_are_told_beside_each_other(shoal: Shoal) -> None:
    faults = {"SHOAL_SOCKETS": "many", "SHOAL_BROWSER": "/nowhere/chromium"}
    bad, missing = all_found(shoal, {"bad_value": "error", "no_browser": "error"}, **faults)
    assert bad["what"].startswith("SHOAL_SOCKETS: ")
    assert bad["mend"] == "export SHOAL_SOCKETS=128"
    assert missing["mend"] == "unset SHOAL_BROWSER"


def test_a_url_without_its_password_percent_encoded_is_told_without_it(shoal: Shoal) -> None:
    finding = found(shoal, "bad_url", SHOAL_REDIS_URL=f"redis://:{SECRET}/1@127.0.0.1:6379")
    assert finding["mend"] == "export SHOAL_REDIS_URL=redis://HOST:6379"


def test_a_broker_in_the_database_of_the_frontier_is_told(beside: Shoal, url: str) -> None:
    finding = found(beside, "shared_database", SHOAL_BROKER_URL=f"{url}?db=2")
    assert finding["mend"] == "unset SHOAL_BROKER_URL"


def test_a_file_of_proxies_that_cannot_be_read_is_told(shoal: Shoal, tmp_path: Path) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools: {own: {lists: []}}", encoding="utf-8")
    finding = found(shoal, "bad_file", SHOAL_PROXIES_FILE=str(pools))
    assert finding["mend"].endswith(f" {pools}")


def test_too_few_open_files_and_too_little_memory_are_told(shoal: Shoal) -> None:
    crowd = {"SHOAL_SOCKETS": "4096", "SHOAL_CONCURRENCY": "256", "SHOAL_RECYCLE_MEGABYTES": "100000"}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
    try:
        in_full = with_variables(shoal, PYTHONUTF8="1", **crowd)  # a process of its own, with our limits
        files, memory = all_found(in_full, {"few_open_files": "warning", "little_memory": "warning"})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert files["mend"] == "ulimit -n 65536"
    assert memory["mend"] == "export SHOAL_CONCURRENCY=1"


# --- Redis ------------------------------------------------------------------------------------------------------------


def test_a_redis_that_is_not_there_is_told_once(shoal: Shoal) -> None:
    finding = found(shoal, "redis_unreachable", SHOAL_REDIS_URL=f"redis://:{SECRET}@127.0.0.1:1")
    assert "refused" in finding["what"]
    mend = "export SHOAL_REDIS_URL=redis://redis:6379" if is_container() else "systemctl start redis-server"
    assert finding["mend"] == mend


@pytest.mark.embedded
def test_an_embedded_redis_that_is_frozen_is_told_with_its_process(shoal: Shoal) -> None:
    hold = hold_embedded(shoal.home)
    server = psutil.Process(server_process(shoal.home))
    server.suspend()
    try:
        assert found(shoal, "redis_silent")["mend"] == f"kill -CONT {server.pid}"
    finally:
        server.resume()
        hold.release()


def test_a_wrong_password_and_missing_rights_are_told(shoal: Shoal, tmp_path: Path) -> None:
    users = tmp_path / "users.acl"
    users.write_text("user default off\nuser shoal on >right ~shoal* +@all\nuser test on >test ~* &* +@all\n")
    with running_with(valkey(), "--aclfile", str(users), login="test:test@") as url:
        place = url.rpartition("@")[2]
        finding = found(shoal, "redis_login", SHOAL_REDIS_URL=f"unix://shoal:{SECRET}@{place}")
        assert finding["mend"].startswith("export SHOAL_REDIS_URL=")
        finding = found(shoal, "redis_rights", SHOAL_REDIS_URL=f"unix://shoal:right@{place}")
        words = shlex.split(finding["mend"])
        assert words[:6] == ["redis-cli", "-s", place, "--askpass", "acl", "setuser"]
        assert words[6:] == _documented_rights()


def _documented_rights() -> list[str]:
    """Of the guide, without the password."""
    text = (REPOSITORY / "docs" / "guides" / "redis.md").read_text(encoding="utf-8")
    (line,) = (each for each in text.splitlines() if each.startswith("user shoal on "))
    return [word for word in line.split()[1:] if word != "on" and not word.startswith(">")]


def test_a_redis_that_throws_data_away_or_forgets_is_told(shoal: Shoal) -> None:
    with running_with(valkey(), "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru") as url:
        cli = f"redis-cli -s {url.removeprefix('unix://')}"
        kinds = {"redis_evicts": "error", "redis_not_persistent": "warning"}
        evicts, forgets = all_found(shoal, kinds, SHOAL_REDIS_URL=url)
        assert evicts["mend"] == f"{cli} config set maxmemory-policy noeviction"
        assert forgets["mend"] == f"{cli} config set appendonly yes"


def test_a_redis_without_memory_is_told(beside: Shoal, url: str) -> None:
    ballast = 64 << 20  # beside which it matters little what connections take that come and go
    with connect(url) as client:
        client.config_set("maxmemory", "1mb")
        try:
            assert "config set maxmemory " in found(beside, "redis_full")["mend"]
            client.config_set("maxmemory", "0")
            client.setrange("ballast", ballast, "x")
            client.config_set("maxmemory", int(client.info("memory")["used_memory"] * 1.05))
            assert found(beside, "redis_nearly_full", "warning")
        finally:
            client.config_set("maxmemory", "0")
            client.delete("ballast")


def test_a_replica_and_a_full_disk_are_told(shoal: Shoal) -> None:
    with running_with(valkey(), "--dbfilename", "taken") as url, connect(url) as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        finding = found(shoal, "redis_read_only", SHOAL_REDIS_URL=url)
        assert finding["mend"] == "export SHOAL_REDIS_URL=redis://127.0.0.1:1"
        client.execute_command("REPLICAOF", "NO", "ONE")
        (Path(url.removeprefix("unix://")).parent / "taken").mkdir()
        client.config_set("save", "3600 1")
        client.bgsave()
        wait_until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", within=WITHIN)
        assert found(shoal, "redis_disk", SHOAL_REDIS_URL=url)["mend"].startswith("df -h ")
        client.config_set("save", "")  # or it would not end without a save


def test_a_cluster_is_told(shoal: Shoal) -> None:
    with running_with(valkey(), "--cluster-enabled", "yes") as url:
        assert "config get databases" in found(shoal, "redis_databases", SHOAL_REDIS_URL=url)["mend"]


def test_a_redis_that_is_too_old_is_told(shoal: Shoal) -> None:
    """There is none to be had that old: one that says so stands in its place."""
    with _speaking_like("redis_version:6.2.14\r\naof_enabled:1\r\n") as url:
        done = with_variables(shoal, SHOAL_REDIS_URL=url).run("doctor", HERE, "--json")
    (finding,) = (each for each in done.json["findings"] if each["code"] == "redis_old")
    assert (done.code, finding["level"]) == (1, "error")
    assert "valkey-server" in finding["mend"]


@contextmanager
def _speaking_like(info: str) -> Generator[str]:
    """Whatever it is asked, it tells this about itself."""
    told = f"${len(info)}\r\n{info}\r\n".encode()

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(peer,), daemon=True).start()

    def answer(peer: socket.socket) -> None:
        with peer:
            while asked := peer.recv(65_536):
                for word in asked.split(b"*")[1:]:
                    greeting = b"%1\r\n+proto\r\n:3\r\n" if b"HELLO" in word else b"+OK\r\n"
                    peer.sendall(told if b"\r\nINFO" in word else greeting)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"


# --- broker and fleet -------------------------------------------------------------------------------------------------


def test_tasks_of_another_application_in_our_queues_and_its_own_are_told(beside: Shoal, url: str) -> None:
    path = url.removeprefix("unix://")
    other = Celery("crawler", broker=f"redis+socket://{path}?virtual_host=0", set_as_current=False)
    other.send_task("crawler.tasks.fetch_url", args=["http://a.example/"], queue="control")
    other.send_task("crawler.tasks.fetch_url", args=["http://a.example/"])
    other.close()
    done, findings = look(beside)
    assert done.code == 1
    (finding,) = (each for each in findings if each["code"] == "unregistered_task")
    assert "crawler.tasks.fetch_url" in finding["what"]
    assert finding["mend"] == f"export SHOAL_BROKER_URL='unix://{path}?db=9'"
    shared = [each for each in findings if each["code"] == "shared_broker"]
    assert [each["what"] for each in shared if "'celery', with 1 messages" in each["what"]]
    assert shared[0]["mend"] == f"export SHOAL_BROKER_URL='unix://{path}?db=9'"


def test_pickled_messages_are_told_and_not_opened(beside: Shoal, url: str) -> None:
    with connect(url) as client:
        client.lpush("http.batch", pickle.dumps({"task": "x"}))
    finding = found(beside, "strange_message")
    assert "1 not_json" in finding["what"]
    assert finding["mend"] == f"redis-cli -s {url.removeprefix('unix://')} -n 0 client list"


def test_messages_that_were_dropped_and_workers_that_died_or_wait_are_told(beside: Shoal, url: str) -> None:
    with connect(RedisUrls.of(url).frontier) as client:
        client.hset("shoal:stats", mapping={"refused:unknown_task": 3, "restarts:died": 2})
        TroubleBoard(client, "shoal").tell("here:7", [Trouble(Need.DATABASE, "the disk is full", 9_000)], {})
    kinds = {"messages_refused": "warning", "workers_died": "warning", "workers_wait": "error"}
    refused, died, wait = all_found(beside, kinds)
    assert "3 unknown_task" in refused["what"]
    assert died["mend"] == "export SHOAL_CONCURRENCY=1 SHOAL_RECYCLE_MEGABYTES=256"
    assert "the disk is full" in wait["what"]


def test_work_that_nobody_does_and_a_queue_that_nobody_serves_are_told(beside: Shoal, url: str) -> None:
    assert beside.run("scrape", "http://127.0.0.1:9/a", "--browser", "--detach").code == 0
    finding = found(beside, "no_worker")
    assert finding["mend"] == "shoal worker --queues browser.batch,control --beat"
    with living(url, queues=("http.batch", "control")):
        assert found(beside, "unserved_queue")["mend"] == "shoal worker --queues browser.batch"
    other = Shoal(beside.home.parent / "other", beside.extra)
    _database(other)
    assert "SHOAL_DATABASE_URL" in found(other, "other_database")["mend"]


def test_jobs_that_redis_has_lost_are_told(beside: Shoal, url: str) -> None:
    job = beside.run("scrape", "http://127.0.0.1:9/a", "--detach").out.strip()
    with connect(url) as client:
        client.flushall()
    with sqlite3.connect(beside.home / "shoal.db") as database:
        database.execute("UPDATE jobs SET created_ms = created_ms - 3600000")
    database.close()
    finding = found(beside, "lost_jobs", "warning")
    assert job in finding["what"]
    assert finding["mend"] == "shoal recover"


def test_workers_of_another_version_and_without_housekeeping_are_told(beside: Shoal, url: str) -> None:
    with living(url, queues=("http.batch",), version="0.0.1", host="elsewhere"), living(url, queues=("http.high",)):
        kinds = {"other_version": "warning", "no_housekeeping": "warning", "apart_databases": "error"}
        version, house, apart = all_found(beside, kinds)
    assert "0.0.1" in version["what"]
    assert version["mend"].startswith("pip install shoal==")
    assert house["mend"] == "shoal worker --queues control --beat"
    assert "elsewhere" in apart["what"]
    assert apart["mend"].startswith("export SHOAL_DATABASE_URL=postgresql://")


@contextmanager
def living(url: str, *, queues: tuple[str, ...], version: str | None = None, host: str = "here") -> Generator[None]:
    """A worker's sign of life."""
    from shoal import __version__
    from shoal.store.database import HEAD

    frontier = Frontier.at(RedisUrls.of(url).frontier)
    beat = WorkerBeat(f"{host}:7", queues, 1, 0, 0, 50, 0, version or __version__, schema=HEAD)
    frontier.crew.heartbeat(beat)
    try:
        yield
    finally:
        frontier.crew.depart(beat.name)
        frontier.close_connections()


def test_a_worker_without_a_beat_and_at_another_broker_is_told_and_then_is_well(beside: Shoal, url: str) -> None:
    elsewhere = with_variables(beside, SHOAL_BROKER_URL=f"{url}?db=7")
    assert elsewhere.run("schedule", "add", "rarely", HERE, "--every", "6h").code == 0
    with elsewhere.running("worker", "--queues", "control", "--log-level", "error"):
        frontier = RedisUrls.of(url).frontier
        with connect(frontier) as client:
            wait_until(lambda: bool(client.zcard("shoal:workers")), within=WITHIN)
            broker = redis_of(RedisUrls.of(url, f"{url}?db=7").broker) or ""
        with connect(broker) as client:
            wait_until(lambda: bool(client.exists("_kombu.binding.celery.pidbox")), within=WITHIN)
        _, findings = look(beside)
        codes = {finding["code"]: finding for finding in findings}
        assert codes["other_broker"]["mend"] == "unset SHOAL_BROKER_URL && shoal worker"
        assert (codes["no_beat"]["mend"], codes["no_beat"]["level"]) == ("shoal beat", "error")
        with elsewhere.running("beat", "--log-level", "error"), connect(frontier) as client:
            wait_until(lambda: bool(client.exists("shoal:chore:strays")), within=WITHIN)
            done, findings = look(elsewhere)
            assert done.code == 0, findings
            assert "somebody keeps house" in [finding["what"] for finding in findings]


# --- database, storage, browser, network ------------------------------------------------------------------------------


def _database(shoal: Shoal) -> Path:
    """Of a home that was used."""
    shoal.home.mkdir(parents=True)
    path = shoal.home / "shoal.db"
    open_database(f"sqlite:///{path}").dispose()
    return path


def _execute(path: Path, statement: str) -> None:
    database = sqlite3.connect(path)
    with database:
        database.execute(statement)
    database.close()


@pytest.mark.embedded
def test_a_schema_of_another_version_is_told(shoal: Shoal) -> None:
    path = _database(shoal)
    _execute(path, "UPDATE alembic_version SET version_num = '0002'")
    assert found(shoal, "schema_older", "warning")["mend"] == "shoal db upgrade"
    _execute(path, "UPDATE alembic_version SET version_num = '9999'")
    assert found(shoal, "schema_newer")["mend"] == "pip install --upgrade shoal"
    _execute(path, "DROP TABLE alembic_version")
    assert found(shoal, "database_not_ours")["mend"].startswith("export SHOAL_DATABASE_URL=")


@pytest.mark.embedded
def test_a_database_that_is_locked_or_none_is_told(shoal: Shoal) -> None:
    path = _database(shoal)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        assert found(shoal, "database_locked")["mend"] == f"fuser -v {path}"
    finally:
        holder.close()
    path.write_bytes(b"no database" * 1000)
    assert str(path) in found(shoal, "database_damaged")["mend"]


def test_a_database_server_that_is_not_there_is_told(shoal: Shoal) -> None:
    finding = found(shoal, "database_unreachable", SHOAL_DATABASE_URL=f"postgresql://u:{SECRET}@127.0.0.1:1/shoal")
    assert finding["mend"] == "systemctl start postgresql"


def test_a_database_server_that_is_well_is_called_so_and_so_is_its_clock(shoal: Shoal, postgres: Postgres) -> None:
    url = postgres.new_database()
    _, findings = look(shoal, SHOAL_DATABASE_URL=url)
    assert [each["what"] for each in findings if each["area"] == "database" and "is empty" in each["what"]]
    open_database(url).dispose()
    done, findings = look(shoal, SHOAL_DATABASE_URL=url)
    assert done.code == 0
    assert "the database and this machine agree" in [finding["what"] for finding in findings]


def test_a_home_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finding = found(Shoal(tmp_path / "file" / "home"), "home_unusable")
    assert finding["mend"] == "export SHOAL_HOME=~/.shoal"


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        assert found(Shoal(disk / "home"), "disk_nearly_full", "warning")
        fill(disk)
        assert found(Shoal(disk / "home"), "disk_full")["mend"] == "shoal prune --older-than 30d"


@pytest.mark.embedded
def test_an_archive_that_is_gone_or_shared_or_no_folder_is_told(shoal: Shoal) -> None:
    path = _database(shoal)
    texts, numbers = ("job", "url", "host", "content_type", "charset"), ("status", "depth", "attempt", "size")
    times = dict.fromkeys(("fingerprint", "elapsed_ms", "fetched_ms"), 1)
    engine = open_database(f"sqlite:///{path}")
    with engine.begin() as connection:
        row = {**dict.fromkeys(texts, "x"), **dict.fromkeys(numbers, 1), **times, "archive_key": "x/1.warc.gz"}
        connection.execute(pages.insert().values(row))
    engine.dispose()
    assert found(shoal, "archive_missing")["mend"] == "export SHOAL_ARCHIVE_DIR=FOLDER"
    owners = shoal.home / "shared" / ".owners"
    owners.mkdir(parents=True)
    for owner in ("one", "other"):
        (owners / owner).touch()
    assert found(shoal, "archive_shared", "warning", SHOAL_ARCHIVE_DIR=str(owners.parent))
    (shoal.home / "archive").touch()
    assert found(shoal, "archive_unusable")["mend"].startswith("export SHOAL_ARCHIVE_DIR=")


def test_a_bucket_that_is_not_there_is_told(shoal: Shoal, s3: S3) -> None:
    there = s3.new_bucket()
    places: Mapping[str, str] = {**s3.environment, "SHOAL_OUTPUTS": f"s3://{there}/team/,s3://no-such-bucket/"}
    finding = found(shoal, "output_unusable", **places)
    assert "no-such-bucket" in finding["what"]
    assert "AWS_ENDPOINT_URL" in finding["mend"]


def test_a_browser_that_does_not_run_is_told(shoal: Shoal, tmp_path: Path) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho 'libnss3.so: cannot open shared object file' >&2\nexit 127\n")
    broken.chmod(0o755)
    finding = found(shoal, "browser_broken", SHOAL_BROWSER=str(broken))
    assert "libnss3.so" in finding["what"]
    assert finding["mend"] == "playwright install-deps chromium"


def test_a_host_that_is_not_found_or_closed_is_told(shoal: Shoal) -> None:
    _, findings = look(shoal, "http://no-such-host.invalid/")
    (finding,) = (each for each in findings if each["code"] in ("dns_not_found", "dns_fails"))
    assert finding["mend"].startswith("getent hosts no-such-host.invalid")
    finding = found(shoal, "egress_closed", site="http://192.168.0.7/")
    assert finding["mend"] == 'export SHOAL_EGRESS_ALLOW="${SHOAL_EGRESS_ALLOW:+$SHOAL_EGRESS_ALLOW,}"192.168.0.7'
    finding = found(shoal, "egress_open", "warning", SHOAL_EGRESS_ALLOW="10.0.0.0/8,192.0.2.0/24")
    assert "10.0.0.0/8" in finding["what"]
    assert finding["mend"] == "unset SHOAL_EGRESS_ALLOW"


@pytest.mark.embedded
def test_an_api_beyond_this_machine_without_a_key_is_told(shoal: Shoal) -> None:
    _database(shoal)
    finding = found(shoal, "api_exposed", SHOAL_API_HOST="0.0.0.0")
    assert finding["mend"] == "shoal keys create --scope submit,read,admin --label NAME"


def test_the_whole_look_ends_in_time_however_much_hangs(shoal: Shoal, tmp_path: Path) -> None:
    asleep = tmp_path / "chromium"
    asleep.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'import time; time.sleep(60)'\n")
    asleep.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        variables = {"SHOAL_REDIS_URL": f"redis://127.0.0.1:{port}", "SHOAL_BROWSER": str(asleep)}
        variables["SHOAL_DATABASE_URL"] = f"postgresql://u@127.0.0.1:{port}/shoal"
        done = with_variables(shoal, **variables).run("doctor", HERE, "--json", timeout_s=AT_MOST_S)
    assert done.code == 1
    codes = {finding["code"]: finding for finding in done.json["findings"]}
    assert codes["redis_silent"]["mend"] == f"redis-cli -h 127.0.0.1 -p {port} ping"
    assert "browser_broken" in codes
    assert {"database_unreachable", "check_stuck"} & codes.keys()
