"""Schedules: every slot once, by its policies, whoever looks, however often, and whatever the clock does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from shoal.core.model import JobState
from shoal.core.schedule import GRACE, MAX_RUNS_WAITING, Kind, Skip
from shoal.core.spec import JobSpec, read_spec
from shoal.errors import BadSpec, Busy, Conflict, InputError, NotFound, RedisUnavailable, StoreUnavailable
from shoal.intake.intake import Caps, Full
from shoal.schedules import planner
from shoal.schedules import starter as starting
from shoal.schedules.book import MAX_URLS, Book, read_timing
from shoal.schedules.planner import Planner
from shoal.schedules.schedules import Schedules
from shoal.schedules.starter import Starter, Stores
from shoal.store import schedule_runs, schedule_tables, schedules
from shoal.store.dead import Selection
from shoal.store.history import HistoryStore
from shoal.store.jobs import JobFilter
from shoal.store.schedule_runs import RunRow, RunState
from shoal.store.schedules import NewSchedule, ScheduleRow
from tests.contract.api import Desk, a_desk, page, some_dead

URL = "http://shop.example/"
START_MS = round(datetime(2026, 11, 17, 12, 0, 30, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


@dataclass
class House:
    """Schedules on a desk, with a clock of the test's own."""

    desk: Desk
    now_ms: int = START_MS
    specs: list[JobSpec] = field(default_factory=list[JobSpec])
    """Those that were looked at before they were submitted."""
    refuse: Callable[[JobSpec, str], None] = lambda spec, allowed: None

    def schedules(self) -> Schedules:
        """Of another process."""
        engine, parts = self.desk.platform.engine, self.desk.platform
        stores = Stores(
            schedules.ScheduleStore(engine), schedule_runs.RunStore(engine), parts.jobs, HistoryStore(engine)
        )

        def check(spec: JobSpec, allowed: str) -> None:
            self.specs.append(spec)
            self.refuse(spec, allowed)

        def clock() -> int:
            return self.now_ms

        return Schedules(
            Book(stores.schedules, stores.runs, parts.intake, clock, check),
            Planner(stores.schedules, stores.runs, clock, parts.frontier.audit.count_runs),
            Starter(stores, parts.intake, parts.control, clock, check, parts.frontier.audit),
            stores.schedules,
            stores.runs,
        )

    @property
    def book(self) -> Book:
        return self.schedules().book

    def add(self, name: str = "nightly", spec: dict[str, Any] | None = None, **timing: Any) -> ScheduleRow:
        job = read_spec({"urls": [URL], "follow": False, "rate": "unlimited", **(spec or {})})
        return self.book.add(NewSchedule("default", name, read_timing(timing or {"every": "1h"}), job))

    def row(self, name: str = "nightly") -> ScheduleRow:
        return self.book.find("default", name)

    def tick(self, ahead: timedelta | None = None) -> None:
        self.now_ms += 0 if ahead is None else round(ahead.total_seconds() * 1000)
        for chore in self.schedules().chores():
            chore.do()

    def runs(self, name: str = "nightly") -> list[RunRow]:
        """In the order of their slots."""
        return self.book.history(self.row(name), 1_000)[::-1]

    def states(self, name: str = "nightly") -> list[str]:
        return [f"{run.state.value}:{run.reason}".removesuffix(":") for run in self.runs(name)]

    def spec_of(self, run: RunRow) -> JobSpec:
        job = self.desk.platform.jobs.get(run.job)
        assert job is not None
        return job.spec

    def jobs(self) -> list[str]:
        return [job.id for job in self.desk.platform.jobs.newest(1_000)][::-1]


@pytest.fixture
def house(each: Desk) -> House:
    return House(each)


@pytest.fixture
def one(desk: Desk) -> House:
    """On SQLite only."""
    return House(desk)


HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


# --- from slot to end ------------------------------------------------------------------------------------------------


