"""What a look at an installation finds: of a known kind, in a few words, with what it means and what mends it.

The kinds stand in the modules of the checks, each beside the check that finds it; a guide lists them all.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from shoal.core.frozen import frozen
from shoal.core.redact import without_secrets


class Words(str):
    """A part of a command that is one already: it is not quoted."""

    __slots__ = ()


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """Good to know; nothing is wrong with it."""
    WARNING = "warning"
    """It works, and will hurt one day."""
    ERROR = "error"
    """Something does not work."""


class Area(StrEnum):
    """What a check looks at; in the order in which findings are shown."""

    SETTINGS = "settings"
    REDIS = "redis"
    BROKER = "broker"
    FLEET = "fleet"
    DATABASE = "database"
    STORAGE = "storage"
    BROWSER = "browser"
    NETWORK = "network"
    CLOCK = "clock"


@frozen
class Finding:
    """One thing that was found. No secrets are in it."""

    area: Area
    level: Level
    code: str
    """Its kind, for programs."""
    what: str
    means: str = ""
    mend: str = ""
    """A command, where one helps."""

    @property
    def record(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@frozen
class Kind:
    """A kind of finding: all but what was seen."""

    code: str
    area: Area
    level: Level
    means: str
    mend: str
    """The command, with {names} for what only the check knows."""

    def found(
        self,
        what: str,
        known: Mapping[str, object] = MappingProxyType({}),
        *,
        level: Level | None = None,
        mend: str = "",
        **names: object,
    ) -> Finding:
        """One of this kind, with what was seen.

        What is put into a command is quoted, and has no secrets: who pastes it runs this command and no other.
        """
        command = mend or self.mend.format_map({name: _word(value) for name, value in {**known, **names}.items()})
        return Finding(self.area, level or self.level, self.code, without_secrets(what), self.means, command)


def _word(value: object) -> str:
    return str(value) if isinstance(value, Words) else shlex.quote(without_secrets(str(value)))


def well(area: Area, what: str) -> Finding:
    """Nothing is wrong there."""
    return Finding(area, Level.OK, "ok", without_secrets(what))


def note(area: Area, what: str) -> Finding:
    """Good to know."""
    return Finding(area, Level.NOTE, "note", without_secrets(what))
