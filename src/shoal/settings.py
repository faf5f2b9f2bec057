"""Everything that an operator can set, from `SHOAL_*` variables. Read once, in `wiring.py` or at a process' start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from shoal import __version__
from shoal.core.egress import Egress
from shoal.core.mail import MailServer
from shoal.core.manners import Manners, read_weights
from shoal.core.model import CONTROL_QUEUE, SERVED_QUEUES, Lane, is_for_browser, read_queues
from shoal.core.output import Allowed, Place, read_objects
from shoal.core.shards import read_shards
from shoal.core.values import RateText
from shoal.core.webhook import is_address
from shoal.errors import InputError
from shoal.spiders.finder import is_file, split_sources

PREFIX = "SHOAL_"
LOG_LEVELS = ("debug", "info", "warning", "error")
LEAST_HUNG_S = 5.0
"""However short leases are: signs of life come every second."""
LOG_LINES = 20


def _unlimited_is_0(value: object) -> object:
    return 0.0 if value == "unlimited" else value


class Settings(BaseModel):
    """Shoal's configuration; the variable of `home` is SHOAL_HOME, and so on."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    home: Path = Path("~/.shoal")
    """Database, archive, embedded Redis and its data."""
    redis_url: str | None = Field(default=None, repr=False)
    """A Redis (≥ 7.0) or Valkey for frontier and broker: redis://host:6379, or redis+sentinel://host,host/service.
    Unset: an embedded one under `home`."""
    broker_url: str | None = Field(default=None, repr=False)
    """Celery broker, when it is not database 0 of the Redis: another Redis, or RabbitMQ (amqp://, amqps://)."""
    shards: str = Field(default="", repr=False)
    """Redis servers that hosts are spread over when one is not enough: `a=redis://one:6379/0 b=redis://two:6379/0`."""
    database_url: str | None = Field(default=None, repr=False)
    """SQLAlchemy URL; unset: SQLite under `home`."""
    database_upgrade: Literal["auto", "refuse"] = "auto"
    """May a process that starts bring PostgreSQL's schema up to date, while nobody of another version is at work?"""
    archive_dir: Path | None = None
    """WARC segments; unset: a folder under `home`. With `archive_url`: only those that are being written."""
    archive_url: str | None = None
    """An object store for the WARC segments: s3://bucket/prefix, gs://…, az://…. Unset: they stay in the folder. The
    same for the whole fleet."""
    contact: str = ""
    """A URL or mail address for site owners, sent with the User-Agent."""
    queues: str = ",".join(SERVED_QUEUES)
    """Queues that a worker serves, the most urgent first; `control` is the housekeeping."""
    beat: bool = False
    """Does a worker bring the beat along, which calls for the housekeeping?"""
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
    grace_seconds: float = Field(default=15.0, ge=0)
    """Within this time a worker that is told to stop has ended; running fetches may end until shortly before."""
    stall_seconds: float = Field(default=30.0, ge=1)
    """A worker that takes no work for this long, although there is some and a process is free, is started anew."""
    max_body: int = Field(default=64_000_000, ge=1_000, le=1_000_000_000)
    """The most bytes of a body that a job may ask for."""
    bodies_bytes: int = Field(default=256_000_000, ge=16_000_000)
    """Bytes of bodies above a megabyte that a worker process has room for at once; further ones wait."""
    segment_bytes: int = Field(default=256_000_000, ge=1_000_000)
    """A WARC segment is closed at this size."""
    segment_seconds: float = Field(default=900.0, ge=1, le=3600)
    """A WARC segment is closed at this age."""
    recycle_megabytes: int = Field(default=512, ge=64)
    """A worker process above this size is replaced after its slice."""
    browser: str = ""
    """A Chromium or Chrome to render pages with; unset: Playwright's own, else one of this machine."""
    browser_pages: int = Field(default=4, ge=1, le=64)
    """Pages that one worker process renders at a time."""
    browser_megabytes: int = Field(default=1_500, ge=200)
    """What the browsers of a worker process may take, with all their processes: near it they are replaced, beyond it
    the largest of several pages is put off."""
    browser_page_megabytes: int = Field(default=512, ge=50)
    """A page that takes more than this is given up."""
    browser_recycle_pages: int = Field(default=200, ge=1)
    """A browser is replaced after so many pages."""
    browser_recycle_minutes: float = Field(default=30.0, gt=0, le=10_080)
    """A browser is replaced after so much time."""
    pool: Literal["prefork", "solo"] = "prefork"
    """`solo`: a worker is one process, without a pool."""
    prefix: str = "shoal"
    """Of all Redis keys."""
    log_level: str = "info"
    """debug, info, warning or error."""
    log_lines: int = Field(default=LOG_LINES, ge=0, le=1_000_000)
    """Lines of one event that a process writes in a minute, for each job; the others are counted. 0: all."""
    log_file: Path | None = None
    """Log lines go there instead of to standard error; what a command brings along is told so."""
    log_megabytes: float = Field(default=16.0, ge=0.01, le=100_000)
    """A log file above this size is put aside; three such are kept."""
    api_host: str = "127.0.0.1"
    """Where the API listens; beyond loopback it needs keys."""
    api_port: int = Field(default=8000, ge=0, le=65535)
    """0 takes a free port and says which."""
    api_workers: int = Field(default=1, ge=1, le=64)
    """API processes."""
    api_threads: int = Field(default=256, ge=8, le=4096)
    """Requests and listeners that one API process serves at a time; idle threads cost nearly nothing."""
    api_body_megabytes: int = Field(default=16, ge=1, le=1024)
    """A larger request is refused; URL lists are streamed and have no such limit."""
    api_urls: int = Field(default=100_000, ge=1)
    """URLs in one submission; longer lists are streamed to an open job."""
    api_wait_seconds: float = Field(default=30.0, ge=0, le=300)
    """A client may wait this long for the page that it asks for."""
    traces: str = ""
    """Where OpenTelemetry spans go, by OTLP over HTTP: http://127.0.0.1:4318/v1/traces. Unset: nothing is traced."""
    trace_share: float = Field(default=0.01, ge=0, le=1)
    """Of so many pages the way is traced, from lease to settlement; submissions are traced always."""
    flower_host: str = "127.0.0.1"
    """Where `shoal flower` listens."""
    flower_port: int = Field(default=5555, ge=0, le=65535)
    """0 takes a free port and says which."""
    flower_user: str = "shoal"
    """Who may look at Flower."""
    flower_password: str = Field(default="", repr=False)
    """Their password; unset: one is made up at each start, and shown."""
    frontier_urls: int = Field(default=20_000_000, ge=1)
    """Submissions are put off while this many URLs wait."""
    default_rate: Annotated[float, Field(ge=0, le=100_000), BeforeValidator(_unlimited_is_0), RateText] = 4.0
    """Requests a second, or `30/m`, to a host for which no operator, job or robots.txt names a rate; 0 is unlimited."""
    default_parallel: int = Field(default=2, ge=0, le=100_000)
    """Requests at once to a host for which nobody names a number; 0 is unlimited."""
    group_by: Literal["host", "domain"] = "host"
    """`domain`: all hosts of a registrable domain share one rate. The same for the whole fleet."""
    address_parallel: int = Field(default=0, ge=0, le=100_000)
    """Requests at once to one address, however many hosts live there; 0: any. The same for the whole fleet."""
    tenant_weights: str = ""
    """Shares of tenants: `acme=3,beta=0.5`; 1 for those not named."""
    slow_share: float = Field(default=0.25, gt=0, le=1)
    """At most this part of a worker's sockets serves slow hosts while it serves other lanes as well."""
    hosts_file: Path | None = None
    """A YAML file with limits of hosts; `shoal hosts set` and the API are stronger."""
    proxies_file: Path | None = None
    """A YAML file with proxy pools, which jobs can name."""
    spiders: str = ""
    """Modules and .py files with spiders, with commas between them: `acme.spiders,/etc/shoal/books.py`. The same for
    the whole fleet."""
    egress_allow: str = ""
    """Networks, addresses and names that may be asked though they are not on the internet: `10.0.0.0/8,wiki.example`.
    The same for the whole fleet."""
    egress_deny: str = ""
    """Networks and addresses that are never asked, whatever is allowed."""
    outputs: str = ""
    """Where jobs that come over the API may deliver to, and below: `s3://bucket/team/,file:///srv/exports/`."""
    smtp_url: str = Field(default="", repr=False)
    """The mail server for webhooks that are mail addresses: smtps://user:password@mail.example:465. Unset: no mail."""
    mail_from: str = ""
    """The address that this mail is from."""
    mail_domains: str = ""
    """Where mail may go for webhooks that come over the API: `example.org,example.com`."""
    ledger_days: int = Field(default=14, ge=0, le=3650)
    """The ledger keeps who was asked when for so long; 0 keeps none."""
    ledger_rows: int = Field(default=5_000_000, ge=1_000)
    """At most this many entries in the ledger; the oldest go first."""
    history_rows: int = Field(default=500_000, ge=5_000)
    """At most this many samples of jobs and of the fleet, a week back; the oldest of the finest go first."""
    keep_days: float = Field(default=0, ge=0, le=3650)
    """Jobs that do not say so themselves are removed with their data so long after their end; 0 keeps them."""
    frontier_megabytes: int = Field(default=4_096, ge=1)
    """Submissions are put off while Redis uses more memory than this, or nine tenths of its own limit."""

    @field_validator("tenant_weights")
    @classmethod
    def _weights_parse(cls, text: str) -> str:
        read_weights(text)
        return text

    @field_validator("egress_allow", "egress_deny")
    @classmethod
    def _egress_parses(cls, text: str, info: ValidationInfo) -> str:
        Egress.read(**{(info.field_name or "").removeprefix("egress_"): text})
        return text

    @field_validator("outputs")
    @classmethod
    def _outputs_parse(cls, text: str) -> str:
        Allowed.read(text)
        return text

    @field_validator("archive_url")
    @classmethod
    def _archive_is_an_object_store(cls, text: str | None) -> str | None:
        if text is not None:
            read_objects(text)
        return text

    @field_validator("smtp_url")
    @classmethod
    def _mail_server_parses(cls, text: str) -> str:
        MailServer.read(text)
        return text

    @field_validator("mail_from")
    @classmethod
    def _sender_is_an_address(cls, text: str, info: ValidationInfo) -> str:
        if text and not is_address(text):
            raise ValueError("write one plain mail address, such as shoal@example.org")
        if not text and info.data.get("smtp_url"):
            raise ValueError("SHOAL_SMTP_URL needs an address that mail is from, such as shoal@example.org")
        return text

    @field_validator("home", "archive_dir", "hosts_file", "proxies_file", "log_file")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().absolute()

    @field_validator("spiders")
    @classmethod
    def _files_are_absolute(cls, text: str) -> str:
        return ",".join(
            str(Path(source).expanduser().absolute()) if is_file(source) else source for source in split_sources(text)
        )

    @property
    def log_bytes(self) -> int:
        """Of a log file, before it is put aside."""
        return round(self.log_megabytes * 1_000_000)

    @field_validator("log_level")
    @classmethod
    def _known_level(cls, level: str) -> str:
        if level not in LOG_LEVELS:
            raise ValueError(f"there are {', '.join(LOG_LEVELS)}")
        return level

    @field_validator("shards")
    @classmethod
    def _named_shards(cls, shards: str) -> str:
        read_shards(shards)
        return shards

    @field_validator("queues")
    @classmethod
    def _known_queues(cls, queues: str) -> str:
        return ",".join(read_queues(queues))

    @property
    def queue_names(self) -> tuple[str, ...]:
        return tuple(self.queues.split(","))

    @property
    def lease_queues(self) -> tuple[str, ...]:
        """The served queues that requests are leased from."""
        return tuple(name for name in self.queue_names if name != CONTROL_QUEUE)

    @property
    def browser_queues(self) -> tuple[str, ...]:
        """Those of the served queues whose pages are rendered."""
        return tuple(name for name in self.lease_queues if is_for_browser(name))

    @property
    def slow_sockets(self) -> int | None:
        """For slow hosts, in one process; None: a worker for these alone has all its sockets for them."""
        if all(queue.endswith(f".{Lane.SLOW}") for queue in self.lease_queues):
            return None
        return max(1, int(self.sockets * self.slow_share))

    @property
    def manners(self) -> Manners:
        return Manners(
            rate=self.default_rate,
            parallel=self.default_parallel,
            address_parallel=self.address_parallel,
            by_domain=self.group_by == "domain",
            tenant_weights=read_weights(self.tenant_weights),
        )

    @property
    def shard_urls(self) -> Mapping[str, str]:
        """Name → URL of the servers that hosts are spread over."""
        return read_shards(self.shards)

    @property
    def frontier_bytes(self) -> int:
        return self.frontier_megabytes * 1_000_000

    @property
    def egress(self) -> Egress:
        return Egress.read(self.egress_allow, self.egress_deny)

    @property
    def allowed_outputs(self) -> Allowed:
        return Allowed.read(self.outputs)

    @property
    def mail_server(self) -> MailServer | None:
        return MailServer.read(self.smtp_url)

    @property
    def mail_domain_names(self) -> frozenset[str]:
        return frozenset(filter(None, (name.strip().lower() for name in self.mail_domains.split(","))))

    @property
    def processes(self) -> int:
        """Of a worker; housekeeping alone takes but one."""
        return self.concurrency if self.lease_queues and self.pool == "prefork" else 1

    @property
    def user_agent(self) -> str:
        contact = f" (+{self.contact})" if self.contact else ""
        return f"Shoal/{__version__}{contact}"

    @property
    def hung_seconds(self) -> float:
        """Who gives no sign of life for so long is stuck, and has lost his leases to others."""
        return max(LEAST_HUNG_S, self.lease_seconds + self.grace_seconds)

    @property
    def lease_for(self) -> timedelta:
        return timedelta(seconds=self.lease_seconds)

    @property
    def sql_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'shoal.db'}"

    @property
    def archive_path(self) -> Path:
        return self.archive_dir or self.home / "archive"

    @property
    def archive_place(self) -> Place | None:
        """The object store that the archive is in; None: it is in its folder."""
        return read_objects(self.archive_url) if self.archive_url else None

    @property
    def segment_age(self) -> timedelta:
        return timedelta(seconds=self.segment_seconds)


