"""The job that a user writes: one model for the command line, YAML files and the API.

Unknown keys and bad values are refused, all of them at once, each with its place and, where one is near, the name
that was probably meant.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from shoal.core.browsing import Browsing
from shoal.core.content import Formats
from shoal.core.contract import Contract
from shoal.core.egress import is_loopback
from shoal.core.field import field_names
from shoal.core.flaws import flaws_of
from shoal.core.headers import check_header_of_get
from shoal.core.likeness import DuplicatesSetting
from shoal.core.model import Engine, Lane, queue_name
from shoal.core.noise import NO_RULES, Watching, WatchingSetting
from shoal.core.output import Output, OutputSettings, TablePlace, as_one_column, same_but_for_case
from shoal.core.pagination import check_selector
from shoal.core.pattern import BadPattern, compile_pattern
from shoal.core.proxies import Proxies
from shoal.core.redact import is_plain_header
from shoal.core.revisit import Revisit
from shoal.core.rules import read_rules
from shoal.core.sitemaps import Since, Sitemaps
from shoal.core.spidering import Params, SpiderName
from shoal.core.url import Url, parse
from shoal.core.values import MOST, STORED, Duration, Keep, Label, Parallel, Rate, Size, no_boolean, read_moment
from shoal.core.values import read_rate as read_rate
from shoal.errors import BadSpec, BadUrl

EXTRACTION = ("fields", "each", "formats", "spider", "params")
"""The settings that say what is taken from a page."""
TAKING = (*EXTRACTION, "contract")
"""And what that must be like."""


class JobSpec(BaseModel):
    """What to fetch, how far to go, how politely, and what to take from each page."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, hide_input_in_errors=True)

    urls: tuple[str, ...] = ()
    """Start URLs of a crawl, or the very URLs to fetch."""
    name: str = Field(default="", max_length=200)
    """A label for people."""
    labels: tuple[Label, ...] = Field(default=(), max_length=20)
    """Words to find the job by: letters, digits and `_.:-`."""
    open: bool = False
    """Stay open for more URLs until the job is closed."""
    follow: bool = True
    """Follow links; false fetches just the URLs."""
    hosts: tuple[str, ...] = ()
    """Hosts to follow links to, besides those of the start URLs."""
    allow: tuple[str, ...] = ()
    """Regular expressions; a link must match one of them."""
    deny: tuple[str, ...] = ()
    """Regular expressions; a link must match none of them."""
    pages: int | None = Field(default=None, ge=1, le=MOST)
    """At most this many pages."""
    bytes: Size | None = None
    """Stop when this much has been received: a number, or `500MB`."""
    seconds: Duration | None = None
    """Stop after this much time: a number of seconds, or `2h`; pauses do not count."""
    host_pages: int | None = Field(default=None, ge=1, le=MOST)
    """At most this many pages of one host."""
    host_bytes: Size | None = None
    """Ask a host for no more when this much has been received from it."""
    host_seconds: Duration | None = None
    """Ask a host for no more when this much time has passed since it was first asked."""
    depth: int | None = Field(default=None, ge=0, le=MOST)
    """At most this many links away from a start URL."""
    lane: Lane = Lane.BATCH
    """How urgent: high, batch or slow."""
    engine: Engine = Engine.HTTP
    """What fetches the pages: http, browser, or auto, which takes the browser for pages that need it."""
    browser: Browsing | None = None
    """What is asked of the browser: waits, actions, pictures; with engine browser or auto."""
    weight: float = Field(default=1.0, ge=0.01, le=1000)
    """Share of the workers against other jobs of the lane."""
    rate: Rate | None = None
    """Requests a second to one host: a number, `30/m`, or `unlimited` for hosts that are yours. Not given: what
    robots.txt says, or 4."""
    parallel: Parallel | None = None
    """Requests under way to one host at a time; 2 when not given, unlimited with an unlimited rate."""
    robots: bool = True
    """Obey robots.txt."""
    nofollow: bool = False
    """Leave out links marked rel=nofollow, and all links of pages marked so (X-Robots-Tag, meta robots)."""
    noindex: bool = False
    """Leave out pages marked noindex (X-Robots-Tag, meta robots); their links are followed."""
    drop_tracking: bool = False
    """Drop utm_* and similar parameters from URLs."""
    sitemaps: Sitemaps = False
    """Fetch the pages of sitemaps, too, also without following links: `true` for those that robots.txt of each start
    host announces, else /sitemap.xml; or a list of URLs of sitemaps or feeds."""
    since: Since | None = None
    """Leave out what a sitemap or feed says was last changed before this: `2026-01-01`, a time, or an age such as `7d`.
    Entries without a date are kept."""
    next: str = ""
    """The link to the next page, as a CSS or XPath selector: followed at the same depth, also with `follow: false`."""
    each: str | dict[str, Any] | None = None
    """Take many items from a page: one for each element that this selector finds, or `json:items`, with its fields."""
    fields: dict[str, Any] = Field(default_factory=dict, validate_default=True)
    """What to take from each page: name → selector, `selector@attribute`, XPath, `json:path`, or a mapping that says
    more; `name[]` for a list, `name:number` for a type."""
    formats: Formats = Field(default_factory=dict)
    """What to take of each page's content, beside the fields: markdown, text, html, links, metadata. A list, or a
    mapping that says whether it is of the `main` content or of the whole `page`."""
    contract: Contract | None = None
    """What items must be like: `schema` (a JSON Schema) or `model`; others go into quarantine."""
    spider: SpiderName = ""
    """The name of a spider that the operator has registered: it reads the pages, and says what is followed."""
    params: Params = Field(default_factory=dict)
    """What the spider is told (`page.params`): JSON."""
    duplicates: DuplicatesSetting = None
    """Find pages that say what an earlier one says: `mark`, `skip`, which does not follow their links, or `distance`,
    `follow` and `items`. Not given: nobody looks."""
    changes: WatchingSetting = None
    """Compare its pages and items with those of an earlier run (`shoal changes`): `true`, or what does not count as a
    change: `ignore`, `ignore_dates`, `content`, `key`, `ignore_fields`."""
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    """Sent with each request of the job; Authorization, Cookie and all others that browsers do not send to everybody
    only to trusted origins. Never shown."""
    trusted: tuple[str, ...] = ()
    """Origins (https://host) that may see such headers, and be given cookies and filled texts, besides those of the
    URLs."""
    local: tuple[str, ...] = ()
    """Hosts on this machine (localhost:8080) that may be fetched from, besides those of the URLs. Only on the command
    line; over the API the operator allows addresses."""
    proxies: Proxies | None = None
    """Fetch through proxies: the name of a pool that the operator has defined, or (not over the API) a pool of one's
    own: `list`, `file` or `template`."""
    archive: bool = True
    """Keep the raw responses in the WARC archive."""
    output: Output | None = Field(default=None, repr=False)
    """Deliver the results there: a folder, a prefix in an object store, or a table of PostgreSQL; or a mapping of `to`,
    `format`, `every`, `key` and `keep`. Credentials are never shown."""
    keep: Keep | None = None
    """Remove the job with its data this long after its end: `30d`, at least `1h`, or `forever`. Not given: what the
    operator says."""
    previous: str | None = Field(default=None, pattern=r"^[A-Za-z0-9]{1,40}$")
    """The id of an earlier job, or `last`, the newest finished one of this name: what has not changed since is not
    fetched again."""
    revisit: Revisit = None
    """Ask for each page as often as it changes: `true`, a span such as `1h..30d`, or `min` and `max`. Between the runs
    a page that is not due is carried over without a request."""
    max_age: Duration | None = None
    """Use pages that were stored at most this long ago, by any job that fetched in the same manner: `1d`."""
    recrawl: bool | None = None
    """Write down where each page leads to, so that the next run need not read pages again that have not changed.
    Implied by `previous`, `revisit` and `max_age`, and by a schedule, whose runs know the one before; with `false`
    each of its runs fetches everything."""
    retries: int = Field(default=3, ge=0, le=20)
    """Tries after the first."""
    timeout: float = Field(default=30.0, gt=0, le=600)
    """Seconds for a whole fetch."""
    max_body: int = Field(default=10_000_000, ge=1_000, le=1_000_000_000)
    """Bytes of a body, on the wire and unpacked; at most what the operator allows."""

    @field_validator("browser")
    @classmethod
    def _has_a_browser(cls, browser: Browsing | None, info: ValidationInfo) -> Browsing | None:
        if browser is not None and info.data.get("engine") is Engine.HTTP and info.context != STORED:
            raise ValueError("this is for engine: browser or auto; without a browser nothing of it is done")
        return browser

    @field_validator("archive")
    @classmethod
    def _pictures_need_a_place(cls, archive: bool, info: ValidationInfo) -> bool:
        browser: Browsing | None = info.data.get("browser")
        if not archive and browser and (browser.screenshot or browser.pdf) and info.context != STORED:
            raise ValueError("screenshots and prints are kept in the archive: leave it on, or ask for none")
        return archive

    @field_validator("allow", "deny")
    @classmethod
    def _patterns_compile(cls, patterns: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.context == STORED:
            return patterns
        problems = [problem for pattern in patterns if (problem := _flaw_of(pattern))]
        if problems:
            raise ValueError("; ".join(problems))
        return patterns

    @field_validator(
        *("pages", "bytes", "seconds", "host_pages", "host_bytes", "host_seconds", "depth", "weight", "rate"),
        *("parallel", "retries", "timeout", "max_body", "keep", "max_age"),
        mode="before",
    )
    @classmethod
    def _numbers_are_no_booleans(cls, value: object) -> object:
        return no_boolean(value)

    @field_validator("hosts", "local")
    @classmethod
    def _hosts_are_names(cls, hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.context == STORED:
            return hosts
        return tuple(
            _url_of(f"http://{host}/", host, "a host, such as shop.example or shop.example:8080").host for host in hosts
        )

    @field_validator("local")
    @classmethod
    def _local_are_here(cls, hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for host in hosts if info.context != STORED else ():
            if not is_loopback(Url("http", host, "/").hostname):
                raise ValueError(f"{host!r} is not on this machine; the operator can allow it with SHOAL_EGRESS_ALLOW")
        return hosts

    @field_validator("trusted")
    @classmethod
    def _trusted_are_origins(cls, origins: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.context == STORED:
            return origins
        return tuple(_url_of(origin, origin, "an origin, such as https://shop.example").origin for origin in origins)

    @field_validator("fields")
    @classmethod
    def _fields_can_be_read(cls, fields: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if info.context != STORED and "each" in info.data:
            read_rules(fields, info.data["each"])
        return fields

    @field_validator("formats")
    @classmethod
    def _formats_have_names_of_their_own(cls, formats: Formats, info: ValidationInfo) -> Formats:
        fields: Mapping[str, Any] = info.data.get("fields") or {}
        names = () if info.context == STORED else field_names(fields)
        if doubles := [name for name in formats if name in names]:
            raise ValueError(f"there is a field {doubles[0]!r} too: give it another name")
        if formats and info.data.get("each") and info.context != STORED:
            raise ValueError(
                "`each` makes many items of a page, and the page's content belongs to none of them: take formats in a "
                "job of its own, or extract them from the stored pages (shoal extract)"
            )
        return formats

    @field_validator("output")
    @classmethod
    def _columns_fit_a_table(cls, output: OutputSettings | None, info: ValidationInfo) -> OutputSettings | None:
        if output is None or info.context == STORED or not isinstance(output.place, TablePlace):
            return output
        names = [*field_names(info.data.get("fields") or {}), *(info.data.get("formats") or ())]
        if twins := same_but_for_case(["url", "number", *names]):
            raise ValueError(as_one_column(*twins))
        return output

    @field_validator("changes")
    @classmethod
    def _items_have_these_fields(cls, changes: Watching | None, info: ValidationInfo) -> Watching | None:
        if changes is None or info.context == STORED or info.data.get("spider", "?"):
            return changes
        names = {*field_names(info.data.get("fields") or {}), *(info.data.get("formats") or ())}
        for name in (*((changes.key,) if changes.key else ()), *changes.ignore_fields):
            if name not in names:
                there = f"it takes {', '.join(sorted(names))}" if names else "it takes no items"
                raise ValueError(f"the job has no field {name[:100]!r}: {there}")
        return changes

    @field_validator("next")
    @classmethod
    def _next_is_a_selector(cls, selector: str, info: ValidationInfo) -> str:
        return selector if info.context == STORED else check_selector(selector)

    @field_validator("params")
    @classmethod
    def _params_are_for_a_spider(cls, params: Params, info: ValidationInfo) -> Params:
        if params and not info.data.get("spider", "?") and info.context != STORED:
            raise ValueError("this is for a spider: name one under spider")
        return params

    @field_validator("headers")
    @classmethod
    def _headers_are_one_line(cls, headers: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for number, (name, value) in enumerate(headers.items(), 1):
            check_header_of_get(number, name, value, stored=info.context == STORED)
        return headers

    @property
    def secret_headers(self) -> frozenset[str]:
        """Headers that only trusted origins may see; a redirect elsewhere does not carry them."""
        return frozenset(name for name in self.headers if not is_plain_header(name))

    @property
    def extraction(self) -> str:
        """What it takes from pages, as one text (JSON) for whoever reads them; empty when it takes nothing."""
        return self.model_dump_json(include=set(TAKING), exclude_defaults=True) if self.takes_items else ""

    @property
    def keeps_trail(self) -> bool:
        """Is it written down where its pages lead to?"""
        return bool(self.recrawl or self.previous or self.revisit or self.max_age)

    @property
    def knows_earlier(self) -> bool:
        """Can there be an earlier page of what it fetches?"""
        return bool(self.previous or self.max_age)

    @property
    def takes_items(self) -> bool:
        """Are its results items, or just pages?"""
        return any(getattr(self, name) for name in EXTRACTION)

    @property
    def watching(self) -> Watching:
        """What counts as a change, also of a job that says nothing."""
        return self.changes or NO_RULES

    @property
    def noise(self) -> str:
        """The rules by which digests of its pages are made, as one text; empty when nobody asks for digests."""
        return self.watching.noise.pack() if self.changes is not None else ""

    @property
    def goes_on(self) -> bool:
        """Can a page lead to others, so that it must be known where to stay?"""
        return bool(self.follow or self.sitemaps or self.next)

    @property
    def since_ms(self) -> int | None:
        """An age counts from now: a job that was submitted has a time in its place."""
        return None if self.since is None else read_moment(self.since, time.time())

    @property
    def has_secrets(self) -> bool:
        """Is there anything that only trusted origins may see: such headers, cookies, or texts to fill in?"""
        return bool(self.secret_headers or (self.browser and self.browser.secrets))

    @property
    def queue(self) -> str:
        return queue_name(self.engine, self.lane)

    @property
    def requests_per_second(self) -> float | None:
        """0 means unlimited, None that the job does not say."""
        return 0.0 if self.rate == "unlimited" else self.rate

    @property
    def requests_at_once(self) -> int | None:
        """0 means unlimited, None that the job does not say."""
        if self.parallel == "unlimited" or (self.parallel is None and self.rate == "unlimited"):
            return 0
        return self.parallel


def _url_of(text: str, given: str, wanted: str) -> Url:
    try:
        url = parse(text)
    except BadUrl:
        url = None
    if url is None or url.target != "/":
        raise ValueError(f"{given!r} is not {wanted}")
    return url


def _flaw_of(pattern: str) -> str | None:
    try:
        compile_pattern(pattern)
    except BadPattern as exc:
        return f"{pattern[:100]!r} is not a regular expression: {exc}"
    return None


def read_spec(values: Mapping[str, Any], where: str = "job") -> JobSpec:
    """A validated job, or one error that lists everything that is wrong with it."""
    try:
        return JobSpec.model_validate(values)
    except ValidationError as exc:
        lines = [f"{flaw.place}: {flaw.message}" for flaw in flaws_of(exc, values, JobSpec)]
        raise BadSpec("\n".join([f"{where} is not valid:", *(f"  - {line}" for line in lines)])) from exc


def with_max_body(spec: JobSpec, most: int) -> JobSpec:
    """The job within what the operator allows: one that asks for more is refused, one that asks for nothing obeys."""
    if spec.max_body <= most:
        return spec
    if "max_body" in spec.model_fields_set:
        allowed = f"at most {most} are allowed here; the operator can allow more with SHOAL_MAX_BODY"
        raise BadSpec(f"max_body: {allowed} (got {spec.max_body})", field="max_body")
    return spec.model_copy(update={"max_body": most})