def test_a_slot_becomes_a_job_and_the_job_an_outcome_that_outlives_it(house: House) -> None:
    row = house.add(spec={"urls": [URL, f"{URL}gone"], "fields": {"title": "h1"}}, every="1h")
    assert row.next_slot_ms == START_MS + HOUR_MS
    house.tick()
    assert house.runs() == []
    house.tick(HOUR + MINUTE)
    (run,) = house.runs()
    assert (run.state, run.kind, run.slot_ms) == (RunState.RUNNING, Kind.SLOT, START_MS + HOUR_MS)
    job = house.desk.platform.control.job(run.job)
    assert (job.name, job.spec.labels) == ("nightly", ("schedule:nightly",))
    house.desk.work(lambda lease: some_dead("gone")(lease) if "gone" in str(lease.request.url) else _item(lease))
    house.tick()
    house.desk.platform.control.delete(run.job)
    (run,) = house.runs()
    assert run.state is RunState.FINISHED
    assert run.sums is not None
    assert (run.sums.pages, run.sums.failed, run.sums.items) == (1, 1, 1)
    assert run.ended_ms is not None


def _item(lease: Any) -> Any:
    return page(lease, item={"title": "hello"})


def test_any_number_of_housekeepers_run_a_slot_once(house: House) -> None:
    house.add(every="1h")
    others = [house.schedules() for _ in range(3)]
    house.now_ms += HOUR_MS
    for part in range(2):
        for other in others:
            other.chores()[part].do()
    assert len(house.runs()) == len(house.jobs()) == 1


def test_who_has_read_an_older_schedule_plans_nothing(house: House) -> None:
    row = house.add(every="1h")
    house.tick(HOUR)
    late = house.schedules()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late.store, "due", lambda now, limit: [row])  # pyright: ignore
        late.planner.plan()
    assert house.states() == ["running"]


def test_a_crash_between_the_submission_and_its_note_makes_no_second_job(house: House) -> None:
    house.add(every="1h")
    house.now_ms += HOUR_MS
    parts = house.schedules()
    with pytest.MonkeyPatch.context() as patch:
        turn = parts.runs.turn

        def crash(run: RunRow, state: RunState, **values: Any) -> bool:
            if state is RunState.RUNNING:
                raise StoreUnavailable
            return turn(run, state, **values)

        patch.setattr(parts.runs, "turn", crash)
        parts.planner.plan()
        with pytest.raises(StoreUnavailable):
            parts.starter.tick()
    assert house.states() == ["starting"]
    (made,) = house.jobs()
    house.desk.platform.jobs.forget_claims(2 * house.now_ms)  # a day has passed, too
    house.refuse = _refuse  # and its spec could not be submitted any more
    house.tick()
    assert [run.job for run in house.runs()] == house.jobs() == [made]
    assert house.states() == ["running"]


def _refuse(spec: JobSpec, allowed: str) -> None:
    raise InputError("not any more")


def test_a_crash_after_the_decision_is_made_good(house: House) -> None:
    house.add(every="1h")
    house.now_ms += HOUR_MS
    parts = house.schedules()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(house.desk.platform.intake, "submit", _away)
        parts.planner.plan()
        with pytest.raises(RedisUnavailable):
            parts.starter.tick()
    assert (house.states(), house.jobs()) == (["starting"], [])
    house.tick()
    assert house.states() == ["running"]


def _away(*_: object, **__: object) -> None:
    raise RedisUnavailable


# --- clocks ----------------------------------------------------------------------------------------------------------


def test_a_clock_that_is_put_back_runs_no_slot_again(house: House) -> None:
    house.add(every="1h", overlap="queue")
    for _ in range(3):
        house.tick(HOUR)
        house.desk.work()
    house.tick()
    house.tick(-2 * HOUR)
    house.tick(HOUR)
    house.tick(HOUR)
    assert len(house.jobs()) == 3
    house.tick(HOUR)
    assert [run.slot_ms for run in house.runs()] == [START_MS + n * HOUR_MS for n in range(1, 5)]


def test_a_timing_that_is_set_anew_after_that_runs_none_again_either(house: House) -> None:
    row = house.add(cron="0 * * * *")
    house.tick(HOUR)
    house.tick(-HOUR)
    house.book.edit(row, {"cron": "0 * * * *", "jitter": 1}, None, "")
    house.tick(HOUR)
    assert len(house.runs()) == len(house.jobs()) == 1


def test_a_run_that_waits_does_so_also_after_a_clock_was_put_back(house: House) -> None:
    house.add(every="1h", overlap="queue")
    house.tick(HOUR)
    house.tick(HOUR)
    assert house.states() == ["running", "waiting"]
    house.desk.work()
    house.tick(-HOUR)
    assert house.states() == ["finished", "running"]


