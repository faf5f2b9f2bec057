"""What a job can ask of the browser: how long to wait, what to do on a page, what to bring home.

Everything has a bound: a page is scrolled and clicked only so often, loads only so much, and has one deadline for all
of it, the job's `timeout`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from shoal.core.field import check_selector
from shoal.core.host_name import host_name
from shoal.core.redact import HIDDEN
from shoal.core.values import STORED, Rate, Size, no_boolean, read_duration
from shoal.errors import InputError

ResourceType = Literal["image", "font", "media", "stylesheet", "script", "xhr", "other"]
HEAVY: tuple[ResourceType, ...] = ("image", "font", "media")
"""Not loaded unless a job says otherwise: nothing is extracted from them."""
VERBS = ("click", "fill", "press", "select", "scroll", "wait", "evaluate")
MAX_ACTIONS = 50
MAX_SCROLLS = 500
MAX_TEXT = 10_000
"""Characters of a script, or of a text to fill in."""
MAX_WAIT_S = 60.0
LOADED = ("commit", "parsed", "load", "idle")
"""How far a page may have come when it counts as there."""
_OTHER_WORDS = {"networkidle": "idle", "domcontentloaded": "parsed", "complete": "load", "loaded": "load"}
"""What others call it."""

_SIZE = re.compile(r"(?P<width>\d{2,4})x(?P<height>\d{2,4})")
_LOCALE = re.compile(r"[a-z]{2}(-[A-Za-z0-9]{2,8})*", re.IGNORECASE)


class Part(BaseModel):
    """Any part of what a job asks for."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True, hide_input_in_errors=True)


def _selector(text: str, info: ValidationInfo) -> str:
    if info.context != STORED and text:
        try:
            check_selector(text)
        except InputError as exc:
            raise ValueError(str(exc)) from exc
    return text


def _time_or_selector(value: object) -> object:
    """What one waits for, as far as it can be told at once that it is neither."""
    if isinstance(value, str) and value.strip()[:1].isdigit():
        raise ValueError("write a time such as 2s or 0.5s, or a selector")
    if isinstance(value, int | float) and value > MAX_WAIT_S:
        raise ValueError(f"nothing is waited for longer than {MAX_WAIT_S:g} seconds")
    return value


class Fill(Part):
    """Type a text into a field of a form."""

    selector: str = Field(min_length=1, max_length=1_000)
    text: Annotated[str, StringConstraints(strip_whitespace=False)] = Field(max_length=MAX_TEXT, repr=False)
    """It may be a password, and is never shown."""

    @field_validator("text")
    @classmethod
    def _is_given(cls, text: str, info: ValidationInfo) -> str:
        if text.strip() == HIDDEN and info.context != STORED:
            raise ValueError(f"{HIDDEN} stands for a text that is not shown; write it")
        return text


class Press(Part):
    """Press a key, in the element or wherever the focus is."""

    key: str = Field(min_length=1, max_length=40)
    selector: str = Field(default="", max_length=1_000)


class Select(Part):
    """Choose an option of a list, by its value or its text."""

    selector: str = Field(min_length=1, max_length=1_000)
    value: str = Field(max_length=1_000)


