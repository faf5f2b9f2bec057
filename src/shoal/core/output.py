"""Where a job's results go: what a user writes under `output`, read strictly, and what an operator allows.

    s3://bucket/prefix/   gs://bucket/prefix/   az://container/prefix/   file:///folder/
    postgresql://user:password@host/database/schema.table

A place is text that people wrote, and credentials may stand in it: it is never shown as it is (`shown`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, cast
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from shoal.core.frozen import frozen
from shoal.core.redact import HIDDEN, without_login
from shoal.core.values import MOST, STORED, no_boolean, read_duration

OBJECTS = ("s3", "gs", "az")
"""Object stores: Amazon's and what speaks like it, Google's, Azure's."""
POSTGRES = ("postgresql", "postgres")
LEAST_ROWS = 100
LEAST_SECONDS = 10.0
MOST_KEYS = 20
KEPT_RUNS, MOST_KEPT = 5, 500
"""Whole runs that stay at a place when nobody says how many; and at the most."""
_FORMS = "write s3://bucket/prefix/, gs://…, az://…, file:///folder/, or postgresql://host/database/table"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]")
_NAME = re.compile(r"[^\x00-\x1f\x7f\".]{1,63}")
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@frozen
class Place:
    """A folder, or a prefix in an object store."""

    scheme: str
    """`file`, or one of an object store."""
    bucket: str
    """Empty for a folder."""
    path: str
    """In the bucket, without a slash before it; of a folder, the absolute path. No slash at its end."""

    @property
    def root(self) -> str:
        """The store itself, without a path."""
        return f"{self.scheme}://{self.bucket}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}{'' if self.scheme == 'file' else '/'}{self.path}"

    def within(self, other: Place) -> bool:
        """Is it at or below the other?"""
        if (self.scheme, self.bucket) != (other.scheme, other.bucket):
            return False
        return not other.path.strip("/") or f"{self.path}/".startswith(f"{other.path.rstrip('/')}/")


@frozen
class TablePlace:
    """A table of a PostgreSQL database."""

    host: str
    """Empty: the server of this machine, or what the environment names."""
    port: int | None
    database: str
    schema: str
    """Empty: the first of the search path."""
    table: str
    """Empty in a word of an operator's: any."""
    user: str = ""
    password: str = ""
    ssl_mode: str = ""

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        login = f"{self.user}{':' + HIDDEN if self.password else ''}@" if self.user else ""
        port = f":{self.port}" if self.port else ""
        name = f"{self.schema}.{self.table}" if self.schema else self.table
        return f"postgresql://{login}{self.host}{port}/{self.database}/{name}".rstrip("/")

    def within(self, other: TablePlace) -> bool:
        """The same database, and the user, the schema and the table, if such are named."""
        here = (self.host.lower(), self.port or 5432, self.database)
        if here != (other.host.lower(), other.port or 5432, other.database):
            return False
        if other.user and self.user != other.user:
            return False
        if other.table:
            return (self.schema, self.table) == (other.schema, other.table)
        return not other.schema or self.schema == other.schema


AnyPlace = Place | TablePlace


def read_place(text: str) -> AnyPlace:
    """A place from its URL; raises ValueError, which repeats nothing that may be a secret."""
    scheme, mark, rest = text.strip().partition("://")
    if not mark or not text.isprintable():
        raise ValueError(_FORMS)
    scheme = scheme.lower()
    if scheme in POSTGRES:
        return _read_table(f"postgresql://{rest}")
    if scheme not in (*OBJECTS, "file"):
        raise ValueError(_FORMS)
    if any(char in rest for char in "?#%\\@"):
        raise ValueError("a place is written without ? # % @ or \\: credentials are taken from the environment")
    bucket, _, path = rest.partition("/")
    parts = path.strip("/").split("/")
    if any(part in ("", ".", "..") for part in parts) and parts != [""]:
        raise ValueError("a path has no empty parts, and neither . nor .. in it")
    if scheme == "file":
        if bucket:
            raise ValueError("a folder of the machine is written with three slashes: file:///srv/exports/")
        return Place("file", "", "/" + "/".join(parts))
    if not _BUCKET.fullmatch(bucket):
        raise ValueError(f"no bucket can have this name; {_FORMS}")
    return Place(scheme, bucket, "/".join(parts))


