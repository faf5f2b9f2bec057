"""A delivery that somebody asks for: once more, of another version, in another format, or to somewhere else."""

from __future__ import annotations

from typing import Any

from shoal.core.output import OutputSettings, TablePlace
from shoal.core.spec import read_spec
from shoal.errors import Conflict, InputError
from shoal.store.deliveries import Deliveries, Delivery
from shoal.store.job_rows import JobRow


def ask_again(
    deliveries: Deliveries, job: JobRow, to: str | None, kind: str | None, version: str, now_ms: int
) -> list[int]:
    """Deliver a version of a job that has ended: to a place, or to all that it was delivered to before.

    Returns the deliveries.
    """
    if not job.state.ended:
        raise Conflict(f"job {job.id} is {job.state.value}: what it finds is delivered when it has ended")
    if to is not None:
        return [deliveries.add(job.id, version, _output(to, kind), now_ms)]
    found = _last_of_each_place(deliveries.of_job(job.id))
    if not found:
        raise InputError(f"job {job.id} has no output: name one with --to, such as s3://bucket/prefix/")
    wanted = [(each, _in_format(each.output, kind)) for each in found]
    return [deliveries.add(job.id, version, output, now_ms, each.allowed) for each, output in wanted]


def _output(to: str, kind: str | None) -> OutputSettings:
    given: dict[str, Any] = {"to": to} if kind is None else {"to": to, "format": kind}
    output = read_spec({"output": given}, "the delivery").output
    assert output is not None
    return output


def _in_format(output: OutputSettings, kind: str | None) -> OutputSettings:
    if kind is None:
        return output
    if isinstance(output.place, TablePlace):
        raise InputError(f"--format: {output.place} is a table, which takes rows; name a place of files with --to")
    return _with_format(output, kind)


def _with_format(output: OutputSettings, kind: str) -> OutputSettings:
    values = {**output.model_dump(exclude_defaults=True), "format": kind}
    changed = read_spec({"output": values}, "the delivery").output
    assert changed is not None
    return changed


def _last_of_each_place(found: list[Delivery]) -> list[Delivery]:
    """What was asked for last of each place: readers would see what was asked for before it for a moment only."""
    last = {str(each.output.place): each for each in sorted(found, key=lambda each: each.round)}
    return sorted(last.values(), key=lambda each: each.id)
