"""A command that has to wait for the database says so after a moment, and what to do when it was in vain."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shoal.cli.talk import say
from shoal.core.redact import without_parameters
from shoal.core.trouble import gist
from shoal.errors import StoreUnavailable
from shoal.store.trouble import longest_wait_s

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

LOOK_S = 0.25
SILENCE_S = 1.5
"""A call that takes longer than this is a wait."""


@contextmanager
def patience(engine: Engine) -> Generator[None]:
    """Tell of waits for this database, for as long as the block lasts."""
    ended = threading.Event()
    watching = threading.Thread(target=_watch, args=(_shown(engine), ended), name="patience", daemon=True)
    watching.start()
    try:
        yield
    except StoreUnavailable as exc:
        if "locked" not in str(exc):
            raise
        advice = "Another program holds it: end that, or wait for it, and give this command once more."
        raise StoreUnavailable(f"{gist(exc)}: {_shown(engine)}\n{advice}") from exc
    finally:
        ended.set()
        watching.join()


def _watch(database: str, ended: threading.Event) -> None:
    told = False
    while not ended.wait(LOOK_S):
        waits = longest_wait_s() >= SILENCE_S
        if waits and not told:
            say(f"waiting for the database {database} …")
        elif told and not waits:
            say("the database answers again")
        told = waits


def _shown(engine: Engine) -> str:
    """SQLite's file, or the server without its password."""
    if engine.dialect.name == "sqlite" and engine.url.database:
        return engine.url.database
    return without_parameters(engine.url.render_as_string(hide_password=True))
