"""Where spiders come from: entry points (`shoal.spiders`) of what is installed, and what the operator names.

They are imported when a spider is first asked for, in the process that asks. What cannot be imported keeps nobody from
the others.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path

from shoal.errors import BadSpec
from shoal.spiders.registry import Spider, spiders

ENTRY_POINTS = "shoal.spiders"
VARIABLE = "SHOAL_SPIDERS"


@dataclass(slots=True)
class _Sources:
    text: str = ""
    """As the operator names them: modules and files, with commas between them."""
    loaded: bool = False
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """What could not be imported, and why."""


_sources = _Sources()


def use(text: str) -> None:
    """These are the operator's; called by who has read the settings."""
    if text != _sources.text:
        _sources.text, _sources.loaded = text, False


def is_loaded() -> bool:
    """Has code that is not ours been imported here?"""
    return _sources.loaded


def named_sources() -> str:
    """What was named, for another process."""
    return _sources.text


def load() -> dict[str, str]:
    """Import all that there is, once; returns what could not be, and why."""
    if not _sources.loaded:
        _sources.loaded = True
        _sources.problems = {}
        for point in entry_points(group=ENTRY_POINTS):
            _try(f"entry point {point.name}", point.load)
        for source in split_sources(_sources.text):
            _try(source, lambda source=source: _import(source))
    return dict(_sources.problems)


def split_sources(text: str) -> list[str]:
    """Modules and files, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def is_file(source: str) -> bool:
    """Is it a file, and not a module?"""
    return source.endswith(".py") or "/" in source


def find_spider(name: str) -> Spider:
    """The spider of this name; raises BadSpec, which says which there are."""
    load()
    found = spiders().get(name)
    if found is None:
        raise BadSpec(no_such("spider", name, spiders()), field="spider")
    return found


def no_such(kind: str, name: str, registered: Iterable[str]) -> str:
    """What is said of a name that nobody has registered."""
    there = ", ".join(registered)
    known = f"registered: {there}" if there else f"none is registered; name modules or files in {VARIABLE}"
    failed = "".join(f"; {source} cannot be imported: {why}" for source, why in load().items())
    return f"there is no {kind} {name!r}: {known}{failed}"


def check_spider(name: str) -> None:
    """Refuse a name that nobody has registered; no name is none."""
    if name:
        find_spider(name)


def _try(source: str, load_it: Callable[[], object]) -> None:
    try:
        load_it()
    except Exception as exc:  # noqa: BLE001 - whatever a module of the operator's raises; it is shown
        _sources.problems[source] = explain(exc)


def _import(source: str) -> None:
    if not is_file(source):
        importlib.import_module(source)
        return
    path = Path(source).expanduser().absolute()
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name = f"shoal_spiders_{hashlib.blake2b(str(path).encode(), digest_size=6).hexdigest()}_{path.stem}"
    if name in sys.modules:
        return
    folder = str(path.parent)
    if folder not in sys.path:  # for modules beside it
        sys.path.append(folder)
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def explain(exc: BaseException) -> str:
    """An error of an operator's code in one line: what, and where in that code."""
    frames = traceback.extract_tb(exc.__traceback__)
    ours = str(Path(__file__).parents[1])
    place = next((frame for frame in reversed(frames) if not frame.filename.startswith((ours, "<frozen"))), None)
    if isinstance(exc, SyntaxError) and exc.filename:
        where = f" ({Path(exc.filename).name}, line {exc.lineno})"
    else:
        where = f" ({Path(place.filename).name}, line {place.lineno})" if place else ""
    return f"{type(exc).__name__}: {exc}"[:500].replace("\n", " ") + where
