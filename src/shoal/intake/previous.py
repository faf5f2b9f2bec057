"""The earlier job that a new one knows: named by its id, or as the last one of the same name."""

from __future__ import annotations

from shoal.core.revisit import LAST
from shoal.core.spec import JobSpec
from shoal.errors import InputError
from shoal.store.jobs import JobStore


def with_previous(spec: JobSpec, jobs: JobStore, tenant: str) -> JobSpec:
    """The job with the id of its previous run, or with none when there is none yet; raises InputError."""
    if spec.previous is None:
        return spec
    if spec.previous == LAST:
        return spec.model_copy(update={"previous": _last(spec, jobs, tenant), "recrawl": True})
    row = jobs.get(spec.previous)
    if row is None or row.tenant != tenant:
        raise InputError(f"previous: there is no job {spec.previous!r}; `shoal jobs` lists them", "previous")
    if not row.state.ended:
        raise InputError(f"previous: job {row.id} is {row.state.value}; wait for its end, or cancel it", "previous")
    return spec


def _last(spec: JobSpec, jobs: JobStore, tenant: str) -> str | None:
    if not spec.name:
        raise InputError("previous: `last` is the last job of the same name: give this one a name", "previous")
    return next(iter(jobs.finished(tenant, spec.name, 1)), None)