def _read_table(text: str, *, whole: bool = True) -> TablePlace:
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise ValueError("the port is not a number") from None
    if url.fragment or "@" in url.path:
        raise ValueError("a password with / ? # or @ in it is written percent-encoded: %2F %3F %23 %40")
    host = url.netloc.rpartition("@")[2]
    host = host[: host.rindex("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    if host and not _HOST.fullmatch(host):
        raise ValueError("one host is needed: postgresql://host/database/schema.table")
    database, _, name = url.path.strip("/").partition("/")
    schema, _, table = unquote(name).rpartition(".")
    named = [unquote(database), *([table] if whole else []), *([schema] if schema else [])]
    if not all(_NAME.fullmatch(each) for each in named):
        raise ValueError("name database and table: postgresql://host/database/schema.table")
    user, password = unquote(url.username or ""), unquote(url.password or "")
    return TablePlace(host.strip("[]"), port, unquote(database), schema, table, user, password, _ssl_mode(url.query))


def _ssl_mode(query: str) -> str:
    """The one parameter that may stand in a URL: others could name files, programs or further hosts."""
    options = dict(parse_qsl(query, keep_blank_values=True))
    mode = options.pop("sslmode", "")
    if options or (query and not mode):
        raise ValueError(
            "the only parameter that is taken is sslmode; set others by libpq's environment (PGSSLROOTCERT)"
        )
    if mode and mode not in _SSL_MODES:
        raise ValueError(f"sslmode is one of {', '.join(_SSL_MODES)}")
    return mode


def _from_text(value: object) -> object:
    return {"to": value} if isinstance(value, str) else value


class OutputSettings(BaseModel):
    """Where a job's results are delivered to, and how."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, hide_input_in_errors=True)

    to: str = Field(repr=False, max_length=2_000)
    """A folder, a prefix in an object store, or a table."""
    format: Literal["jsonl", "csv", "parquet", "sqlite"] = "jsonl"
    """Of the parts."""
    every: Annotated[int, Field(le=MOST)] | str | None = None
    """Deliver a part whenever there are so many rows, or after so much time: `10000`, `5m`. Not given: at the end."""
    key: tuple[Annotated[str, Field(min_length=1, max_length=63)], ...] = Field(default=(), max_length=MOST_KEYS)
    """Of a table: the columns by which a row is known. Not given: `url` and `number`."""
    keep: Annotated[int, Field(ge=1, le=MOST_KEPT)] | None = KEPT_RUNS
    """Of files: so many whole runs stay at the place, the newest included; older ones are removed. Null: all stay."""

    @field_validator("to")
    @classmethod
    def _leads_somewhere(cls, to: str, info: ValidationInfo) -> str:
        if info.context == STORED:
            return to
        if HIDDEN in to:
            raise ValueError(f"{HIDDEN} stands for what is not shown; write it")
        read_place(to)
        return to

    @field_validator("every")
    @classmethod
    def _every_is_rows_or_time(cls, every: int | str | None) -> int | str | None:
        if isinstance(every, str) and every.isdigit():
            every = int(every)
        if isinstance(every, bool) or (isinstance(every, int) and every < LEAST_ROWS):
            raise ValueError(f"at least {LEAST_ROWS} rows make a part")
        if isinstance(every, str):
            seconds = read_duration(every)
            if not isinstance(seconds, float) or seconds < LEAST_SECONDS:
                raise ValueError("write rows, such as 10000, or a time of at least 10s, such as 5m")
        return every

    @field_validator("keep", mode="before")
    @classmethod
    def _keep_is_a_number(cls, keep: object) -> object:
        return no_boolean(keep)

    @model_validator(mode="after")
    def _settings_fit_the_place(self, info: ValidationInfo) -> OutputSettings:
        if info.context == STORED:
            return self
        table = isinstance(self.place, TablePlace)
        if self.key and not table:
            raise ValueError("`key` is for PostgreSQL: files have none")
        for name in ("format", "keep"):
            if table and name in self.model_fields_set:
                raise ValueError(f"`{name}` is for files: a table takes rows")
        return self

    @property
    def place(self) -> AnyPlace:
        return read_place(self.to)

    @property
    def every_rows(self) -> int | None:
        return self.every if isinstance(self.every, int) else None

    @property
    def every_seconds(self) -> float | None:
        return cast(float, read_duration(self.every)) if isinstance(self.every, str) else None

    def shown(self) -> dict[str, Any]:
        """For everybody: without credentials."""
        return {**self.model_dump(mode="json"), "to": shown_place(self.to)}


def same_but_for_case(names: Iterable[str]) -> tuple[str, str] | None:
    """Two names that many databases and their users take for the same: `Title` and `title`."""
    met: dict[str, str] = {}
    for name in names:
        before = met.setdefault(name.casefold(), name)
        if before != name:
            return before, name
    return None


def as_one_column(one: str, other: str) -> str:
    """What is wrong with two such names."""
    return f"{one!r} and {other!r} differ in case only, which a table does not tell apart: give one another name"


Output = Annotated[OutputSettings, BeforeValidator(_from_text)]


def shown_place(text: str) -> str:
    """A place without credentials."""
    try:
        return str(read_place(text))
    except ValueError:
        return without_login(text)


@frozen
class Allowed:
    """Where jobs that come over the API may deliver to: nowhere, unless the operator says so."""

    places: tuple[AnyPlace, ...] = ()

    @classmethod
    def read(cls, text: str) -> Allowed:
        """Places and what is below them: `s3://bucket/team/,file:///srv/exports/`; raises ValueError."""
        return cls(tuple(_read_allowed(part.strip()) for part in text.split(",") if part.strip()))

    def root_of(self, place: AnyPlace) -> AnyPlace | None:
        """The word of the operator's that allows a place."""
        for allowed in self.places:
            if isinstance(allowed, TablePlace) and isinstance(place, TablePlace) and place.within(allowed):
                return allowed
            if isinstance(allowed, Place) and isinstance(place, Place) and place.within(allowed):
                return allowed
        return None

    def refuses(self, place: AnyPlace) -> str:
        """Why a job that comes over the API may not deliver there; empty when it may."""
        if self.root_of(place) is None:
            return "the operator has not allowed this place; see SHOAL_OUTPUTS"
        if isinstance(place, TablePlace) and place.ssl_mode:
            return "over the API a place has no parameters: sslmode is for the operator to say, in SHOAL_OUTPUTS"
        return ""


def _read_allowed(text: str) -> AnyPlace:
    if text.startswith(tuple(f"{scheme}://" for scheme in POSTGRES)):
        rest, mark, query = text.partition("://")[2].partition("?")
        host, _, path = rest.partition("/")
        path = path.rstrip("/") + ("." if path.count("/") == 1 and "." not in path.partition("/")[2] else "")
        return _read_table(f"postgresql://{host}/{path}{mark}{query}", whole=False)
    return read_place(text)


def read_objects(text: str) -> Place:
    """A prefix in an object store, for the archive."""
    if not text.startswith(tuple(f"{scheme}://" for scheme in OBJECTS)):
        raise ValueError("write s3://bucket/prefix, gs://… or az://…; for a folder there is SHOAL_ARCHIVE_DIR")
    place = read_place(text)
    assert isinstance(place, Place)
    return place
