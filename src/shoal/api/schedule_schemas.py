"""The shapes of requests about schedules."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from shoal.api.schemas import Cursor, Exact, Flag, JobBody, Limit, Query
from shoal.core.schedule import NAME, CatchUp, Overlap, Timing

MAX_SLOTS = 100
_DURATION: dict[str, Any] = {
    "anyOf": [{"type": "number", "minimum": 60, "maximum": 31_536_000}, {"type": "string", "pattern": "^[1-9][0-9]?h$"}]
}
_JITTER: dict[str, Any] = {
    "anyOf": [{"type": "number", "minimum": 0, "maximum": 86_400}, {"type": "string", "pattern": "^[1-9]m$"}]
}
_MOMENT: dict[str, Any] = {"type": "string", "anyOf": [{"format": "date-time"}, {"format": "date"}]}
_NAME = Field(pattern=NAME, description="Letters, digits and _.-, at most 50; unique within the tenant.")

Every = Annotated[Any, WithJsonSchema(_DURATION)]
Jitter = Annotated[Any, WithJsonSchema(_JITTER)]
Moment = Annotated[Any, WithJsonSchema({"anyOf": [_MOMENT, {"type": "null"}]})]
Count = Annotated[int, Field(ge=1, le=MAX_SLOTS, description="So many slots.")]


def _one_of_two(schema: dict[str, Any]) -> None:
    """How a timing is written."""
    properties = schema["properties"]
    for name, shape in (("every", _DURATION), ("jitter", _JITTER), ("start", _MOMENT), ("end", _MOMENT)):
        about = {key: properties[name][key] for key in ("description", "title") if key in properties[name]}
        properties[name] = {**shape, **about}
    properties["cron"]["minLength"] = 1
    properties["cron"].pop("default", None)
    schema["oneOf"] = [{"required": ["cron"]}, {"required": ["every"]}]


def _timing(schema: dict[str, Any]) -> None:
    _one_of_two(schema)
    schema["examples"] = [{"cron": "0 3 * * *", "timezone": "Europe/Berlin"}]


def _schedule(schema: dict[str, Any]) -> None:
    _timing(schema)
    job = {"urls": ["https://books.example/"], "pages": 500}
    schema["examples"] = [{"name": "nightly", **schema["examples"][0], "job": job}]


class TimingBody(Timing):
    """When a schedule would run."""

    model_config = ConfigDict(json_schema_extra=_timing)


class ScheduleBody(Timing):
    """A job, and when it is submitted again and again."""

    model_config = ConfigDict(json_schema_extra=_schedule)

    name: str = _NAME
    job: JobBody
    """The job of each run, as it would be submitted."""
    enabled: Flag = True
    """False: it is recorded, and paused."""


class ScheduleChange(Exact):
    """What can be changed; another timing counts from now. `every` takes the place of `cron`, and vice versa."""

    cron: str | None = Field(default=None, max_length=200)
    every: Every | None = None
    timezone: str | None = Field(default=None, max_length=60)
    jitter: Jitter | None = None
    start: Moment = None
    """null: from now on."""
    end: Moment = None
    """null: for good."""
    catch_up: CatchUp | None = None
    overlap: Overlap | None = None
    job: JobBody | None = None


class SchedulePath(BaseModel):
    schedule: str = Field(pattern=NAME, description="A schedule's name.")


class ScheduleQuery(Query):
    limit: Limit = 100
    cursor: Cursor = Field(default=None, description="From the answer before, to go on behind it.")


class PreviewQuery(Query):
    count: Count = 10


class RunQuery(Query):
    force: bool = Field(default=False, description="Whatever goes on: the overlap policy is not asked.")