class Action(Part):
    """One thing to do on each page; exactly one verb."""

    click: str | None = Field(default=None, min_length=1, max_length=1_000)
    """What matches this selector first."""
    fill: Fill | None = None
    press: Press | None = None
    select: Select | None = None
    scroll: Annotated[int, Field(ge=1, le=MAX_SCROLLS)] | Literal["end"] | None = None
    """So many screens down, or until nothing more comes."""
    wait: (
        Annotated[float, Field(gt=0, le=MAX_WAIT_S)] | Annotated[str, Field(min_length=1, max_length=1_000)] | None
    ) = None
    """So many seconds (`2s`), or for a selector."""
    evaluate: str | None = Field(default=None, min_length=1, max_length=MAX_TEXT)
    """JavaScript to run in the page; what it returns is kept with the page."""
    optional: bool = False
    """Go on when there is nothing to do it with."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: object) -> object:
        """`press: Enter` for `press: {key: Enter}`, `wait: 2s` for `wait: 2`."""
        if not isinstance(value, Mapping):
            return value
        given: dict[str, Any] = dict(cast("Mapping[str, Any]", value))
        if isinstance(given.get("press"), str):
            given["press"] = {"key": given["press"]}
        if "wait" in given:
            given["wait"] = _time_or_selector(no_boolean(read_duration(given["wait"])))
        if "scroll" in given:
            given["scroll"] = no_boolean(given["scroll"])
        return given

    @model_validator(mode="after")
    def _one_verb(self) -> Action:
        given = [verb for verb in VERBS if getattr(self, verb) is not None]
        if len(given) != 1:
            raise ValueError(f"an action has exactly one of {', '.join(VERBS)}")
        return self

    @property
    def verb(self) -> str:
        return next(verb for verb in VERBS if getattr(self, verb) is not None)

    @property
    def selector(self) -> str:
        """What it acts on, without what it fills in; empty for what needs nothing."""
        part = self.fill or self.press or self.select
        return part.selector if part else self.click or ""


class Wait(Part):
    """When a page counts as there."""

    until: Literal["commit", "parsed", "load", "idle"] = "load"
    """`parsed`: the document is; `load`: with all that it names; `idle`: and no request for half a second."""
    selector: str = Field(default="", max_length=1_000)
    """And this can be found."""
    seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_S)] = 0.0
    """And so much time is over."""

    _selector_parses = field_validator("selector")(_selector)

    @field_validator("seconds", mode="before")
    @classmethod
    def _read_seconds(cls, value: object) -> object:
        return no_boolean(read_duration(value))


class Viewport(Part):
    """The window that a page is drawn in."""

    width: int = Field(default=1280, ge=100, le=4000)
    height: int = Field(default=800, ge=100, le=8000)


class Browsing(Part):
    """What a job asks of the browser."""

    wait: Wait = Wait()
    require: str = Field(default="", max_length=1_000)
    """With `engine: auto`: a page without this selector is rendered. A rendered page without it is a failure."""
    viewport: Viewport = Viewport()
    """`1280x800`."""
    device: str = Field(default="", max_length=60)
    """A device to look like, such as `Pixel 7` or `iPhone 15`."""
    locale: str = Field(default="", max_length=35)
    """Such as `de-DE`."""
    timezone: str = Field(default="", max_length=60)
    """Such as `Europe/Berlin`."""
    cookies: dict[str, str] = Field(default_factory=dict, max_length=100, repr=False)
    """Name → value, for trusted origins only. Never shown."""
    block: tuple[ResourceType, ...] = HEAVY
    """What is not loaded."""
    block_hosts: tuple[str, ...] = Field(default=(), max_length=1_000)
    """Nothing is loaded from these hosts and those below them, such as ads.example."""
    actions: tuple[Action, ...] = Field(default=(), max_length=MAX_ACTIONS)
    """What to do on each page, in this order, once it is there."""
    screenshot: str = Field(default="", max_length=1_000)
    """`view`, `full`, or a selector."""
    pdf: bool = False
    resources: int = Field(default=300, ge=1, le=10_000)
    """Requests that a page may make besides its own."""
    resource_bytes: Size = 50_000_000
    """What all of them may bring."""
    resource_rate: Rate = 50.0
    """Such requests a second to one host, of one worker process."""

    _selectors_parse = field_validator("require")(_selector)

    @field_validator("viewport", mode="before")
    @classmethod
    def _read_viewport(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        if not (match := _SIZE.fullmatch(value.strip().lower())):
            raise ValueError("write width and height, such as 1280x800")
        return {name: int(text) for name, text in match.groupdict().items()}

    @field_validator("wait", mode="before")
    @classmethod
    def _read_wait(cls, value: object) -> object:
        """`idle`, `2s` or a selector, in short."""
        if isinstance(value, str) and value in LOADED:
            return {"until": value}
        if isinstance(value, str) and (word := _OTHER_WORDS.get(value.lower())):
            raise ValueError(f"{value!r} is {word!r} here; there are {', '.join(LOADED)}, a selector, or a time")
        read = _time_or_selector(no_boolean(read_duration(value)))
        if isinstance(read, int | float):
            return {"seconds": read}
        return {"selector": read} if isinstance(read, str) else read

    @field_validator("block_hosts")
    @classmethod
    def _hosts_are_names(cls, hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if info.context == STORED:
            return hosts
        try:
            names = tuple(host_name(host) for host in hosts)
        except InputError as exc:
            raise ValueError(str(exc)) from exc
        if ported := next((name for name in names if name.rpartition(":")[2].isdigit()), ""):
            raise ValueError(f"{ported!r}: a host without its port is needed; all its ports are meant")
        return names

    @field_validator("locale")
    @classmethod
    def _locale_is_one(cls, locale: str) -> str:
        if locale and not _LOCALE.fullmatch(locale):
            raise ValueError(f"{locale!r} is not a locale, such as de-DE")
        return locale

    @field_validator("timezone")
    @classmethod
    def _timezone_is_one(cls, name: str, info: ValidationInfo) -> str:
        if name and info.context != STORED and not _is_timezone(name):
            raise ValueError(f"{name!r} is not a time zone, such as Europe/Berlin")
        return name

    @field_validator("cookies")
    @classmethod
    def _cookies_are_given(cls, cookies: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name, value in cookies.items():
            if value.strip() == HIDDEN and info.context != STORED:
                raise ValueError(f"{HIDDEN} stands for a value that is not shown; write it")
            if not name or not (name + value).isprintable() or set(name + value) & set(";, \t"):
                raise ValueError("a cookie has a name and a value without blanks, commas and semicolons")
        return cookies

    @field_validator("screenshot")
    @classmethod
    def _screenshot_of_what(cls, what: str, info: ValidationInfo) -> str:
        return what if what in ("view", "full") else _selector(what, info)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that nobody is shown."""
        return (*self.cookies.values(), *(action.fill.text for action in self.actions if action.fill))

    def shown(self) -> dict[str, Any]:
        """For people: without what may be a secret."""
        values = self.model_dump(mode="json")
        values["cookies"] = dict.fromkeys(self.cookies, HIDDEN)
        for action in values["actions"]:
            if action["fill"]:
                action["fill"]["text"] = HIDDEN
        return values


def _is_timezone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        return False
    return True