def test_a_run_that_found_no_room_is_tried_again_also_after_a_clock_was_put_back(house: House) -> None:
    house.add(every="1d")
    intake: Any = house.desk.platform.intake
    caps, intake._caps = intake._caps, Caps(urls=0, memory=10**12)
    house.tick(timedelta(days=1))
    assert house.states() == ["starting"]
    intake._caps = caps
    house.tick(-HOUR)
    assert house.states() == ["running"]


# --- catching up -----------------------------------------------------------------------------------------------------


def test_missed_slots_are_skipped(house: House) -> None:
    house.add(every="1h", catch_up="skip")
    house.tick(3.5 * HOUR)
    assert house.states() == ["skipped:missed"] * 3
    assert house.row().next_slot_ms == START_MS + 4 * HOUR_MS


def test_one_run_makes_up_for_all_missed_slots(house: House) -> None:
    house.add(every="1h", catch_up="once")
    house.tick(3.5 * HOUR)
    assert house.states() == ["skipped:missed", "skipped:missed", "running"]
    assert house.runs()[-1].kind is Kind.CATCH_UP


def test_a_slot_that_is_on_time_makes_up_for_those_before(house: House) -> None:
    house.add(every="1h", catch_up="once")
    house.tick(3 * HOUR)
    assert house.states() == ["skipped:missed", "skipped:missed", "running"]
    assert house.runs()[-1].kind is Kind.SLOT


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel"])
def test_all_missed_slots_are_run_one_after_the_other(one: House, overlap: str) -> None:
    one.add(every="1h", catch_up="all", overlap=overlap)
    one.tick(3.5 * HOUR)
    assert one.states() == ["running", "waiting", "waiting"]
    for _ in range(3):
        one.desk.work()
        one.tick(timedelta(seconds=3))
    assert one.states() == ["finished"] * 3
    assert len(one.jobs()) == 3


def test_no_more_are_caught_up_with_than_may_wait_and_the_others_are_told(house: House) -> None:
    house.add(every="1h", catch_up="all")
    house.tick(30 * HOUR + GRACE + MINUTE)
    assert house.states() == ["skipped:too_many"] * 10 + ["running"] + ["waiting"] * (MAX_RUNS_WAITING - 1)


def test_a_schedule_that_is_a_year_behind_catches_up_in_bounded_steps(one: House) -> None:
    one.add(cron="* * * * *", catch_up="once")
    one.now_ms += 4 * DAY_MS
    counted: list[int] = []
    while one.row().cursor_ms < one.now_ms - MINUTE_MS:
        one.tick()
        counted.append(len(one.runs()))
        assert len(counted) < 10
    runs = one.runs()
    assert sum(run.slots for run in runs) == 4 * 24 * 60
    assert all(earlier.last_ms < later.slot_ms for earlier, later in pairwise(runs))
    assert [run.state for run in runs if run.state is not RunState.SKIPPED] == [RunState.RUNNING]
    assert len(runs) < 200


def test_a_slot_that_is_a_little_late_is_on_time(house: House) -> None:
    house.add(every="1h", catch_up="skip")
    house.tick(HOUR + GRACE)
    house.add("other", every="1h", catch_up="skip")
    house.tick(HOUR + GRACE + timedelta(seconds=1))
    assert house.states() == ["running", "skipped:missed"]
    assert house.states("other") == ["skipped:missed"]


# --- overlap ---------------------------------------------------------------------------------------------------------


def test_a_slot_is_skipped_while_the_run_before_goes_on(house: House) -> None:
    house.add(every="1h", overlap="skip")
    house.tick(HOUR)
    house.tick(HOUR)
    first, second = house.runs()
    assert (second.state, second.reason, second.other) == (RunState.SKIPPED, "overlap", first.job)
    house.desk.work()
    house.tick(HOUR)
    assert house.states() == ["finished", "skipped:overlap", "running"]


def test_a_slot_is_queued_and_the_queue_is_bounded(house: House) -> None:
    house.add(every="1h", overlap="queue")
    for _ in range(MAX_RUNS_WAITING + 3):
        house.tick(HOUR)
    assert house.states() == ["running"] + ["waiting"] * MAX_RUNS_WAITING + ["skipped:too_many"] * 2
    house.desk.work()
    house.tick(timedelta(seconds=3))
    assert house.states()[:3] == ["finished", "running", "waiting"]


