"""Runs of one place: which one is the latest, who may take over from whom, and how long old ones stay."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.output import OutputSettings, Place
from shoal.errors import InputError
from shoal.output import delivery as delivering
from shoal.output import owner as owning
from shoal.output import runs
from shoal.output.asking import ask_again
from shoal.output.delivery import Deliverer
from shoal.output.files import Files
from shoal.output.owner import Owner
from shoal.output.place import open_store
from shoal.output.publishing import Run
from shoal.store.deliveries import Delivery, DeliveryState
from shoal.store.items import ItemRow
from shoal.store.job_rows import JobRow
from tests.contract.api import Desk, a_desk
from tests.contract.places import URL, Target, a_job, take, the_delivery
from tests.waiting import wait_until


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    """One whose operator allows every place of these tests."""
    allowed = f"file://{tmp_path}/,{','.join(f's3://bucket-{number}/' for number in range(1, 200))}"
    with a_desk(valkey_url, tmp_path, outputs=allowed) as desk:
        yield desk


def the_row(desk: Desk, job: str) -> JobRow:
    row = desk.platform.jobs.get(job)
    assert row is not None
    return row


def extracted_again(desk: Desk, job: str, count: int = 5) -> None:
    """Items of a second version, with a field that the first had not."""
    items = [ItemRow(job, number, 0, f"{URL}{number}", {"heading": f"Other {number}"}, "v2") for number in range(count)]
    desk.platform.pages.write([], items, [])


def ask(desk: Desk, job: str, version: str = "v1", kind: str | None = None, to: str | None = None) -> list[Delivery]:
    """As `shoal deliver` does."""
    platform = desk.platform
    deliverer = Deliverer(
        *(platform.jobs, platform.pages, platform.deliveries, platform.frontier.audit.now_ms),
        platform.settings.allowed_outputs,
    )
    numbers = ask_again(platform.deliveries, the_row(desk, job), to, kind, version, 0)
    found: list[Delivery] = []
    for number in numbers:
        deliverer.deliver(number)
        one = platform.deliveries.get(number)
        assert one is not None
        found.append(one)
    return found


def a_delivered_job(desk: Desk, output: Any, count: int = 5) -> str:
    job = a_job(desk, output, count)
    desk.work(take)
    desk.platform.deliverer.work()
    return job


# --- which one is the latest -----------------------------------------------------------------------------------------


def test_another_version_takes_over_however_often_the_first_was_delivered(desk: Desk, target: Target) -> None:
    job = a_delivered_job(desk, target.url)
    extracted_again(desk, job)
    assert [each.state for each in ask(desk, job)] == [DeliveryState.DELIVERED]
    (second,) = ask(desk, job, "v2")
    assert (second.state, second.error) == (DeliveryState.DELIVERED, "")
    assert target.latest()["version"] == "v2"
    (third,) = ask(desk, job)
    assert (third.state, target.latest()["version"]) == (DeliveryState.DELIVERED, "v1")


def test_what_was_asked_for_later_stays_the_latest(desk: Desk, target: Target) -> None:
    job = a_delivered_job(desk, target.url)
    extracted_again(desk, job)
    deliveries, row = desk.platform.deliveries, the_row(desk, job)
    (first,) = ask_again(deliveries, row, None, None, "v1", 0)
    ask(desk, job, "v2")
    desk.platform.deliverer.deliver(first)
    found = deliveries.get(first)
    assert found is not None
    assert found.state is DeliveryState.SUPERSEDED
    assert "asked for later" in found.error
    assert f"shoal deliver {job} --to" in found.error
    assert target.latest()["version"] == "v2"
    assert json.loads(target.read(f"{job}-1-v1/manifest.json"))["rows"] == 5


def test_a_job_that_goes_on_is_published_anew_in_the_order_of_what_was_asked(desk: Desk, target: Target) -> None:
    job = a_delivered_job(desk, target.url)
    extracted_again(desk, job)
    ask(desk, job, "v2")
    status = the_row(desk, job).status
    assert status is not None
    assert status.ended_ms is not None
    desk.platform.jobs.reopen(status, status.ended_ms)
    own = Deliverer(
        *(desk.platform.jobs, desk.platform.pages, desk.platform.deliveries, desk.platform.frontier.audit.now_ms),
        desk.platform.settings.allowed_outputs,
    )
    for each in reversed(desk.platform.deliveries.of_job(job)):
        own.deliver(each.id)
    assert target.latest()["version"] == "v2"


def test_a_version_has_the_columns_of_its_own_spec(desk: Desk, target: Target) -> None:
    job = a_delivered_job(desk, target.url)
    platform = desk.platform
    made = platform.again.start(the_row(desk, job), {"fields": {"heading": "h1"}}, "v2")
    extracted_again(desk, job)
    numbers = ask_again(platform.deliveries, the_row(desk, job), None, "csv", made.version, 0)
    platform.deliverer.deliver(*numbers)
    assert [column["name"] for column in target.latest()["columns"]] == ["url", "heading"]


# --- what is asked for -----------------------------------------------------------------------------------------------


def test_without_a_place_a_format_and_a_version_are_of_all_places_of_the_job(desk: Desk, target: Target) -> None:
    job = a_delivered_job(desk, target.url)
    extracted_again(desk, job)
    (found,) = ask(desk, job, "v2", "csv")
    assert (found.version, found.output.format, found.state) == ("v2", "csv", DeliveryState.DELIVERED)
    latest = target.latest()
    assert (latest["format"], latest["version"]) == ("csv", "v2")
    (again,) = ask(desk, job, "v2")
    assert (again.id, again.output.format) == (found.id, "csv")


def test_a_place_that_the_operator_allowed_stays_bound_to_that(desk: Desk, target: Target) -> None:
    job = a_delivered_job(desk, target.url)
    (found,) = ask(desk, job, kind="csv")
    assert found.allowed
    assert found.allowed == desk.platform.deliveries.of_job(job)[0].allowed


def test_a_table_has_no_format(desk: Desk, tmp_path: Path) -> None:
    job = a_job(desk, f"file://{tmp_path}/x/")
    desk.work(take)
    table = OutputSettings(to="postgresql://db.example/shop/books")
    desk.platform.deliveries.add(job, "v1", table, 0)
    with pytest.raises(InputError, match="books is a table"):
        ask_again(desk.platform.deliveries, the_row(desk, job), None, "csv", "v1", 0)
    with pytest.raises(InputError, match="`format` is for files"):
        ask_again(desk.platform.deliveries, the_row(desk, job), table.to, "csv", "v1", 0)


# --- how long runs stay ----------------------------------------------------------------------------------------------


def folders(target: Target) -> set[str]:
    return {name.partition("/")[0] for name in target.names() if "/" in name}


def test_the_last_runs_stay_and_older_ones_go(
    desk: Desk, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "GRACE_S", 0)
    output = {"to": target.url, "keep": 2}
    jobs = [a_delivered_job(desk, output) for _ in range(4)]
    assert folders(target) == set(jobs[-2:])
    assert target.latest()["run"] == jobs[-1]
    assert sorted(target.names()) == sorted(
        {".shoal-runs.json", "latest.json", *_files(target, jobs[-1]), *_files(target, jobs[-2])}
        | ({".shoal-lock"} if ".shoal-lock" in target.names() else set())
    )


def _files(target: Target, run: str) -> set[str]:
    manifest = json.loads(target.read(f"{run}/manifest.json"))
    return {f"{run}/manifest.json", *(part["path"] for part in manifest["parts"])}


def test_who_has_just_read_the_pointer_finds_the_set(desk: Desk, target: Target) -> None:
    output = {"to": target.url, "keep": 1}
    a_delivered_job(desk, output)
    read = target.latest()
    for _ in range(3):
        a_delivered_job(desk, output)
    for part in read["parts"]:
        assert target.read(part["path"])


def test_without_a_number_all_runs_stay(desk: Desk, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "GRACE_S", 0)
    jobs = [a_delivered_job(desk, {"to": target.url, "keep": None}) for _ in range(3)]
    assert folders(target) == set(jobs)


def test_whole_runs_of_a_place_that_kept_all_count_when_one_comes_that_keeps_five(
    desk: Desk, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "GRACE_S", 0)
    job = a_delivered_job(desk, {"to": target.url, "keep": None})
    whole = {job, *(each.parts[0].name.partition("/")[0] for _ in range(2) for each in ask(desk, job))}
    assert len(whole) == 3
    ask(desk, job, to=target.url)
    assert len(folders(target)) == 4
    ask(desk, job, to=target.url)
    assert whole < folders(target)


def test_a_run_that_is_still_delivered_stays_however_long_that_takes(
    desk: Desk, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "GRACE_S", 0)
    monkeypatch.setattr(delivering, "LOOK_AGAIN", timedelta(0))
    slow = a_job(desk, {"to": target.url, "every": 100}, 250)
    desk.work(take, at_most=120)
    desk.platform.deliverer.work()
    (part,) = the_delivery(desk, slow).parts
    desk.platform.control.pause(slow)
    newer = a_delivered_job(desk, target.url)
    ask(desk, newer)
    ask(desk, newer)
    assert part.name in target.names()
    desk.platform.control.resume(slow)
    desk.work(take)
    desk.platform.deliverer.work()
    found = the_delivery(desk, slow)
    assert (found.state, found.rows) == (DeliveryState.SUPERSEDED, 250)
    assert _files(target, slow) < set(target.names())


def test_a_run_of_another_fleet_stays_for_as_long_as_parts_of_it_come(desk: Desk, target: Target) -> None:
    job = a_delivered_job(desk, {"to": target.url, "keep": 1})
    place = the_delivery(desk, job).output.place
    assert isinstance(place, Place)
    store = open_store(place)
    other = Run("theirs", "theirs", "", "v1", (0, "theirs", 0))
    hour = runs.GRACE_S * 1_000
    runs.note_run(store, other, 1)
    runs.note_run(store, other, hour)
    assert runs.remove_old(store, 1, hour + 1, lambda _: ()) == 0
    assert runs.remove_old(store, 1, 2 * hour + 1, lambda _: ()) == 1


def test_no_set_is_announced_of_which_a_file_is_gone(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whatever(*_: object) -> bool:
        return True

    monkeypatch.setattr(delivering, "LOOK_AGAIN", timedelta(0))
    root = tmp_path / "out"
    job = a_job(desk, {"to": f"file://{root}/", "every": 100, "format": "parquet"}, 150)
    desk.work(take, at_most=120)
    desk.platform.deliverer.work()
    (part,) = the_delivery(desk, job).parts
    (root / part.name).unlink()
    desk.work(take)
    with monkeypatch.context() as late:  # it goes after the parts were held against their rows
        late.setattr(Files, "stands", whatever)
        desk.platform.deliverer.work()
    found = the_delivery(desk, job)
    assert found.state is DeliveryState.RETRYING
    assert f"{part.name} is not there any more" in found.error
    assert not (root / "latest.json").exists()
    assert not (root / job / "manifest.json").exists()
    desk.platform.deliverer.deliver(found.id)
    assert the_delivery(desk, job).state is DeliveryState.DELIVERED
    assert all((root / each["path"]).is_file() for each in json.loads((root / "latest.json").read_text())["parts"])


def test_what_is_not_ours_stays_and_what_was_never_published_goes(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "GRACE_S", 0)
    root = tmp_path / "out"
    output = {"to": f"file://{root}/", "keep": 1}
    first = a_delivered_job(desk, output)
    (root / first / "notes.txt").write_text("mine")
    (root / "other").mkdir()
    (root / "other" / "part-00000-000000000000.jsonl").write_text("not of Shoal")
    cancelled = a_job(desk, output)
    desk.work(take, at_most=2)
    desk.platform.control.cancel(cancelled)
    desk.platform.deliverer.work()
    assert the_delivery(desk, cancelled).state is DeliveryState.WITHHELD
    assert (root / cancelled).is_dir()
    last = a_delivered_job(desk, output)
    assert sorted(path.name for path in root.iterdir() if path.is_dir()) == sorted([first, "other", last])
    assert [path.name for path in (root / first).iterdir()] == ["notes.txt"]


def test_a_list_of_runs_that_somebody_has_changed_leads_nowhere(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "GRACE_S", 0)
    root, outside = tmp_path / "out", tmp_path / "outside"
    outside.mkdir()
    victim = outside / "part-00000-000000000000.jsonl"
    victim.write_text("not of Shoal")
    output = {"to": f"file://{root}/", "keep": 1}
    a_delivered_job(desk, output)
    (root / "abc").symlink_to(outside)
    known = {"order": [0, "", 0], "complete": True, "idle_ms": 0}
    for name in ("../outside", "..", "/etc", "abc"):
        (root / runs.RUNS).write_text(json.dumps({"runs": [{"run": name, **known}]}))
        job = a_delivered_job(desk, output)
        assert the_delivery(desk, job).state is DeliveryState.DELIVERED
        assert victim.exists()
    (root / runs.RUNS).write_text("{nothing")
    assert the_delivery(desk, a_delivered_job(desk, output)).state is DeliveryState.DELIVERED


def test_old_runs_that_cannot_be_removed_are_told_and_the_new_one_is_there(
    desk: Desk, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.errors import PlaceUnavailable
    from shoal.output import files

    def refused(*_: object) -> int:
        raise PlaceUnavailable("AccessDenied")

    monkeypatch.setattr(files, "remove_old", refused)
    job = a_delivered_job(desk, target.url)
    found = the_delivery(desk, job)
    assert (found.state, found.error) == (DeliveryState.DELIVERED, "old runs could not be removed: AccessDenied")
    assert target.latest()["run"] == job


# --- who works on it -------------------------------------------------------------------------------------------------


def test_an_owner_is_heard_of_while_a_store_takes_its_time_and_followed_soon_after_its_death(
    desk: Desk, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owning, "BEAT_S", 0.05)
    monkeypatch.setattr(owning, "OWNED", timedelta(seconds=0.5))
    job = a_job(desk, target.url)
    desk.work(take)
    deliveries, now_ms = desk.platform.deliveries, desk.platform.frontier.audit.now_ms
    number, started = the_delivery(desk, job).id, now_ms()
    slow = Owner(deliveries, number, now_ms)
    assert slow.claim()
    with slow.working():
        wait_until(lambda: now_ms() - started > 1_500, within=timedelta(seconds=10))
        assert Owner(deliveries, number, now_ms).claim() is None
    dead = Owner(deliveries, number, now_ms)
    assert dead.claim()  # and never heard of again
    wait_until(lambda: desk.platform.deliverer.deliver(number), within=timedelta(seconds=5))
    assert the_delivery(desk, job).state is DeliveryState.DELIVERED


def test_an_owner_that_is_stuck_is_not_heard_of_any_more(
    desk: Desk, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owning, "BEAT_S", 0.05)
    monkeypatch.setattr(owning, "OWNED", timedelta(seconds=0.3))
    monkeypatch.setattr(owning, "SILENT_S", 0.2)
    job = a_job(desk, target.url)
    desk.work(take)
    number, now_ms = the_delivery(desk, job).id, desk.platform.frontier.audit.now_ms
    stuck = Owner(desk.platform.deliveries, number, now_ms)
    assert stuck.claim()
    with stuck.working():
        wait_until(lambda: desk.platform.deliverer.deliver(number), within=timedelta(seconds=10))
    assert the_delivery(desk, job).state is DeliveryState.DELIVERED


def test_what_is_asked_for_while_it_is_delivered_is_delivered_once_more(desk: Desk, target: Target) -> None:
    job = a_job(desk, target.url)
    desk.work(take)
    deliveries, now_ms = desk.platform.deliveries, desk.platform.frontier.audit.now_ms
    before = the_delivery(desk, job)
    busy = Owner(deliveries, before.id, now_ms)
    claimed = busy.claim()
    assert claimed is not None
    deliveries.add(job, "v1", before.output, 0)
    with pytest.raises(owning.Lost):
        busy.keep(claimed)
    assert the_delivery(desk, job).state is DeliveryState.WAITING
