"""The shapes of requests: what the OpenAPI document says of them, and what they are checked against."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, WithJsonSchema, model_validator

from shoal.api.field_schema import EACH_SCHEMA, FIELDS_SCHEMA
from shoal.api.job_schema import (
    CHANGES_SCHEMA,
    CONTRACT_SCHEMA,
    EACH_HAS_FIELDS,
    NEXT_SCHEMA,
    OUTPUT_SCHEMA,
    REVISIT_SCHEMA,
    SINCE_SCHEMA,
    SITEMAPS_SCHEMA,
    TOGETHER,
)
from shoal.core.browsing import Browsing
from shoal.core.contract import Contract
from shoal.core.job_order import JobSort
from shoal.core.model import Engine, JobState, Lane
from shoal.core.noise import WatchingSetting
from shoal.core.output import Output
from shoal.core.proxies import PoolName
from shoal.core.revisit import Revisit
from shoal.core.sitemaps import Since, Sitemaps
from shoal.core.spec import Duration, JobSpec, Keep, Label, Parallel, Rate, Size
from shoal.core.versions import NAME as VERSION_NAME

_JOB = r"^[a-z0-9]{1,40}$"
_HOST = r"^@?[A-Za-z0-9._:\[\]-]{1,300}$"
_TEXT = r"^[^\x00]*$"
"""PostgreSQL cannot keep a NUL."""
_MOST = 2**53
"""Larger numbers are not the same to all who read JSON."""


def _number(value: object) -> object:
    """JSON's numbers: no text that looks like one, and `true` is not 1."""
    if value is True or value is False or isinstance(value, str):
        raise ValueError("input should be a number")
    return value


def _name_of_a_pool(value: object) -> object:
    """Who sends a job over the network may not choose where the fleet connects to."""
    if value is not None and not isinstance(value, str):
        raise ValueError("over the API, only the name of a pool that the operator has defined can be given")
    return value


ONLY_HERE = "only on the command line; the operator allows addresses with SHOAL_EGRESS_ALLOW"
"""Of `local`."""


def _nothing(value: object) -> object:
    """Who sends a job over the network is not at this machine's command line."""
    if value:
        raise ValueError(ONLY_HERE)
    return value


Pool = Annotated[PoolName | None, BeforeValidator(_name_of_a_pool)]
MAX_LIMIT = 1_000
Limit = Annotated[int, Field(ge=1, le=MAX_LIMIT, description="Rows of one answer.")]
Cursor = Annotated[str, Field(max_length=500, pattern=r"^[A-Za-z0-9_-]*$")] | None
LongCursor = Annotated[str, Field(max_length=2_000, pattern=r"^[A-Za-z0-9_-]*$")] | None
"""One that may hold a name."""
_MOMENT: dict[str, Any] = {"anyOf": [{"format": "date-time"}, {"pattern": "^[0-9]{1,9}[smhd]$"}]}
Time = Annotated[str, Field(max_length=40, json_schema_extra=_MOMENT)] | None
Name = Annotated[str, Field(max_length=200, pattern=_TEXT, description="A label for people.")]
Host = Annotated[str, Field(max_length=300, pattern=_TEXT)]
Reason = Annotated[str, Field(max_length=60, pattern=_TEXT, description="Such as http_404 or timeout_connect.")]
Row = Annotated[int, Field(ge=1, lt=_MOST, description="The id of a row."), BeforeValidator(_number)]
Seconds = Annotated[float, Field(ge=0, le=86_400), BeforeValidator(_number)]
Flag = Annotated[bool, Strict()]
Pages = Annotated[int, Field(ge=1, lt=_MOST)]
Note = Annotated[str, Field(max_length=500, pattern=_TEXT, description="For people: who agreed to this, and when.")]
HostState = Literal["open", "at_cap", "slowed", "held", "tripped", "down", "paused"]

_CURSOR = Field(default=None, description="From the answer before, to go on behind it.")
_TIME = Field(default=None, description="ISO 8601, such as 2026-11-16T08:00:00Z; or an age: 90s, 30m, 2h, 7d.")


def _without_nulls(schema: dict[str, Any]) -> None:
    """Parameters are there or not; none can be null."""
    for parameter in schema["properties"].values():
        if choices := parameter.pop("anyOf", None):
            parameter.update(choices[0])