def test_the_run_before_is_cancelled(house: House) -> None:
    house.add(every="1h", overlap="cancel")
    house.tick(HOUR)
    house.tick(HOUR)
    assert house.states() == ["cancelled", "running"]
    first, second = house.runs()
    assert house.desk.state(first.job) is JobState.CANCELLED
    assert house.desk.state(second.job) is JobState.RUNNING


def test_of_runs_that_wait_the_latest_takes_the_place_of_the_others(house: House) -> None:
    house.add(every="1h", overlap="queue")
    for _ in range(3):
        house.tick(HOUR)
    house.book.edit(house.row(), {"overlap": "cancel"}, None, "")
    house.tick(timedelta(seconds=3))
    assert house.states() == ["cancelled", "skipped:superseded", "running"]


def test_a_run_that_could_not_be_started_stands_in_nobodys_way(house: House) -> None:
    house.add(every="1h", overlap="skip")
    house.now_ms += HOUR_MS
    parts = house.schedules()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(house.desk.platform.intake, "submit", _away)
        parts.planner.plan()
        with pytest.raises(RedisUnavailable):
            parts.starter.tick()
    house.now_ms += HOUR_MS
    parts.planner.plan()
    refusals = iter([InputError("not any more")])

    def refuse_one(spec: JobSpec, allowed: str) -> None:
        if refusal := next(refusals, None):
            raise refusal

    house.refuse = refuse_one
    parts.starter.tick()
    assert house.states() == ["failed:refused", "running"]


def test_who_has_not_seen_the_run_that_goes_on_starts_no_second_one(house: House) -> None:
    row = house.add(every="1h", overlap="skip")
    house.now_ms += HOUR_MS
    slow, quick = house.schedules(), house.schedules()
    last_finished = slow.runs.last_finished

    def meanwhile(schedule: int) -> str:
        patch.undo()
        house.tick()  # a slot comes, and is started
        return last_finished(schedule)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slow.runs, "last_finished", meanwhile)
        slow.starter.run_now(row, force=False)
    quick.starter.tick()
    assert sorted(house.states()) == ["running", "skipped:overlap"]
    assert len(house.jobs()) == 1


def test_a_job_that_goes_on_again_is_not_taken_for_removed(house: House) -> None:
    house.add(every="1h")
    house.tick(HOUR)
    (run,) = house.runs()
    parts = house.schedules()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts.runs, "over", lambda limit, schedule=None: [run])  # pyright: ignore
        parts.starter.note_ends()
    assert house.states() == ["running"]


# --- on demand -------------------------------------------------------------------------------------------------------


def test_a_run_on_demand_obeys_the_policy_unless_it_is_forced(house: House) -> None:
    row = house.add(every="1h", overlap="skip")
    parts = house.schedules().starter
    first, second = parts.run_now(row, force=False), parts.run_now(row, force=False)
    forced = parts.run_now(row, force=True)
    assert (first.state, first.kind) == (RunState.RUNNING, Kind.MANUAL)
    assert (second.state, second.reason, second.other) == (RunState.SKIPPED, Skip.OVERLAP.value, first.job)
    assert (forced.state, forced.kind) == (RunState.RUNNING, Kind.FORCED)
    assert len(house.jobs()) == 2
    assert len({run.slot_ms for run in house.runs()}) == 3


def test_a_paused_schedule_can_be_run_on_demand(house: House) -> None:
    row = house.book.pause(house.add())
    assert house.schedules().starter.run_now(row, force=False).state is RunState.RUNNING


def test_a_run_on_demand_at_the_moment_of_a_slot_takes_nothing_from_it(house: House) -> None:
    row = house.add(every="1h", overlap="queue")
    house.now_ms += HOUR_MS
    house.schedules().starter.run_now(row, force=False)
    house.tick()
    assert [(run.kind, run.state) for run in house.runs()] == [
        (Kind.SLOT, RunState.WAITING),
        (Kind.MANUAL, RunState.RUNNING),
    ]


def test_only_so_many_runs_on_demand_wait(house: House) -> None:
    row = house.add(every="1h", overlap="queue")
    starter = house.schedules().starter
    runs = [starter.run_now(row, force=False) for _ in range(MAX_RUNS_WAITING + 3)]
    assert [run.state for run in runs[1:-2]] == [RunState.WAITING] * MAX_RUNS_WAITING
    assert [(run.state, run.reason) for run in runs[-2:]] == [(RunState.SKIPPED, Skip.TOO_MANY.value)] * 2


