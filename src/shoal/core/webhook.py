"""Webhooks: who wants to be told what, where, in which shape; when a message is tried again; and when no more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, field_validator

from shoal.core.egress import Egress, explain
from shoal.core.frozen import frozen
from shoal.core.happening import EVENTS, PING, TOLD_UNASKED, EventName
from shoal.core.headers import check_header
from shoal.core.message_template import check_template
from shoal.core.redact import HIDDEN
from shoal.core.url import Url, parse
from shoal.core.values import Label
from shoal.errors import BadUrl, InputError

RETRIES = (
    *(timedelta(seconds=5), timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=2)),
    *(timedelta(hours=5), timedelta(hours=10), timedelta(hours=14), timedelta(hours=20), timedelta(hours=24)),
)
"""How long to wait after the first failed attempt, the second, and so on: about three days in all."""
MESSAGE_TRIES = len(RETRIES) + 1
JITTER = 0.1
"""A wait is up to this part longer: a receiver that comes back is not asked by everybody at once."""
SHORTEST_HOLD = timedelta(seconds=1)
LONGEST_HOLD = timedelta(hours=6)
"""What a receiver can ask for with Retry-After, at the most."""
HOLD = timedelta(seconds=30)
"""For one that answers 429 or 503 and does not say for how long."""
GIVE_UP_MESSAGES = 3
GIVE_UP_AFTER = timedelta(days=3)
"""An endpoint is disabled after so many messages in a row that were given up, over so long without one that arrived."""
OLD_SECRET = timedelta(days=1)
"""So long does a message carry a signature by the secret before, too, unless somebody says otherwise."""
MAX_OLD_SECRETS = 3
MAX_HEADERS_SENT = 20
MAX_HEADER_CHARS = 2_000
MAX_WEBHOOKS = 100
"""Of a tenant."""
MAX_FILTERS = 50

MAIL = "mailto:"
NAME = r"^([A-Za-z0-9][A-Za-z0-9._-]{0,79})?$"
_ADDRESS = re.compile(
    r"(?=[^@]{1,64}@)[A-Za-z0-9_%+-]+(?:\.[A-Za-z0-9_%+-]+)*@((?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9-]{1,63})"
)
_OUR_HEADERS = frozenset(
    {
        *("host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "te"),
        *("upgrade", "expect", "trailer", "keep-alive", "accept-encoding", "user-agent", "proxy-authorization"),
    }
)
_LONG_PART = 20
"""A part of a path that is this long may be a token."""
_TELLING = 6
"""A shorter part of what is hidden gives nothing away, and stands in other words."""


class WebhookState(StrEnum):
    """The life of an endpoint."""

    ENABLED = "enabled"
    PAUSED = "paused"
    """What happens waits until it is resumed."""
    DISABLED = "disabled"
    """Given up, with a reason: nothing more is kept for it."""


class MessageState(StrEnum):
    """The life of a message."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"
    """Given up; it can be sent once more."""


@frozen
class Secret:
    """One that messages are signed with."""

    text: str
    until_ms: int | None = None
    """An old one is used until then; None: the current one."""


