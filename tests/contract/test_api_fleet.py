"""For who runs the machines: hosts, workers, queues, sums, health."""

from __future__ import annotations

import csv
import io
import re
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.api import present
from shoal.api.answers.hosts import HostView
from shoal.core.fleet import WorkerBeat
from shoal.core.host_status import Breaker, Decision, HostStatus
from shoal.core.ledger import Ask
from shoal.core.manners import LimitSource
from shoal.core.model import ALL_QUEUES, Lane, Outcome, Settlement
from shoal.core.trouble import Need, Trouble
from shoal.frontier.host_change import HostChange
from shoal.frontier.scripts import connect
from shoal.frontier.watch import Watch
from shoal.host_file import HostFile
from shoal.hosts import Hosts
from shoal.store.host_limits import HostLimits
from tests import servers
from tests.contract.api import NOW_MS, Desk, a_desk, flaws, refused, some_dead, told
from tests.contract.keyspace import clear
from tests.postgres import Postgres
from tests.waiting import wait_until

URL = "http://shop.example/"
MINUTE = timedelta(minutes=1)


# --- hosts -----------------------------------------------------------------------------------------------------------


def test_a_host_is_known_once_it_was_asked(desk: Desk) -> None:
    assert told(desk.get("hosts"))["data"] == []
    refused(desk.get("hosts/shop.example"), 404)
    desk.submit(URL, "http://other.example:8080/")
    desk.work()
    assert {host["host"] for host in desk.rows("hosts")} == {"shop.example", "other.example:8080"}
    shown = told(desk.get("hosts/shop.example"))
    assert (shown["state"], shown["in_flight"], shown["rate"], shown["parallel"]) == ("open", 0, None, None)
    assert shown["last_used_at"]


def test_an_operator_can_limit_hold_and_pause_a_host(desk: Desk) -> None:
    change = {"rate": 0.5, "parallel": 3, "paused": True, "hold_seconds": 60}
    shown = told(desk.patch("hosts/shop.example", change))
    assert (shown["rate"], shown["parallel"], shown["paused"], shown["state"]) == (0.5, 3, True, "paused")
    assert 50 < shown["hold_seconds"] <= 60
    job = desk.submit(URL)
    assert desk.work() == []
    assert told(desk.patch("hosts/shop.example", {"paused": False}))["state"] == "held"
    assert desk.work() == []
    assert told(desk.patch("hosts/shop.example", {"hold_seconds": 0}))["state"] == "open"
    wait_until(lambda: desk.work() == [URL])
    assert desk.job(job)["state"] == "finished"
    shown = told(desk.patch("hosts/shop.example", {"rate": None, "parallel": "unlimited"}))
    assert (shown["rate"], shown["parallel"]) == (None, "unlimited")
    assert told(desk.patch("hosts/shop.example", {}))["parallel"] == "unlimited"


def test_a_rate_may_be_written_as_people_write_it(desk: Desk) -> None:
    assert told(desk.patch("hosts/shop.example", {"rate": "30/m"}))["rate"] == 0.5
    assert told(desk.patch("hosts/shop.example", {"rate": "unlimited"}))["rate"] == "unlimited"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("SHOP.example", "shop.example"),
        ("shop.example:80", "shop.example"),
        ("shop.example:8080", "shop.example:8080"),
        ("shop.example.", "shop.example"),
        ("[::1]", "[::1]"),
        ("[0:0::1]:8080", "[::1]:8080"),
    ],
)
def test_a_host_has_one_name(desk: Desk, given: str, meant: str) -> None:
    assert told(desk.patch(f"hosts/{given}", {"rate": 1}))["host"] == meant
    assert told(desk.get(f"hosts/{meant}"))["rate"] == 1


@pytest.mark.parametrize("host", ["a b", "a%2Fb", ":", "a:99999", "[", "..", "a@b", "b%C3%BC", "%00", "x" * 301])
def test_what_is_no_host_is_refused(desk: Desk, host: str) -> None:
    answer = desk.patch(f"hosts/{host}", {"rate": 1})
    assert answer.status_code in (404, 422)
    refused(answer, answer.status_code)
    assert told(desk.get("hosts"))["data"] == []


def test_what_is_wrong_with_a_hosts_limits_is_named(desk: Desk) -> None:
    change = {"rate": 0, "parallel": -1, "paused": "yes", "hold_seconds": 86_401, "pause": True}
    found = flaws(desk.patch("hosts/shop.example", change))
    assert set(found) == {"rate", "parallel", "paused", "hold_seconds", "pause"}
    assert "'paused'" not in found["pause"]  # it is given already