def test_a_later_run_takes_the_place_of_none_that_was_forced(house: House) -> None:
    row = house.add(every="1h", overlap="cancel")
    parts = house.schedules()
    parts.runs.add_now(row.id, Kind.FORCED, house.now_ms, row.calendar)
    run = parts.starter.run_now(row, force=True)
    assert run.state is RunState.RUNNING
    assert house.states() == ["running", "running"]


def test_a_run_on_demand_of_a_schedule_that_is_gone_says_so(house: House) -> None:
    row = house.add()
    house.book.remove(row)
    with pytest.raises(NotFound, match="no schedule 'nightly' any more"):
        house.schedules().starter.run_now(row, force=False)


# --- refusals --------------------------------------------------------------------------------------------------------


def test_a_run_that_is_refused_says_why_and_the_next_ones_go_on(house: House) -> None:
    house.add(every="1h")
    house.refuse = _refuse
    house.tick(HOUR)
    (run,) = house.runs()
    assert (run.state, run.reason, run.detail) == (RunState.FAILED, "refused", "not any more")
    house.refuse = lambda spec, allowed: None
    house.tick(HOUR)
    assert house.states() == ["failed:refused", "running"]


def test_a_full_frontier_puts_a_run_off_and_at_last_lets_it_fail(house: House) -> None:
    house.add(every="1d")
    intake: Any = house.desk.platform.intake
    caps, intake._caps = intake._caps, Caps(urls=0, memory=10**12)
    house.tick(timedelta(days=1))
    (run,) = house.runs()
    assert (run.state, "of at most 0" in run.detail) == (RunState.STARTING, True)
    house.tick(timedelta(minutes=30))
    assert house.states() == ["starting"]
    intake._caps = caps
    house.tick(timedelta(minutes=1))
    assert house.states() == ["running"]
    house.desk.work()
    intake._caps = Caps(urls=0, memory=10**12)
    house.tick(timedelta(hours=24))
    house.tick(starting.FULL_FOR + MINUTE)
    assert house.states() == ["finished", "failed:full"]
    assert issubclass(Full, Busy)


def _of_a() -> sa.Update:
    """A change of the schedule `a` behind everybody's back."""
    schedules = schedule_tables.schedules
    return sa.update(schedules).where(schedules.c.name == "a")


def test_one_schedule_that_cannot_be_served_holds_up_no_other(one: House) -> None:
    one.add("a", cron="0 * * * *", timezone="Europe/Berlin")
    one.add("b", cron="0 * * * *")
    with one.desk.platform.engine.begin() as connection:
        timing = '{"cron":"0 * * * *","timezone":"Europe/Atlantis"}'
        connection.execute(_of_a().values(timing=timing))
    one.tick(HOUR)
    assert one.states("b") == ["running"]


def test_no_number_of_schedules_that_cannot_be_served_holds_up_the_others(
    one: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "SCHEDULES_AT_ONCE", 1)
    monkeypatch.setattr(starting, "AT_ONCE", 1)
    for name in "ab":
        one.add(name, cron="0 * * * *")
    timings = {"timing": '{"cron":"0 * * * *","timezone":"Europe/Atlantis"}', "next_ms": 1}
    with one.desk.platform.engine.begin() as connection:
        connection.execute(_of_a().values(timings))
    one.now_ms += HOUR_MS
    for _ in range(2):
        one.tick()
    assert one.states("b") == ["running"]

    def breaks(spec: JobSpec, allowed: str) -> None:
        if spec.name == "c":
            raise ValueError("cannot be told")

    one.refuse = breaks
    rows = [one.add(name, every="1h") for name in "cd"]
    for row in rows:
        one.schedules().runs.add_now(row.id, Kind.MANUAL, one.now_ms, row.calendar)
    for _ in range(2):
        one.tick()
    assert (one.states("c"), one.states("d")) == (["starting"], ["running"])


def test_a_round_ends_when_its_time_is_up_and_the_next_goes_on(one: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner, "LONGEST_S", 0)
    monkeypatch.setattr(starting, "LONGEST_S", 0)
    for name in "abc":
        one.add(name)
    one.now_ms += HOUR_MS
    for count in (1, 2, 3):
        one.tick()
        assert len(one.jobs()) == count


# --- changing --------------------------------------------------------------------------------------------------------