class WebhookSettings(BaseModel):
    """Where to tell what, and how."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Descriptions of fields, not texts below them: for these Pydantic reads the source of everything that is imported.
    url: str = Field(
        min_length=1,
        max_length=2_000,
        repr=False,
        description="Where to: an http or https URL, or mailto: and an address.",
    )
    name: str = Field(
        default="",
        pattern=NAME,
        description="What people call it, once per tenant; made of the host when it is empty.",
    )
    events: tuple[EventName, ...] = Field(
        default=TOLD_UNASKED,
        max_length=20,
        json_schema_extra={"minItems": 1},
        description="What to tell: job.started, job.finished, job.failed, job.cancelled, job.drift, items, "
        "page.changed.",
    )
    jobs: tuple[Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")], ...] = Field(
        default=(),
        max_length=MAX_FILTERS,
        description="Only jobs of these names; * stands for any text. Empty: all.",
    )
    labels: tuple[Label, ...] = Field(
        default=(), max_length=MAX_FILTERS, description="Only jobs with one of these labels. Empty: all."
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        max_length=MAX_HEADERS_SENT,
        repr=False,
        description="Sent along with each message; their values are never shown.",
    )
    template: str = Field(
        default="",
        description="slack, discord, teams, or a JSON document with {names} in its texts; empty for the payload as it "
        "is.",
    )

    @field_validator("events")
    @classmethod
    def _events_are_in_order(cls, events: tuple[EventName, ...]) -> tuple[EventName, ...]:
        if not events:
            raise ValueError(f"name at least one event; there are {', '.join(EVENTS)}")
        return tuple(each for each in EVENTS if each in events)

    @field_validator("headers")
    @classmethod
    def _headers_are_for_the_receiver(cls, headers: dict[str, str]) -> dict[str, str]:
        for number, (name, value) in enumerate(headers.items(), 1):
            check_header(number, name, value)
            if name.lower() in _OUR_HEADERS or name.lower().startswith("webhook-"):
                raise ValueError(f"header {name!r} is ours to set")
            if not (value.isascii() and value.isprintable()) or len(value) > MAX_HEADER_CHARS:
                raise ValueError(f"header {name!r}: a value is one line of at most {MAX_HEADER_CHARS} ASCII characters")
        return headers

    @field_validator("template")
    @classmethod
    def _template_can_be_filled(cls, template: str) -> str:
        try:
            return check_template(template)
        except InputError as exc:
            raise ValueError(str(exc)) from exc


@frozen
class Webhook:
    """An endpoint, and how it does."""

    id: str
    tenant: str
    settings: WebhookSettings
    secrets: tuple[Secret, ...]
    """The current one first."""
    state: WebhookState
    reason: str
    """Why it is disabled."""
    created_ms: int
    by_api: bool = False
    """Who has added it may have mail sent to some domains only."""
    failures: int = 0
    """Attempts in a row that failed."""
    failing_since_ms: int | None = None
    given_up: int = 0
    """Messages in a row that were given up."""
    hold_ms: int = 0
    """Nothing is sent before then: the receiver has asked for it."""
    delivered_ms: int | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def is_mail(self) -> bool:
        return self.settings.url.startswith(MAIL)

    def wants(self, kind: str, data: Mapping[str, Any]) -> bool:
        """Is this told to it? Of jobs that it does not ask for, nothing is."""
        return kind == PING or (kind in self.settings.events and self.asks_for(data))

    def asks_for(self, data: Mapping[str, Any]) -> bool:
        """Does it ask for what this job does?"""
        names, labels = self.settings.jobs, self.settings.labels
        named = not names or any(fnmatchcase(str(data.get("name", "")), _literal(each)) for each in names)
        return named and (not labels or bool(set(labels) & set(data.get("labels", ()))))

    @property
    def hidden(self) -> tuple[str, ...]:
        """What nobody is shown, should a receiver repeat it."""
        values = self.settings.headers.values()
        words = (word for value in values for word in value.split() if len(word) > _TELLING)
        return (*values, *words, *(each.text for each in self.secrets), *hidden_parts(self.settings.url))

    def signing(self, now_ms: int) -> list[str]:
        """The secrets in force."""
        return [each.text for each in self.secrets if each.until_ms is None or each.until_ms > now_ms]


def _literal(pattern: str) -> str:
    """Only * stands for something; jobs are called `books [new]?`, too."""
    return re.sub(r"[\[?]", r"[\g<0>]", pattern)


def read_place(text: str, egress: Egress) -> Url | str:
    """Where an endpoint is: a URL that may be asked, as far as that can be said without a name server, or an address.

    Raises InputError; what was given is not repeated, since such URLs are often secrets.
    """
    if text.lower().startswith(MAIL):
        return read_address(text[len(MAIL) :])
    try:
        url = parse(text)
    except BadUrl as exc:
        wanted = "an http or https URL without a user name in it, or mailto:somebody@example.org"
        raise InputError(f"this is not where a webhook can be: write {wanted}", "url") from exc
    if why := egress.refuses_host(url.hostname):
        raise InputError(explain(url.hostname, why), "url")
    return url


def read_address(text: str) -> str:
    """A mail address, plain and alone."""
    if not is_address(text):
        raise InputError("write one plain mail address, such as mailto:somebody@example.org", "url")
    return text


def is_address(text: str) -> bool:
    return len(text) <= 254 and _ADDRESS.fullmatch(text) is not None


def domain_of(address: str) -> str:
    return address.rpartition("@")[2].lower()


def host_of(place: str) -> str:
    """With its scheme and port; of mail, the address."""
    return place if place.startswith(MAIL) else parse(place).origin


def fair_share(waiting: Iterable[int], most: int) -> int:
    """How many each may have, so that all together have no more than `most`: who has few keeps them."""
    left = sorted(waiting)
    share = most
    for place, count in enumerate(left):
        share = most // (len(left) - place)
        if count > share:
            return share
        most -= count
    return max(share, left[-1] if left else share)


def shown_place(text: str) -> str:
    """For people: most of a path may be a token, as Slack's are."""
    if text.startswith(MAIL):
        return text
    url = parse(text)
    first, *rest = url.target.partition("?")[0].lstrip("/").split("/")
    shown = HIDDEN if len(first) >= _LONG_PART else first
    more = rest if any(rest) or "?" in url.target else []
    return f"{url.origin}/{shown}" + (f"/{HIDDEN}" if more or ("?" in url.target) else "")


def hidden_parts(text: str) -> tuple[str, ...]:
    """What `shown_place` hides of a URL, as a server may repeat it: `Cannot POST /services/…`."""
    if text.startswith(MAIL) or HIDDEN not in shown_place(text):
        return ()
    target = parse(text).target
    path, _, query = target.partition("?")
    first, *rest = path.lstrip("/").split("/")
    values = (part.partition("=")[2] or part for part in query.split("&"))
    parts = (*((first,) if len(first) >= _LONG_PART else ()), *rest, *values)
    found = [text, target, *(part for part in parts if len(part) >= _TELLING)]
    return (*found, *(unquote(part) for part in found))


def next_due(tries: int, now_ms: int, chance: float) -> int | None:
    """When a message is tried again that has failed so often; None: no more."""
    if tries >= MESSAGE_TRIES:
        return None
    wait = RETRIES[tries - 1] * (1 + JITTER * chance)
    return now_ms + wait // timedelta(milliseconds=1)


def hold_for(retry_after: timedelta | None) -> timedelta:
    """How long a receiver is left alone that asks for it."""
    return HOLD if retry_after is None else min(max(retry_after, SHORTEST_HOLD), LONGEST_HOLD)