def read_settings(**overrides: object) -> Settings:
    """Settings from the environment; `overrides` (flags) that are not None win."""
    given = {name: value for name, value in overrides.items() if value is not None}
    try:
        return Settings.model_validate({**from_environment(), **given})
    except ValidationError as exc:
        lines = [
            f"{_source(str(e['loc'][0]), given)}: {e['msg'].removeprefix('Value error, ')}"
            for e in exc.errors(include_url=False)
        ]
        raise InputError("\n".join(["a setting is not valid:", *(f"  - {line}" for line in lines)])) from exc


def setting_variables() -> dict[str, str]:
    """Variable → the default of its setting, as one would write it."""
    fields = Settings.model_fields.items()
    return {variable_of(name): "" if field.default is None else str(field.default) for name, field in fields}


def _source(name: str, flags: Mapping[str, object]) -> str:
    """Where a value came from: its flag, or its variable."""
    return f"--{name.removeprefix('api_').replace('_', '-')}" if name in flags else variable_of(name)


def from_environment() -> dict[str, str]:
    """An empty variable is an unset one."""
    values = {name: os.environ.get(variable_of(name)) for name in Settings.model_fields}
    return {name: value for name, value in values.items() if value}


def variables_in_use() -> frozenset[str]:
    """Every one that begins with SHOAL_ and is not empty, whoever reads it."""
    return frozenset(name for name, value in os.environ.items() if name.startswith(PREFIX) and value)


def variable_of(name: str) -> str:
    """That a setting is read from."""
    return PREFIX + name.upper()