def test_hosts_are_listed_last_used_first_by_cursor(desk: Desk) -> None:
    names = [f"h{n:03d}.example" for n in range(25)]
    for name in names:
        desk.platform.frontier.configure_host(name, HostChange(rate=1.0))
    listed = [host["host"] for host in desk.rows("hosts", limit=4)]
    assert sorted(listed) == names
    assert len(set(listed)) == 25
    first = told(desk.get("hosts?limit=4"))
    assert (len(first["data"]), first["more"]) == (4, True)


def test_a_host_at_its_cap_shows_who_waits(desk: Desk) -> None:
    job = desk.submit(*(f"{URL}{n}" for n in range(4)), parallel=1)
    assert len(desk.work(at_most=1)) == 1
    leases = desk.platform.frontier.lease(queues=ALL_QUEUES, limit=10, lease_for=MINUTE).leases
    desk.platform.frontier.lease(queues=ALL_QUEUES, limit=10, lease_for=MINUTE)
    shown = told(desk.get("hosts/shop.example"))
    assert (shown["state"], shown["in_flight"], shown["waiting_jobs"]) == ("at_cap", 1, 1)
    desk.platform.frontier.settle([Settlement(lease, Outcome.DONE) for lease in leases])
    assert desk.job(job)["counters"]["done"] == 2


def test_a_word_outlives_redis(desk: Desk) -> None:
    told(desk.patch("hosts/shop.example", {"rate": 0.5, "note": "agreed by mail"}))
    client = connect(f"{desk.platform.settings.redis_url}?db=2")
    clear(client, desk.platform.settings.prefix)
    client.close()
    shown = told(desk.get("hosts/shop.example"))
    assert (shown["rate"], shown["rate_source"], shown["note"]) == (0.5, "operator", "agreed by mail")
    assert shown["operator"]["rate"] == 0.5
    assert shown["file"] is None


def test_a_word_can_be_taken_back(desk: Desk) -> None:
    desk.patch("hosts/shop.example", {"rate": 0.5, "paused": True, "hold_seconds": 60, "note": "x"})
    assert desk.delete("hosts/shop.example").status_code == 204
    shown = told(desk.get("hosts/shop.example"))
    assert (shown["rate"], shown["state"], shown["operator"], shown["note"]) == (None, "open", None, "")
    assert desk.delete("hosts/shop.example").status_code == 204
    refused(desk.delete("hosts/never.example"), 404)


def test_the_bucket_of_a_domain_is_a_host_by_another_name(desk: Desk) -> None:
    assert told(desk.patch("hosts/@Example.org", {"parallel": 4}))["host"] == "@example.org"
    assert told(desk.get("hosts/@example.org"))["parallel"] == 4
    assert set(flaws(desk.patch("hosts/@127.0.0.1", {"parallel": 4}))) == {"host"}


def test_hosts_can_be_listed_by_their_state(desk: Desk) -> None:
    for n in range(20):
        desk.patch(f"hosts/h{n:02d}.example", {"paused": n % 4 == 0, "rate": 1})
    paused = [host["host"] for host in desk.rows("hosts?state=paused", limit=2)]
    assert sorted(paused) == [f"h{n:02d}.example" for n in range(0, 20, 4)]
    assert list(desk.rows("hosts?state=down")) == []
    assert set(flaws(desk.get("hosts?state=asleep"))) == {"state"}


class Deciding(Watch):
    """A frontier that has decided something about a host."""

    def host(self, host: str) -> HostStatus | None:
        status = super().host(host)
        decisions = (Decision(NOW_MS, "tripped", "refused 5 times"), Decision(NOW_MS - 1, "slowed", "http_429"))
        changes = {"lane": Lane.SLOW, "pace": 1.5, "breaker": Breaker.TRIPPED, "probe_in": MINUTE, "crawl_delay": 10.0}
        return status and replace(status, group="@shop.example", address="192.0.2.1", decisions=decisions, **changes)


def test_what_was_decided_about_a_host_is_shown_with_its_reasons(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path) as desk:
        settings = desk.platform.settings
        watch = Deciding.at(f"{settings.redis_url}?db=2", settings.prefix)
        hosts = Hosts(desk.platform.frontier, watch, HostLimits(desk.platform.engine), HostFile(None))
        hosts.set("shop.example", HostChange(hold=MINUTE))
        shown = present.host(hosts.show("shop.example"))
        watch.close_connections()
    HostView.model_validate(shown)
    assert (shown["state"], shown["reason"], shown["rate_source"]) == ("tripped", "refused 5 times", "robots")
    assert (shown["lane"], shown["pace"], shown["breaker"], shown["probe_seconds"]) == ("slow", 1.5, "tripped", 60)
    assert (shown["crawl_delay_seconds"], shown["group"], shown["address"]) == (10, "@shop.example", "192.0.2.1")
    assert shown["decisions"][1] == {"at": "2023-11-14T22:13:19.999+00:00", "what": "slowed", "reason": "http_429"}