def test_a_name_is_taken_once_in_a_tenant(house: House) -> None:
    house.add()
    with pytest.raises(Conflict, match="a schedule 'nightly' already"):
        house.add()
    job = read_spec({"urls": [URL]})
    house.book.add(NewSchedule("other", "nightly", read_timing({"every": "1h"}), job))
    assert [each.row.tenant for each in house.book.list(None, 10)] == ["default", "other"]
    assert [each.row.tenant for each in house.book.list("other", 10)] == ["other"]
    with pytest.raises(NotFound):
        house.book.find("third", "nightly")


def test_an_edit_keeps_history_and_another_timing_counts_from_now(house: House) -> None:
    house.add(every="1h")
    house.tick(HOUR)
    house.now_ms += 10 * MINUTE_MS
    row = house.book.edit(house.row(), {"every": "2h"}, None, "")
    assert row.next_slot_ms == house.now_ms + 2 * HOUR_MS
    row = house.book.edit(row, {"overlap": "cancel"}, read_spec({"urls": [f"{URL}new"], "follow": False}), "")
    assert row.next_slot_ms == house.now_ms + 2 * HOUR_MS
    assert house.book.spec(row)["urls"] == [f"{URL}new"]
    row = house.book.edit(row, {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}, None, "")
    assert row.timing.every is None
    assert row.next_slot_ms == round(datetime(2026, 11, 18, 2, 0, tzinfo=UTC).timestamp() * 1000)
    assert len(house.runs()) == 1


def test_a_schedule_is_replaced_under_its_name(house: House) -> None:
    before = house.add(every="1h")
    job = read_spec({"urls": [f"{URL}new"], "follow": False})
    after = house.book.add(NewSchedule("default", "nightly", read_timing({"every": "3h"}), job), replaces=True)
    assert (after.id, after.timing.every) == (before.id, 3 * 3600)
    assert house.book.spec(after)["urls"] == [f"{URL}new"]


def test_what_passes_during_a_pause_was_not_missed(house: House) -> None:
    row = house.book.pause(house.add(every="1h", catch_up="all"))
    assert (row.state, row.next_ms) == ("paused", None)
    house.tick(5.5 * HOUR)
    row = house.book.resume(row)
    assert row.next_slot_ms == START_MS + 6 * HOUR_MS
    house.tick(0.5 * HOUR)
    assert house.states() == ["running"]


def test_a_slot_that_waits_is_not_run_when_the_schedule_is_paused(house: House) -> None:
    row = house.add(every="1h", overlap="queue")
    for _ in range(2):
        house.tick(HOUR)
    house.book.pause(row)
    house.desk.work()
    house.tick(timedelta(seconds=3))
    assert house.states() == ["finished", "skipped:paused"]


def test_who_changes_what_somebody_else_has_changed_meanwhile_undoes_none_of_it(house: House) -> None:
    row = house.add(every="1h")
    house.book.pause(row)
    house.book.edit(row, {"overlap": "queue"}, None, "")
    assert (house.row().state, house.row().timing.overlap.value) == ("paused", "queue")
    house.book.edit(row, {"catch_up": "all"}, None, "")
    paused = house.row()
    assert (paused.timing.overlap.value, paused.timing.catch_up.value) == ("queue", "all")
    house.book.resume(paused)
    house.book.edit(paused, {"overlap": "skip"}, None, "")
    assert (house.row().state, house.row().next_slot_ms) == ("active", START_MS + HOUR_MS)


def test_a_change_of_a_schedule_that_is_gone_says_so(house: House) -> None:
    row = house.add()
    house.book.remove(row)
    with pytest.raises(NotFound, match="no schedule 'nightly' any more"):
        house.book.pause(row)


def test_after_its_end_no_slot_comes(house: House) -> None:
    end = datetime.fromtimestamp((START_MS + 90 * MINUTE_MS) / 1000, UTC)
    house.add(every="1h", end=end.isoformat())
    house.tick(HOUR)
    house.tick(9 * HOUR)
    assert house.row().state == "ended"
    assert house.states() == ["running"]
    with pytest.raises(InputError, match="its end has passed"):
        house.add("late", every="1h", end=end.isoformat())
    assert house.book.list("default", 10)[0].row.name == "nightly"


