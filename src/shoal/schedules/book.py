"""What people and programs can ask about schedules, and do with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from pydantic import ValidationError

from shoal.core.flaws import flaws_of
from shoal.core.frozen import frozen
from shoal.core.schedule import Calendar, Timing
from shoal.core.spec import JobSpec
from shoal.errors import BadSpec, Conflict, InputError, NotFound
from shoal.intake.intake import Intake
from shoal.schedules.starter import Check
from shoal.store.schedule_runs import RunRow, RunStore
from shoal.store.schedules import NewSchedule, ScheduleRow, ScheduleStore, counting_from, spec_text, timing_text

MAX_URLS = 10_000
"""Written in the job of a schedule; sitemaps, templates and links lead to as many as they like."""
TRIES = 5


@frozen
class Listed:
    """A schedule and its latest run."""

    row: ScheduleRow
    last: RunRow | None


class Book:
    """All schedules."""

    def __init__(
        self,
        store: ScheduleStore,
        runs: RunStore,
        intake: Intake,
        clock: Callable[[], int],
        check: Check,
    ) -> None:
        self._store = store
        self._runs = runs
        self._intake = intake
        self._clock = clock
        self._check = check

    # --- looking -------------------------------------------------------------------------------------------------

    def find(self, tenant: str, name: str) -> ScheduleRow:
        """The schedule of this name; one of another tenant does not exist."""
        row = self._store.get(tenant, name)
        if row is None:
            raise NotFound(f"there is no schedule {name!r}; `shoal schedule list` has them")
        return row

    def show(self, row: ScheduleRow) -> Listed:
        return Listed(row, self._runs.last([row.id]).get(row.id))

    def list(self, tenant: str | None, limit: int, after: tuple[str, str] = ("", "")) -> list[Listed]:
        """By tenant and name."""
        rows = self._store.list(tenant, limit, after)
        last = self._runs.last([row.id for row in rows])
        return [Listed(row, last.get(row.id)) for row in rows]

    def spec(self, row: ScheduleRow) -> dict[str, Any]:
        """The settings of its job, secrets and all."""
        return self._store.spec(row.id) or {}

    def history(self, row: ScheduleRow, limit: int, before_ms: int | None = None) -> list[RunRow]:
        """What became of its slots, the latest first."""
        return self._runs.newest(row.id, limit, before_ms)

    def preview(self, timing: Timing, count: int, row: ScheduleRow | None = None) -> list[tuple[int, int | None]]:
        """The next slots, each with when it is due, which only a schedule that exists can say."""
        now = self._clock()
        if row is None:
            return [(slot, None) for slot in islice(Calendar(timing, now, "").after(now), count)]
        calendar = row.calendar
        after = max(now, row.cursor_ms) if row.enabled else now
        return [(slot, calendar.due_ms(slot)) for slot in islice(calendar.after(after), count)]

    # --- changing ------------------------------------------------------------------------------------------------

    def add(self, new: NewSchedule, *, replaces: bool = False) -> ScheduleRow:
        """Record a schedule, checked as if its job were submitted now; or change the one of this name."""
        spec = self._checked(new.spec, new.tenant, new.name, new.allowed)
        if replaces and (row := self._store.get(new.tenant, new.name)):
            return self._replace(row, replace(new, spec=spec))
        row = self._store.add(replace(new, spec=spec), self._clock())
        if new.enabled and row.next_ms is None:
            self._store.remove(row.id)
            raise InputError("it would never run: its end has passed", "end")
        return row

    def edit(self, row: ScheduleRow, changes: Mapping[str, Any], spec: JobSpec | None, allowed: str) -> ScheduleRow:
        """Change when it runs, its policies or its job; it keeps its history. Another timing counts from now."""
        job = (
            {"spec": spec_text(self._checked(spec, row.tenant, row.name, allowed)), "allowed": allowed} if spec else {}
        )

        def changed(row: ScheduleRow) -> dict[str, Any]:
            return self._timed(row, changed_timing(row.timing, changes), enabled=row.enabled) | job

        return self._change(row, changed)

    def _replace(self, row: ScheduleRow, new: NewSchedule) -> ScheduleRow:
        job = {"spec": spec_text(new.spec), "allowed": new.allowed}
        return self._change(row, lambda row: self._timed(row, new.timing, enabled=new.enabled) | job)

    def _timed(self, row: ScheduleRow, timing: Timing, *, enabled: bool) -> dict[str, Any]:
        """Columns of a schedule with this timing."""
        now = self._clock()
        values: dict[str, Any] = {"timing": timing_text(timing), "changed_ms": now, "enabled": enabled}
        if timing.moves_from(row.timing) or enabled != row.enabled:
            values |= counting_from(replace(row, enabled=enabled), now, timing)
            if enabled and values["next_ms"] is None:
                raise InputError("it would never run again: its end has passed", "end")
        return values

    def pause(self, row: ScheduleRow) -> ScheduleRow:
        """No more slots; what runs goes on."""
        return self._change(row, lambda _: {"enabled": False, "next_slot_ms": None, "next_ms": None})

    def resume(self, row: ScheduleRow) -> ScheduleRow:
        """Go on from now: what has passed meanwhile was not missed."""
        return row if row.enabled else self._change(row, self._resumed)

    def _resumed(self, row: ScheduleRow) -> dict[str, Any]:
        if row.enabled:
            return {}
        now = self._clock()
        slot = row.calendar.next_after(now)  # an interval keeps its beat
        due = None if slot is None else row.calendar.due_ms(slot)
        return {"enabled": True, "cursor_ms": now, "next_slot_ms": slot, "next_ms": due}

    def remove(self, row: ScheduleRow) -> None:
        """It is gone, with its history; jobs that it has made stay."""
        self._store.remove(row.id)

    def _change(self, row: ScheduleRow, changed: Callable[[ScheduleRow], Mapping[str, Any]]) -> ScheduleRow:
        """Whoever plans slots, or changes it, at the same moment is quicker: what is there then is changed."""
        now: ScheduleRow | None = row
        for _ in range(TRIES):
            if now is None:
                raise NotFound(f"there is no schedule {row.name!r} any more")
            if self._store.change(now, changed(now)):
                return self.find(row.tenant, row.name)
            now = self._store.by_id(row.id)
        raise Conflict(f"schedule {row.name!r} is being changed by somebody else: try again")

    def _checked(self, spec: JobSpec, tenant: str, name: str, allowed: str) -> JobSpec:
        if spec.open:
            raise BadSpec("open: a job of a schedule takes no more URLs: it could never end", field="open")
        if len(spec.urls) > MAX_URLS:
            raise BadSpec(
                f"urls: at most {MAX_URLS} in the job of a schedule; a sitemap, a template or links lead to more",
                field="urls",
            )
        spec, *_ = self._intake.examine(spec)
        self._intake.follow(spec.model_copy(update={"name": spec.name or name}), tenant)
        self._check(spec, allowed)
        return spec


def changed_timing(timing: Timing, changes: Mapping[str, Any]) -> Timing:
    """With what was changed, checked anew; cron takes the place of every, and the other way round."""
    values = timing.model_dump(mode="json", exclude_defaults=True)
    for one, other in (("cron", "every"), ("every", "cron")):
        if changes.get(one) and other not in changes:
            values.pop(other, None)
    values |= changes
    return read_timing({name: value for name, value in values.items() if value is not None})


def read_timing(values: Mapping[str, Any], where: str = "the schedule") -> Timing:
    """A timing, or one error that lists everything that is wrong with it."""
    try:
        return Timing.model_validate(values)
    except ValidationError as exc:
        found = flaws_of(exc, values, Timing)
        lines = [f"{flaw.place}: {flaw.message}" if flaw.place else flaw.message for flaw in found]
        message = "\n".join([f"{where} is not valid:", *(f"  - {line}" for line in lines)])
        raise InputError(message, found[0].place) from exc
