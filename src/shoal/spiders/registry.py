"""Which spiders there are: those that `@shoal.spider` has met, by name.

A spider is named by jobs and never sent with them: what runs is what the operator has installed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from shoal.errors import InputError
from shoal.spiders.follow import is_name

if TYPE_CHECKING:
    from shoal.spiders.page import Page

MAX_NAME = 100
"""Characters of a spider's name."""
PARSE, START = "parse", "start"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")

Callback = Callable[["Page"], "Iterable[Any] | None"]
T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Spider:
    """The callbacks of one name."""

    name: str
    callbacks: Mapping[str, Callback] = field(repr=False)
    source: str = ""
    """The file that it stands in, and the line."""
    about: str = ""
    """The first line of what is written about it."""

    def callback(self, name: str, depth: int) -> Callback:
        """Who gets a page: the one that is named; else `start` for the job's own URLs, if there is one, or `parse`."""
        wanted = name or (START if depth == 0 and START in self.callbacks else PARSE)
        try:
            return self.callbacks[wanted]
        except KeyError:
            raise InputError(
                f"spider {self.name!r} has no callback {wanted!r}; there are {', '.join(sorted(self.callbacks))}"
            ) from None


_spiders: dict[str, Spider] = {}


def spider(name: str, *, callback: str = PARSE) -> Callable[[T], T]:
    """Register a function or a class under a name, which jobs can say: `spider: books`.

    A function gets pages, and yields items and `Follow`s. More functions of the same name are its further callbacks:
    `@shoal.spider("books", callback="detail")`. Of a class, all methods without a leading underscore are callbacks;
    `parse` is needed, `start` gets the job's own URLs.
    """
    if not can_be_named(name):
        raise InputError(f"{name!r} is not a name for a spider: letters, digits and _.- , at most {MAX_NAME}")
    if not is_name(callback):
        raise InputError(f"{callback!r} is not a name for a callback: letters, digits and _")

    def register(given: T) -> T:
        _add(_spider_of(name, callback, given))
        return given

    return register


def can_be_named(name: str) -> bool:
    """Can a spider, or a model, be called this?"""
    return len(name) <= MAX_NAME and _NAME.match(name) is not None


def spiders() -> dict[str, Spider]:
    """Those that are registered, by name."""
    return dict(sorted(_spiders.items()))


def _spider_of(name: str, callback: str, given: Callable[..., Any]) -> Spider:
    if inspect.isclass(given):
        names = [each for each, _ in inspect.getmembers(given, inspect.isfunction) if is_name(each)]
        if PARSE not in names:
            raise InputError(f"spider {name!r}: class {given.__name__} needs a method parse(self, page)")
        made: object = given()
        found = {each: cast(Callback, getattr(made, each)) for each in names}
    else:
        found = {callback: given}
    return Spider(name, found, place_of(given), (inspect.getdoc(given) or "").partition("\n")[0])


def _add(new: Spider) -> None:
    """Another one of the same file adds callbacks, or is the same once more; one of elsewhere is a mistake."""
    old = _spiders.get(new.name)
    if old is None:
        _spiders[new.name] = new
        return
    if _file_of(old) != _file_of(new):
        raise InputError(f"two spiders are called {new.name!r}: {old.source} and {new.source}")
    first = new if PARSE in new.callbacks else old
    _spiders[new.name] = Spider(new.name, {**old.callbacks, **new.callbacks}, first.source, first.about)


def _file_of(spider: Spider) -> str:
    return spider.source.rpartition(":")[0]


def place_of(given: Callable[..., Any]) -> str:
    """The file that it stands in, and the line."""
    try:
        return f"{inspect.getsourcefile(given)}:{inspect.getsourcelines(given)[1]}"
    except (OSError, TypeError):
        return f"{given.__module__}:0"