def test_a_schedule_goes_with_its_history_and_its_jobs_stay(house: House) -> None:
    house.add(every="1h")
    house.tick(HOUR)
    house.book.remove(house.row())
    with house.desk.platform.engine.connect() as connection:
        assert (
            connection.execute(sa.select(sa.func.count()).select_from(schedule_tables.schedule_runs)).scalar_one() == 0
        )
    assert len(house.jobs()) == 1
    house.tick(HOUR)
    assert house.add().id > 1, "a new one of its name has claims of its own"


def test_history_is_bounded_and_what_goes_on_stays(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_runs, "KEEP_RUNS", 3)
    house.add(every="1h", overlap="skip")
    for _ in range(6):
        house.tick(HOUR)
    assert house.states() == ["running"] + ["skipped:overlap"] * 3


def test_the_last_finished_job_is_known_to_the_next_run(house: House) -> None:
    house.add(every="1h", overlap="cancel")
    house.tick(HOUR)
    house.desk.work()
    house.tick(HOUR)
    house.tick(HOUR)
    first, second, third = house.runs()
    assert (first.previous, second.previous, third.previous) == ("", first.job, first.job)
    assert [house.spec_of(run).previous for run in house.runs()] == [None, first.job, first.job]
    assert all(house.spec_of(run).keeps_trail for run in house.runs())


@pytest.mark.parametrize("spec", [{"recrawl": False}, {"previous": "last", "name": "other"}])
def test_a_job_that_says_otherwise_does_not_follow_the_run_before(one: House, spec: dict[str, Any]) -> None:
    one.add(spec=spec)
    one.tick(HOUR)
    one.desk.work()
    one.tick(HOUR)
    first, second = one.runs()
    assert second.previous == first.job
    assert one.spec_of(second).previous == (first.job if "name" in spec else None)
    assert one.spec_of(second).keeps_trail == ("name" in spec)


def test_a_run_whose_forerunner_was_deleted_is_a_first_one(one: House) -> None:
    one.add()
    one.tick(HOUR)
    one.desk.work()
    one.tick()
    one.desk.platform.control.delete(one.runs()[0].job)
    one.tick(HOUR)
    second = one.runs()[1]
    assert (second.state, one.spec_of(second).previous) == (RunState.RUNNING, None)


