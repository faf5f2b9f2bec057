"""Everything that an operator can set, from `SHOAL_*` variables. Read once, in `wiring.py` or at a process' start."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from shoal import __version__
from shoal.core.model import ALL_QUEUES
from shoal.errors import InputError

PREFIX = "SHOAL_"


class Settings(BaseModel):
    """Shoal's configuration; the variable of `home` is SHOAL_HOME, and so on."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    home: Path = Path("~/.shoal")
    """Database, archive, embedded Redis and its data."""
    redis_url: str | None = None
    """A Redis (≥ 7.0) or Valkey for frontier and broker: redis://host:6379. Unset: an embedded one under `home`."""
    broker_url: str | None = None
    """Celery broker, when it is not database 0 of the Redis."""
    database_url: str | None = None
    """SQLAlchemy URL; unset: SQLite under `home`."""
    archive_dir: Path | None = None
    """WARC segments; unset: a folder under `home`."""
    contact: str = ""
    """A URL or mail address for site owners, sent with the User-Agent."""
    queues: str = ",".join(ALL_QUEUES)
    """Queues that a worker serves, the most urgent first."""
    concurrency: int = Field(default=1, ge=1, le=256)
    """Worker processes."""
    sockets: int = Field(default=128, ge=1, le=4096)
    """Fetches under way in one worker process."""
    lease_seconds: float = Field(default=60.0, ge=1)
    """A worker that does not renew for this long loses its requests to others."""
    slice_seconds: float = Field(default=300.0, ge=1)
    """Length of one Celery task; then the process may be recycled."""
    parent: int | None = None
    """Process id of the foreground command that brought this worker along, and with which it ends."""
    grace_seconds: float = Field(default=10.0, ge=0)
    """Time for running fetches to end when a worker is told to stop."""
    segment_bytes: int = Field(default=256_000_000, ge=1_000_000)
    """A WARC segment is closed at this size."""
    recycle_megabytes: int = Field(default=512, ge=64)
    """A worker process above this size is replaced after its slice."""
    prefix: str = "shoal"
    """Of all Redis keys."""

    @field_validator("home", "archive_dir")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    @field_validator("queues")
    @classmethod
    def _known_queues(cls, queues: str) -> str:
        names = [name.strip() for name in queues.split(",") if name.strip()]
        unknown = [name for name in names if name not in ALL_QUEUES]
        if unknown or not names:
            raise ValueError(f"unknown queue {', '.join(unknown) or '(none given)'}; there are {', '.join(ALL_QUEUES)}")
        return ",".join(sorted(names, key=ALL_QUEUES.index))

    @property
    def queue_names(self) -> tuple[str, ...]:
        return tuple(self.queues.split(","))

    @property
    def user_agent(self) -> str:
        contact = f" (+{self.contact})" if self.contact else ""
        return f"Shoal/{__version__}{contact}"

    @property
    def lease_for(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)

    @property
    def sql_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'shoal.db'}"

    @property
    def archive_path(self) -> Path:
        return self.archive_dir or self.home / "archive"


def read_settings(**overrides: object) -> Settings:
    """Settings from the environment; `overrides` (flags) that are not None win."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings.model_validate({**_from_environment(), **given})
    except ValidationError as exc:
        lines = [f"{_variable(str(e['loc'][0]))}: {e['msg']}" for e in exc.errors(include_url=False)]
        raise InputError("\n".join(["a setting is not valid:", *(f"  - {line}" for line in lines)])) from exc


def _from_environment() -> dict[str, str]:
    """An empty variable is an unset one."""
    values = {name: os.environ.get(_variable(name)) for name in Settings.model_fields}
    return {name: value for name, value in values.items() if value}


def _variable(name: str) -> str:
    return PREFIX + name.upper()