# --- the ledger ------------------------------------------------------------------------------------------------------


def _asked(desk: Desk, count: int, **changes: Any) -> None:
    plain = Ask(0, "shop.example", "job1", URL, 200, "", 4.0, 2, LimitSource.JOB, "0123456789abcdef", "Allow: /")
    asks = [replace(plain, at_ms=NOW_MS + n * 1_000, url=f"{URL}{n}", **changes) for n in range(count)]
    desk.platform.pages.write([], [], [], asks)


def test_the_ledger_is_read_by_cursor(each: Desk) -> None:
    _asked(each, 25)
    _asked(each, 1, host="other.example")
    rows = list(each.rows("hosts/Shop.example/audit", limit=4))
    assert [row["url"] for row in rows] == [f"{URL}{n}" for n in range(25)]
    assert rows[0] == {
        "id": rows[0]["id"],
        "at": "2023-11-14T22:13:20.000+00:00",
        "job": "job1",
        "url": f"{URL}0",
        "status": 200,
        "reason": "",
        "rate": 4.0,
        "parallel": 2,
        "source": "job",
        "robots": "0123456789abcdef",
        "rule": "Allow: /",
    }
    period = "since=2023-11-14T22:13:25Z&until=2023-11-14T22:13:28Z"
    assert [row["url"][-1] for row in each.rows(f"hosts/shop.example/audit?{period}")] == ["5", "6", "7"]
    assert told(each.get("hosts/never.example/audit")) == {"data": [], "cursor": None, "more": False}