# --- jobs of schedules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"open": True}, "takes no more URLs"),
        ({"urls": [f"{URL}{n}" for n in range(MAX_URLS + 1)]}, f"at most {MAX_URLS}"),
        ({"spider": "gone"}, "gone"),
        ({"urls": ["http://127.0.0.1/"]}, "127.0.0.1"),
        ({"urls": []}, "no URLs"),
    ],
)
def test_a_job_that_could_not_be_submitted_makes_no_schedule(one: House, spec: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        one.add(spec=spec)
    assert one.book.list(None, 10) == []


def test_a_job_that_follows_one_of_another_tenant_makes_no_schedule(one: House) -> None:
    job = one.desk.submit(URL)
    one.desk.work()
    for previous, tenant in (("none", "default"), (job, "other")):
        spec = read_spec({"urls": [URL], "previous": previous})
        with pytest.raises(InputError, match=f"there is no job '{previous}'"):
            one.book.add(NewSchedule(tenant, "nightly", read_timing({"every": "1h"}), spec))
    one.add(spec={"previous": "last"})


def test_there_are_only_so_many_schedules(one: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "MAX_SCHEDULES", 1)
    one.add("a")
    with pytest.raises(Conflict, match="no room for more"):
        one.add("b")


def test_an_age_in_a_job_counts_from_each_run(one: House) -> None:
    one.add(spec={"sitemaps": [f"{URL}sitemap.xml"], "urls": [], "since": "7d"})
    assert one.book.spec(one.row())["since"] == "7d"


def test_a_run_before_whose_dead_letters_are_tried_again_is_in_no_runs_way(house: House) -> None:
    house.add(spec={"urls": [f"{URL}gone"]}, every="1h")
    house.tick(HOUR)
    house.desk.work(some_dead("gone"))
    house.now_ms += HOUR_MS
    parts = house.schedules()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(house.desk.platform.intake, "submit", _away)
        parts.planner.plan()
        with pytest.raises(RedisUnavailable):
            parts.starter.tick()
    first, second = house.runs()
    assert (second.state, second.previous) == (RunState.STARTING, first.job)
    platform = house.desk.platform
    assert platform.intake.replay(platform.control.job(first.job), Selection()) == 1
    house.tick()
    assert house.states() == ["finished", "running"]
    assert platform.control.job(house.runs()[1].job).spec.previous is None


def test_jobs_of_a_schedule_are_found_by_its_label(one: House) -> None:
    one.add(spec={"labels": [f"label{n}" for n in range(20)], "name": "books"})
    one.tick(HOUR)
    (job,) = one.desk.platform.jobs.newest(10, JobFilter(label="schedule:nightly"))
    assert job.name == "books"


def test_a_tick_over_ten_thousand_schedules_that_wait_reads_none(one: House, monkeypatch: pytest.MonkeyPatch) -> None:
    one.add()
    with one.desk.platform.engine.begin() as connection:
        first = connection.execute(sa.select(schedule_tables.schedules)).mappings().one()
        rows = [{**first, "id": n, "name": f"s{n}"} for n in range(10, 10_010)]
        connection.execute(sa.insert(schedule_tables.schedules), rows)
        plan = connection.exec_driver_sql(
            "EXPLAIN QUERY PLAN SELECT * FROM schedules WHERE next_ms <= 1 ORDER BY next_ms"
        )
        assert "schedules_due" in str(plan.all())
    assert one.schedules().store.due(one.now_ms, 100) == []
    one.tick()
    assert one.runs() == []


def test_a_tick_reads_no_history(one: House) -> None:
    asked: list[str] = []
    runs, engine = one.schedules().runs, one.desk.platform.engine

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    for look in (lambda: runs.waiting_for_somebody(1, 1), lambda: runs.over(1), lambda: runs.under_way(1)):
        look()
        with engine.connect() as connection:
            parameters = tuple("1" for _ in range(asked[-1].count("?")))
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {asked[-1]}", parameters)
            assert "schedule_runs_open" in str(plan.all()), asked[-1]


def test_the_operators_word_on_outputs_is_asked_again_at_each_run(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = f"file://{tmp_path}/out/"
    with a_desk(valkey_url, tmp_path, outputs=allowed) as desk:
        book = desk.platform.schedules.book
        job = read_spec({"urls": [URL], "output": f"{allowed}x/"})
        row = book.add(NewSchedule("default", "nightly", read_timing({"every": "1h"}), job, allowed))
        run = desk.platform.schedules.starter.run_now(row, force=False)
        assert run.state is RunState.RUNNING
    with a_desk(valkey_url, tmp_path) as desk:
        run = desk.platform.schedules.starter.run_now(row, force=True)
        assert (run.state, "SHOAL_OUTPUTS" in run.detail) == (RunState.FAILED, True)


def test_where_fetches_may_go_is_asked_again_at_each_run(one: House) -> None:
    row = one.add()
    with one.desk.platform.engine.begin() as connection:
        connection.execute(sa.update(schedule_tables.schedules).values(spec='{"urls":["http://127.0.0.1/"]}'))
    run = one.schedules().starter.run_now(row, force=False)
    assert (run.state, "127.0.0.1" in run.detail) == (RunState.FAILED, True)


def test_a_job_whose_settings_are_not_valid_any_more_fails_its_run(one: House) -> None:
    row = one.add()
    with one.desk.platform.engine.begin() as connection:
        connection.execute(
            sa.update(schedule_tables.schedules).values(spec='{"urls":["http://shop.example/"],"gone":1}')
        )
    run = one.schedules().starter.run_now(row, force=False)
    assert (run.state, "gone: there is no such setting" in run.detail) == (RunState.FAILED, True)
    assert issubclass(BadSpec, InputError)


# --- housekeeping ----------------------------------------------------------------------------------------------------


def test_the_housekeeping_keeps_schedules(each: Desk) -> None:
    book = each.platform.schedules.book
    row = book.add(NewSchedule("default", "a", read_timing({"every": "1h"}), read_spec({"urls": [URL]})))
    with each.platform.engine.begin() as connection:
        past = {"cursor_ms": row.cursor_ms - HOUR_MS, "anchor_ms": row.anchor_ms - HOUR_MS, "next_ms": row.cursor_ms}
        connection.execute(sa.update(schedule_tables.schedules).values(past))
    each.platform.housekeeper.tick()
    (run,) = book.history(book.find("default", "a"), 10)
    assert run.state is RunState.RUNNING
    assert each.platform.control.job(run.job).state is JobState.RUNNING
    assert each.rings, "a worker was told"
