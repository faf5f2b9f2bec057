"""Schedules over the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from shoal.core.access import Permission
from shoal.core.fleet import WorkerBeat
from shoal.store import tables
from tests.contract.api import Desk, a_desk, flaws, refused, told

JOB = {"urls": ["http://shop.example/"], "follow": False, "rate": "unlimited"}
NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin", "job": JOB}


def _add(desk: Desk, **changes: Any) -> dict[str, Any]:
    return told(desk.post("schedules", {**NIGHTLY, **changes}), 201)


def test_a_schedule_is_added_shown_listed_changed_and_removed(each: Desk) -> None:
    answer = each.post("schedules", NIGHTLY)
    made = told(answer, 201)
    assert answer.headers["Location"] == "/api/v1/schedules/nightly"
    assert made == told(each.get("schedules/nightly"))
    assert (made["state"], made["words"]) == ("active", "At 03:00 every day, Europe/Berlin")
    assert (made["url_count"], made["urls"]) == (1, JOB["urls"])
    assert made["job"]["rate"] == "unlimited"
    assert "urls" not in made["job"]
    changed = told(each.patch("schedules/nightly", {"every": "6h", "overlap": "queue", "job": {**JOB, "pages": 5}}))
    assert (changed["cron"], changed["every"], changed["overlap"]) == (None, 21_600, "queue")
    assert changed["job"]["pages"] == 5
    assert [row["name"] for row in each.rows("schedules")] == ["nightly"]
    assert each.delete("schedules/nightly").status_code == 204
    refused(each.get("schedules/nightly"), 404)


def test_a_list_goes_on_behind_its_cursor(desk: Desk) -> None:
    for number in range(5):
        _add(desk, name=f"s{number}")
    assert [row["name"] for row in desk.rows("schedules", limit=2)] == [f"s{n}" for n in range(5)]


def test_a_name_is_taken_once(desk: Desk) -> None:
    _add(desk)
    assert "already" in refused(desk.post("schedules", NIGHTLY), 409)["detail"]


def test_run_pause_resume_and_history(each: Desk) -> None:
    _add(each)
    first = told(each.post("schedules/nightly/run"))
    second = told(each.post("schedules/nightly/run?force=false"))
    forced = told(each.post("schedules/nightly/run?force=true"))
    assert (first["state"], second["reason"], second["other"]) == ("running", "overlap", first["job"])
    assert forced["state"] == "running"
    each.work()
    each.platform.housekeeper.tick()
    runs = list(each.rows("schedules/nightly/runs", limit=2))
    assert [run["state"] for run in runs] == ["finished", "skipped", "finished"]
    assert (runs[-1]["pages"], runs[-1]["items"]) == (1, 0)
    assert told(each.get("schedules/nightly"))["last"]["state"] == "finished"
    paused = told(each.post("schedules/nightly/pause"))
    assert (paused["state"], paused["next_at"]) == ("paused", None)
    assert told(each.post("schedules/nightly/resume"))["next_at"] is not None


def test_previews_tell_what_an_expression_means(desk: Desk) -> None:
    spring = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "start": "2027-03-27"}
    found = told(desk.post("schedule-preview?count=3", spring))
    assert [slot["local"] for slot in found["data"]] == [
        "2027-03-27T02:30:00+01:00",
        "2027-03-28T03:00:00+02:00",
        "2027-03-29T02:30:00+02:00",
    ]
    _add(desk, jitter="10m")
    (slot,) = told(desk.get("schedules/nightly/preview?count=1"))["data"]
    assert slot["slot"] <= slot["due_at"] == told(desk.get("schedules/nightly"))["next_at"]


@pytest.mark.parametrize(
    ("changes", "place", "detail"),
    [
        ({"cron": "0 25 * * *"}, "cron", "hour '25' cannot be read: 0-23"),
        ({"timezone": "Europe/Berln"}, "timezone", "did you mean Europe/Berlin"),
        ({"cron": "0 0 31 2 *"}, "cron", "never comes"),
        ({"every": "6h"}, "", "one of cron and every"),
        ({"every": "5s", "cron": ""}, "every", "too short"),
        ({"job": {**JOB, "feilds": {}}}, "job.feilds", "did you mean 'fields'?"),
        ({"job": {**JOB, "urls": 5}}, "job.urls", "a list is needed (got 5)"),
        ({"job": {**JOB, "open": True}}, "open", "could never end"),
        ({"job": {**JOB, "urls": ["http://127.0.0.1/"]}}, "urls.0", "127.0.0.1"),
        ({"job": {**JOB, "proxies": "gone"}}, "proxies", "no proxy pool"),
        ({"job": {**JOB, "output": "file:///tmp/x/"}}, "output.to", "SHOAL_OUTPUTS"),
        ({"name": "a b"}, "name", "pattern"),
        ({"catch_up": "twice"}, "catch_up", "'skip', 'once' or 'all'"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(desk: Desk, changes: dict[str, Any], place: str, detail: str) -> None:
    assert detail in flaws(desk.post("schedules", {**NIGHTLY, **changes})).get(place, "")
    assert list(desk.rows("schedules")) == []


def test_a_change_is_checked_as_a_whole(desk: Desk) -> None:
    _add(desk, start="2026-12-01")
    assert "not after the start" in flaws(desk.patch("schedules/nightly", {"end": "2026-11-01"}))[""]
    assert "hour" in flaws(desk.patch("schedules/nightly", {"cron": "0 99 * * *"}))["cron"]
    assert told(desk.patch("schedules/nightly", {"start": None}))["start"] is None


@pytest.mark.parametrize(
    "job",
    [
        {"headers": {"Authorization": "hunter2\x01x"}},
        {"headers": {"hunter2 : x": "y"}},
        {"headers": "hunter2"},
        {"output": "s3://me:hunter2@"},
        {"proxies": {"list": ["hunter2"]}},
        {"engine": "browser", "browser": {"cookies": [{"hunter2": 1}]}},
    ],
)
def test_a_refusal_repeats_no_secret(desk: Desk, job: dict[str, Any]) -> None:
    answer = desk.post("schedules", {**NIGHTLY, "job": {**JOB, **job}})
    assert answer.status_code == 422
    assert b"hunter2" not in answer.get_data().replace(b"cookies.0.hunter2", b"")


def test_a_job_has_no_more_urls_than_a_submission(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, api_urls=10) as desk:
        job = {**JOB, "urls": ["http://shop.example/{1..11}"]}
        refused(desk.post("jobs", job), 422)
        answer = refused(desk.post("schedules", {**NIGHTLY, "job": job}), 422)
        assert answer["errors"][0]["field"] == "job.urls"
        told(desk.post("schedules", NIGHTLY), 201)
        refused(desk.patch("schedules/nightly", {"job": job}), 422)


def test_secrets_of_a_job_are_not_shown(desk: Desk) -> None:
    job = {**JOB, "headers": {"Authorization": "Bearer hunter2"}}
    answers = [desk.post("schedules", {**NIGHTLY, "job": job}), desk.get("schedules/nightly"), desk.get("schedules")]
    assert not [answer for answer in answers if b"hunter2" in answer.get_data()]
    shown = told(answers[1])["job"]
    assert "not shown" in str(flaws(desk.patch("schedules/nightly", {"job": {**JOB, "headers": shown["headers"]}})))
    told(desk.post("schedules/nightly/run"))
    (made,) = desk.platform.jobs.newest()
    assert made.spec.headers == {"Authorization": "Bearer hunter2"}


def test_a_schedule_of_another_tenant_does_not_exist(desk: Desk) -> None:
    _, ours = desk.make_key(tenant="a")
    _, theirs = desk.make_key(tenant="b")
    told(ours.post("schedules", NIGHTLY), 201)
    assert list(theirs.rows("schedules")) == []
    for answer in (
        theirs.get("schedules/nightly"),
        theirs.post("schedules/nightly/run"),
        theirs.delete("schedules/nightly"),
    ):
        refused(answer, 404)
    told(theirs.post("schedules", NIGHTLY), 201)
    run = told(ours.post("schedules/nightly/run"))
    assert ours.job(run["job"])["name"] == "nightly"
    refused(theirs.get(f"jobs/{run['job']}"), 404)


def test_who_may_only_read_changes_nothing(desk: Desk) -> None:
    _add(desk)
    _, reader = desk.make_key(Permission.READ)
    assert told(reader.get("schedules/nightly"))["name"] == "nightly"
    for answer in (
        reader.post("schedules", NIGHTLY),
        reader.post("schedules/nightly/run"),
        reader.delete("schedules/nightly"),
    ):
        refused(answer, 403)


def test_an_allowed_output_is_delivered_to_by_each_run(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, outputs=f"file://{tmp_path}/out/") as desk:
        _add(desk, job={**JOB, "output": f"file://{tmp_path}/out/books/"})
        run = told(desk.post("schedules/nightly/run"))
        (delivery,) = told(desk.get(f"jobs/{run['job']}/deliveries"))["data"]
        assert delivery["state"] == "waiting"


def test_it_is_told_when_nobody_would_start_anything(desk: Desk) -> None:
    assert "no worker serves control" in _add(desk)["waiting_for"]
    desk.platform.frontier.crew.heartbeat(WorkerBeat("one", ("control",), 1, 0, 0, 1, 1, "0.1.0"))
    assert "no beat" in told(desk.get("schedules/nightly"))["waiting_for"]
    now = desk.platform.frontier.audit.now_ms()
    desk.platform.frontier.crew.heartbeat(WorkerBeat("new", ("control",), 1, 0, 0, 1, now, "0.1.0"))
    assert told(desk.get("schedules/nightly"))["waiting_for"] is None, "who has just begun may have had no call so far"
    desk.platform.frontier.crew.heartbeat(WorkerBeat("new", ("http.batch",), 1, 0, 0, 1, now, "0.1.0"))
    assert "no beat" in told(desk.get("schedules/nightly"))["waiting_for"]
    desk.platform.housekeeper.tick()
    assert told(desk.get("schedules/nightly"))["waiting_for"] is None


def test_metrics_tell_how_schedules_do(desk: Desk) -> None:
    _add(desk)
    _add(desk, name="other", enabled=False)
    _make_due(desk)
    desk.platform.housekeeper.tick()
    told(desk.post("schedules/nightly/run"))
    text = desk.get("/metrics").get_data(as_text=True)
    assert 'shoal_schedules{state="active"} 1.0' in text
    assert 'shoal_schedules{state="paused"} 1.0' in text
    assert 'shoal_schedule_runs_total{outcome="started",reason=""} 1.0' in text
    assert 'shoal_schedule_runs_total{outcome="skipped",reason="overlap"} 1.0' in text
    assert 59 < float(text.split("\nshoal_schedule_late_seconds ")[1].split("\n")[0]) < 120


def _make_due(desk: Desk) -> None:
    """A slot of a minute ago."""
    ago = desk.platform.frontier.audit.now_ms() - 60_000
    values = {"anchor_ms": ago - 3_600_000, "cursor_ms": ago - 1, "next_ms": ago, "timing": '{"every":3600}'}
    with desk.platform.engine.begin() as connection:
        connection.execute(sa.update(tables.schedules).where(tables.schedules.c.name == "nightly").values(values))