def test_the_ledger_is_streamed_as_csv_that_no_spreadsheet_runs(desk: Desk) -> None:
    _asked(desk, 1_200)
    _asked(desk, 1, rule="=HYPERLINK(1)", rate=0.0, parallel=0, status=0, reason="timeout_connect")
    answer = desk.get("hosts/shop.example/audit?format=csv&since=2023-11-14T22:13:20Z")
    assert answer.mimetype == "text/csv"
    assert 'filename="audit-shop.example.csv"' in answer.headers["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.get_data(as_text=True))))
    assert len(rows) == 1_201
    (odd,) = [row for row in rows if row["status"] == "0"]
    assert (odd["rule"], odd["rate"], odd["parallel"]) == ("'=HYPERLINK(1)", "unlimited", "unlimited")


def test_an_audit_can_begin_so_long_ago(desk: Desk) -> None:
    plain = Ask(0, "shop.example", "job1", URL, 200)
    now_ms = time.time_ns() // 1_000_000
    ages = {"new": 60, "hour": 3_600, "days": 3 * 86_400}
    asks = [replace(plain, at_ms=now_ms - age * 1_000, url=f"{URL}{name}") for name, age in ages.items()]
    desk.platform.pages.write([], [], [], asks)

    def found(period: str) -> list[str]:
        return [row["url"].removeprefix(URL) for row in desk.rows(f"hosts/shop.example/audit?{period}")]

    assert found("since=30m") == ["new"]
    assert found("since=2h") == ["hour", "new"]
    assert found("since=7d&until=30m") == ["days", "hour"]


def test_the_last_entries_of_an_audit_come_first_when_asked_for(desk: Desk) -> None:
    _asked(desk, 5)
    found = told(desk.get("hosts/shop.example/audit?newest=true&limit=2"))
    assert [row["url"] for row in found["data"]] == [f"{URL}4", f"{URL}3"]
    assert (found["cursor"], found["more"]) == (None, False)


def test_what_is_wrong_with_an_audit_is_named(desk: Desk) -> None:
    assert set(flaws(desk.get("hosts/shop.example/audit?since=yesterday"))) == {"since"}
    assert set(flaws(desk.get("hosts/shop.example/audit?format=xml"))) == {"format"}
    assert set(flaws(desk.get("hosts/shop.example/audit?cursor=abc"))) == {"cursor"}
    assert set(flaws(desk.get("hosts/@example.org/audit"))) == {"host"}


# --- workers, queues, sums -------------------------------------------------------------------------------------------


def _beat(desk: Desk, name: str = "one", *queues: str) -> None:
    beat = WorkerBeat(name, queues or ALL_QUEUES, 2, 1, 7, 120, NOW_MS, "0.1.0", 12, NOW_MS, 1, 3, 64, 16, 4, 1.5)
    desk.platform.frontier.crew.heartbeat(beat)


def test_workers_show_while_they_live(desk: Desk) -> None:
    assert told(desk.get("workers")) == {"data": []}
    _beat(desk)
    (worker,) = told(desk.get("workers"))["data"]
    assert worker == {
        "name": "one",
        "queues": list(ALL_QUEUES),
        "processes": 2,
        "active": 1,
        "slices": 7,
        "memory_mb": 120,
        "started_at": "2023-11-14T22:13:20.000+00:00",
        "version": "0.1.0",
        "pages": 12,
        "last_progress_at": "2023-11-14T22:13:20.000+00:00",
        "browsers": 1,
        "rendering": 3,
        "sockets": 64,
        "pace": 1.5,
    }
    desk.platform.frontier.crew.depart("one")
    assert told(desk.get("workers")) == {"data": []}


def test_advice_says_how_many_processes_each_queue_would_keep_busy(desk: Desk) -> None:
    _beat(desk, "one", "http.high", "http.batch")
    desk.submit(*(f"{URL}{n}" for n in range(200)), rate=2)
    advice = told(desk.get("workers/advice"))
    queues = {row.pop("queue"): row for row in advice["queues"]}
    assert tuple(queues) == ALL_QUEUES
    why = "hosts at their limits give 2 pages a second; no work waits for a free worker"
    assert queues["http.batch"] == {"processes": 2, "busy": 1, "need": 0.02, "useful": 1, "why": why}
    assert queues["http.slow"] == {"processes": 0, "busy": 0, "need": 0.0, "useful": 0, "why": "nothing waits"}
    http = {"kind": "http", "processes": 2, "busy": 1, "useful": 1}
    assert advice["kinds"] == [http, {"kind": "browser", "processes": 0, "busy": 0, "useful": 0}]


def test_advice_is_remembered_for_some_seconds(desk: Desk) -> None:
    before = told(desk.get("workers/advice"))
    desk.submit(URL)
    assert told(desk.get("workers/advice")) == before


def test_queues_show_what_waits_and_who_serves_them(desk: Desk) -> None:
    _beat(desk, "one", "http.high")
    _beat(desk, "two", "http.high", "http.slow")
    desk.submit(URL, URL + "2", lane="slow")
    desk.platform.frontier.lease(queues=["http.slow"], limit=1, lease_for=MINUTE)
    queues = {queue.pop("queue"): queue for queue in told(desk.get("queues"))["data"]}
    assert tuple(queues) == ALL_QUEUES
    assert queues["http.slow"] == {"queued": 1, "delayed": 0, "leased": 1, "jobs_due": 1, "workers": 2}
    assert queues["http.high"] == {"queued": 0, "delayed": 0, "leased": 0, "jobs_due": 0, "workers": 4}


def test_stats_add_everything_up(desk: Desk) -> None:
    _beat(desk)
    desk.submit(URL, URL + "2")
    desk.work(some_dead("/2"))
    desk.submit(URL)
    stats = told(desk.get("stats"))
    assert stats["jobs"] == {"finished": 1, "running": 1}
    assert stats["outcomes"] == {"done": 1, "dead:http_404": 1}
    assert (stats["workers"], stats["processes"], stats["frontier"]["urls"]) == (1, 2, 1)
    assert stats["frontier"]["max_urls"] == desk.platform.settings.frontier_urls
    assert 0 < stats["frontier"]["memory_bytes"] < stats["frontier"]["max_memory_bytes"]


def test_what_workers_cannot_use_is_told_wherever_people_look(desk: Desk) -> None:
    _beat(desk)
    job = desk.submit(URL)
    board = desk.platform.frontier.board
    board.tell("host:7", [Trouble(Need.ARCHIVE, "no space left", 12_000)], {Need.ARCHIVE: 1})
    stats = told(desk.get("stats"))
    (trouble,) = stats["troubles"]
    assert (trouble["what"], trouble["message"], trouble["worker"]) == ("archive", "no space left", "host:7")
    assert 12 <= trouble["seconds"] < 15
    assert stats["outages"] == {"redis": 0, "database": 0, "archive": 1}
    assert re.fullmatch(r"paused for 1\d s: no space left", desk.job(job)["waiting_for"])
    metrics = desk.get("/metrics").get_data(as_text=True)
    assert 'shoal_trouble{what="archive"} 1.0' in metrics
    assert 'shoal_trouble{what="database"} 0.0' in metrics
    assert 'shoal_outages_total{what="archive"} 1.0' in metrics
    board.tell("host:7", [], {})
    assert told(desk.get("stats"))["troubles"] == []
    assert desk.job(job)["waiting_for"] is None
    assert 'shoal_trouble{what="archive"} 0.0' in desk.get("/metrics").get_data(as_text=True)


# --- health ----------------------------------------------------------------------------------------------------------


def _checks(desk: Desk, status: int) -> dict[str, bool]:
    answer = desk.get("/readyz")
    assert answer.status_code == status
    ready = told(answer, status)
    assert ready["status"] == ("ready" if status == 200 else "not ready")
    for check in ready["checks"].values():
        assert bool(check["detail"]) != check["ok"]
    return {name: check["ok"] for name, check in ready["checks"].items()}


def test_all_is_well(each: Desk) -> None:
    assert told(each.get("/healthz")) == {"status": "ok"}
    assert _checks(each, 200) == {"redis": True, "database": True, "archive": True}
    assert list(each.platform.settings.archive_path.iterdir()) == []  # nothing is left of the look


def test_a_redis_that_is_gone_is_named_and_nothing_hangs(tmp_path: Path) -> None:
    with servers.running(servers.valkey()) as url:
        desk_of = a_desk(url, tmp_path)
        desk = desk_of.__enter__()
        job = desk.submit(URL)
    try:
        assert _checks(desk, 503) == {"redis": False, "database": True, "archive": True}
        told(desk.get("/healthz"))
        for path in (f"jobs/{job}", "jobs", "hosts", "workers", "queues", "stats", f"jobs/{job}/events"):
            answer = desk.get(path)
            assert "Redis" in refused(answer, 503)["detail"]
            assert int(answer.headers["Retry-After"]) > 0
        for method, path, body in (
            ("POST", "jobs", {"urls": [URL]}),
            ("POST", "scrape?wait=5", {"url": URL}),
            ("PATCH", f"jobs/{job}", {"rate": 1}),
            ("PATCH", "hosts/shop.example", {"rate": 1}),
        ):
            refused(desk.ask(method, path, json=body), 503)
        for action in ("pause", "resume", "cancel", "close"):
            refused(desk.post(f"jobs/{job}/{action}"), 503)
        refused(desk.delete(f"jobs/{job}"), 503)
        metrics = desk.get("/metrics").get_data(as_text=True)
        assert "shoal_redis_up 0.0" in metrics
        assert 'shoal_trouble{what="redis"} 1.0' in metrics
    finally:
        desk_of.__exit__(None, None, None)


def test_a_database_file_that_is_gone_is_named(desk: Desk) -> None:
    home = desk.platform.settings.home
    assert _checks(desk, 200)["database"]
    (home / "shoal.db").rename(home / "elsewhere.db")
    assert _checks(desk, 503) == {"redis": True, "database": False, "archive": True}


def test_a_database_that_is_no_database_is_named(desk: Desk) -> None:
    desk.platform.engine.dispose()
    for path in desk.platform.settings.home.glob("shoal.db*"):
        path.unlink()
    (desk.platform.settings.home / "shoal.db").write_bytes(b"this is no database, and long enough to be read " * 50)
    assert not _checks(desk, 503)["database"]
    refused(desk.get("jobs"), 503)


def test_a_postgresql_that_is_gone_is_named(valkey_url: str, tmp_path: Path, postgres: Postgres) -> None:
    import sqlalchemy as sa

    url = postgres.new_database()
    with a_desk(valkey_url, tmp_path, url) as desk:
        desk.platform.engine.dispose()
        admin = sa.create_engine(
            sa.make_url(postgres.uri).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
        )
        with admin.connect() as connection:
            connection.execute(sa.text(f"DROP DATABASE {sa.make_url(url).database}"))
        admin.dispose()
        assert _checks(desk, 503) == {"redis": True, "database": False, "archive": True}
        answer = desk.get("jobs")
        refused(answer, 503)
        password = sa.make_url(url).password
        assert not password or password not in answer.get_data(as_text=True)


def test_an_archive_that_cannot_be_written_is_named(desk: Desk) -> None:
    archive = desk.platform.settings.archive_path
    assert _checks(desk, 200)["archive"]
    archive.rmdir()
    assert not _checks(desk, 503)["archive"]  # it was there: that it is gone is worth knowing
    assert not archive.exists()
    archive.write_text("in the way")
    assert _checks(desk, 503) == {"redis": True, "database": True, "archive": False}