class Exact(BaseModel):
    """Nothing that is not named here."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Query(Exact):
    """What can stand behind the question mark."""

    model_config = ConfigDict(json_schema_extra=_without_nulls)


class JobPath(BaseModel):
    job: str = Field(pattern=_JOB, description="A job's id.")


class PagePath(BaseModel):
    page: int = Field(ge=1, lt=_MOST, description="A page's id.")


class CapturePath(PagePath):
    kind: Literal["document", "screenshot", "pdf"]


class HostPath(BaseModel):
    host: str = Field(
        pattern=_HOST, description="A host, with its port unless it is the scheme's own; or @domain, for its bucket."
    )


class Idempotency(BaseModel):
    """Headers of a submission."""

    model_config = ConfigDict(json_schema_extra=_without_nulls)

    idempotency_key: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,255}$")] | None = Field(
        default=None,
        alias="Idempotency-Key",
        description="The same key with the same body makes one job, however often it is sent within a day.",
    )


class JobQuery(Query):
    state: JobState | None = None
    lane: Lane | None = None
    label: Label | None = None
    find: Annotated[str, Field(max_length=200, pattern=_TEXT)] | None = Field(
        default=None, description="Part of a name, an id or a label, in capitals or not."
    )
    since: Time = _TIME
    until: Time = _TIME
    sort: JobSort = Field(default=JobSort.CREATED, description="Sums are those of the moment.")
    order: Literal["asc", "desc"] = "desc"
    limit: Limit = 50
    cursor: LongCursor = _CURSOR


class HistoryQuery(Query):
    since: Time = _TIME
    until: Time = _TIME
    points: Annotated[int, Field(ge=2, le=1_000)] = Field(
        default=120, description="At most so many: the steps are as long as that takes."
    )


class RowQuery(Query):
    host: Host | None = None
    since: Time = _TIME
    until: Time = _TIME
    limit: Limit = 100
    cursor: Cursor = _CURSOR


Version = Annotated[str, Field(pattern=VERSION_NAME)]
_VERSION = Field(
    default=None, description="Of the extraction: v1 is the job's own. By default the newest that is complete."
)
_LINEAGE = Field(default=False, description="With each item, where it comes from.")


class ItemQuery(RowQuery):
    version: Version | None = _VERSION
    lineage: bool = _LINEAGE


class VersionPath(JobPath):
    version: str = Field(pattern=VERSION_NAME, description="A version of the job's items.")


class ExtractionBody(Exact):
    """What to take from stored pages."""

    spec: dict[str, Any] = Field(
        description="The settings of a job that say what is taken from a page; others change nothing. The job's"
        " contract holds unless there is a `contract` here; null is for none.",
        examples=[{"fields": {"title": "h1"}}],
    )
    version: Version | None = Field(default=None, description="A name for it; by default v2, v3, and so on.")


class PageQuery(RowQuery):
    status: Annotated[int, Field(ge=100, le=999)] | None = Field(default=None, description="The HTTP status.")


class ErrorQuery(RowQuery):
    outcome: Literal["dead", "robots"] | None = None
    reason: Reason | None = None


class DeadQuery(RowQuery):
    reason: Reason | None = None


class ExplainQuery(Query):
    url: str = Field(min_length=1, max_length=8_192, description="As you have it; its canonical form is looked for.")


class FieldsQuery(Query):
    hosts: bool = Field(default=False, description="Each host by itself, too.")
    version: Version | None = _VERSION


class QuarantineQuery(Query):
    host: Host | None = None
    version: Version | None = _VERSION
    limit: Limit = 100
    cursor: Cursor = _CURSOR


class DiffQuery(Query):
    before: Version = Field(default="v1", description="The version to compare with.")
    after: Version | None = Field(
        default=None, description="The version to compare. By default the newest that is complete."
    )
    limit: Limit = 100
    cursor: Cursor = _CURSOR


class ExportQuery(Query):
    format: Literal["jsonl", "csv", "parquet", "sqlite"] = "jsonl"
    what: Literal["items", "pages", "errors", "quarantine"] | None = Field(
        default=None, description="Items by default, pages when the job has no fields."
    )
    version: Version | None = _VERSION
    lineage: bool = _LINEAGE


class ScrapeQuery(Query):
    wait: float = Field(default=0, ge=0, le=300, description="Seconds to wait for the page, up to the server's cap.")


class ProxyQuery(Query):
    pool: PoolName | None = Field(default=None, description="Only the proxies of this pool.")
    limit: Limit = 100
    cursor: Cursor = _CURSOR


class HostQuery(Query):
    state: HostState | None = None
    limit: Limit = 100
    cursor: Cursor = _CURSOR


class AuditQuery(Query):
    since: Time = _TIME
    until: Time = _TIME
    format: Literal["json", "csv"] = Field(default="json", description="`csv` streams all of it, without a limit.")
    newest: bool = Field(default=False, description="The last ones, the newest first; there is no cursor then.")
    limit: Limit = 100
    cursor: Cursor = _CURSOR


Text = Annotated[str, Field(max_length=2_000)]
Fields = Annotated[dict[str, Any], WithJsonSchema(FIELDS_SCHEMA)]
Each = Annotated[str | dict[str, Any] | None, WithJsonSchema(EACH_SCHEMA)]


def _describe(schema: dict[str, Any]) -> None:
    """The words that stand under each setting in the source, and an example."""
    (declared,) = (node for node in ast.parse(inspect.getsource(JobSpec)).body if isinstance(node, ast.ClassDef))
    for field, text in pairwise(declared.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            words = cast(ast.Constant, text.value).value
            schema["properties"][field.target.id]["description"] = inspect.cleandoc(str(words))
    schema["allOf"] = TOGETHER
    schema["examples"] = [
        {
            "urls": ["https://books.example/"],
            "pages": 500,
            "rate": "30/m",
            "fields": {
                "title": "h1",
                "image": "img@src",
                "tags[]": ".tag",
                "price": {"css": ".price", "type": "money"},
            },
            "labels": ["nightly"],
        }
    ]


class JobBody(JobSpec):
    """What to fetch, how far to go, how politely, and what to take from each page."""

    model_config = ConfigDict(json_schema_extra=_describe)

    sitemaps: Annotated[Sitemaps, WithJsonSchema(SITEMAPS_SCHEMA)] = False
    since: Annotated[Since | None, WithJsonSchema(SINCE_SCHEMA)] = None
    next: Annotated[str, WithJsonSchema(NEXT_SCHEMA)] = ""
    revisit: Annotated[Revisit, WithJsonSchema(REVISIT_SCHEMA)] = None
    each: Each = None
    fields: Fields = Field(default_factory=dict, validate_default=True)
    contract: Annotated[Contract | None, WithJsonSchema(CONTRACT_SCHEMA)] = None
    changes: Annotated[WatchingSetting, WithJsonSchema(CHANGES_SCHEMA)] = None
    output: Annotated[Output | None, WithJsonSchema(OUTPUT_SCHEMA)] = Field(default=None, repr=False)
    headers: dict[str, Text] = Field(default_factory=dict, max_length=50)
    hosts: tuple[str, ...] = Field(default=(), max_length=1_000)
    trusted: tuple[str, ...] = Field(default=(), max_length=1_000)
    local: Annotated[tuple[str, ...], BeforeValidator(_nothing)] = Field(default=(), max_length=0)
    allow: tuple[Text, ...] = Field(default=(), max_length=100)
    deny: tuple[Text, ...] = Field(default=(), max_length=100)
    name: Name = ""
    pages: Pages | None = None
    host_pages: Pages | None = None
    proxies: Pool = None  # pyright: ignore[reportIncompatibleVariableOverride] - narrower, and a spec never changes
    depth: Annotated[int, Field(ge=0, lt=_MOST)] | None = None


class JobChange(Exact):
    """What can be changed while a job runs."""

    name: Name = ""
    labels: tuple[Label, ...] = Field(default=(), max_length=20)
    lane: Lane = Lane.BATCH
    weight: float = Field(default=1.0, ge=0.01, le=1000)
    rate: Rate | None = None
    parallel: Parallel | None = None
    pages: Pages | None = None
    bytes: Size | None = None
    seconds: Duration | None = None
    host_pages: Pages | None = None
    host_bytes: Size | None = None
    host_seconds: Duration | None = None
    keep: Keep | None = None


class HostChangeBody(Exact):
    """An operator's word on a host, kept until it is taken back; null leaves a limit to the others. A hold passes."""

    rate: Rate | None = None
    parallel: Parallel | None = None
    paused: Flag = False
    note: Note = ""
    hold_seconds: Seconds = 0.0


