"""Which pydantic models there are: those that `@shoal.model` has met, by name. A contract can name one.

They stand in the same modules as spiders. Their validators are an operator's code: they run where spiders do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from shoal.core.spec import JobSpec
from shoal.errors import BadSpec, InputError
from shoal.spiders.finder import check_spider, load, no_such
from shoal.spiders.registry import MAX_NAME, can_be_named

M = TypeVar("M", bound=type[BaseModel])

_models: dict[str, type[BaseModel]] = {}


def model(name: str) -> Callable[[M], M]:
    """Register a pydantic model under a name, which contracts can say: `contract: {model: Book}`."""
    if not can_be_named(name):
        raise InputError(f"{name!r} is not a name for a model: letters, digits and _.- , at most {MAX_NAME}")

    def register(given: M) -> M:
        if not (inspect.isclass(given) and issubclass(given, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"model {name!r}: {given!r:.100} is not a pydantic model")
        old = _models.setdefault(name, given)
        if (old.__module__, old.__qualname__) != (given.__module__, given.__qualname__):
            raise InputError(f"two models are called {name!r}: {_place(old)} and {_place(given)}")
        _models[name] = given
        return given

    return register


def models() -> dict[str, type[BaseModel]]:
    """Those that are registered, by name."""
    return dict(sorted(_models.items()))


def find_model(name: str) -> type[BaseModel]:
    """The model of this name; raises BadSpec, which says which there are."""
    load()
    found = _models.get(name)
    if found is None:
        raise BadSpec(no_such("model", name, models()), field="contract")
    return found


def check_named(spec: JobSpec) -> None:
    """Refuse a job that names a spider or a model that nobody has registered."""
    check_spider(spec.spider)
    if spec.contract and spec.contract.model:
        find_model(spec.contract.model)


def _place(given: type[BaseModel]) -> str:
    return f"{given.__module__}.{given.__qualname__}"