class LoginBody(Exact):
    """Who wants to log in."""

    key: Annotated[str, Field(max_length=200, pattern=_TEXT)]
    """An API key."""


class ReplayBody(Exact):
    """Which dead letters; without a choice, or without a body, all."""

    model_config = ConfigDict(extra="forbid", openapi_extra={"required": False})  # type: ignore[typeddict-unknown-key]

    ids: list[Row] | None = Field(default=None, max_length=10_000, min_length=1)
    reason: Reason | None = None
    host: Host | None = None

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_all(cls, value: object) -> object:
        return {} if value is None else value


class ScrapeBody(Exact):
    """One page, now."""

    model_config = ConfigDict(json_schema_extra={"allOf": [EACH_HAS_FIELDS]})

    url: str = Field(max_length=8_192)
    name: Name = ""
    labels: tuple[Label, ...] = Field(default=(), max_length=20)
    each: Each = None
    fields: Fields = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    robots: bool = True
    proxies: Pool = Field(default=None, description="Fetch through a pool of proxies that the operator has defined.")
    retries: int = Field(default=1, ge=0, le=20)
    timeout: float = Field(default=30.0, gt=0, le=600)
    archive: bool = True
    engine: Engine = Engine.HTTP
    browser: Browsing | None = Field(default=None, description="What is asked of the browser.")
