"""Dead letters on their way back: taken out and submitted for another try, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from shoal.core.found_on import MARK, read_found_on, write_found_on
from shoal.core.frozen import frozen
from shoal.core.model import Level, Outcome, Request
from shoal.core.tail import line_of, read_line
from shoal.core.url import parse
from shoal.store.row_filter import RowFilter, conditions
from shoal.store.submissions import REPLAY, Submission, insert_submission
from shoal.store.tables import dead_letters
from shoal.store.trouble import translated_errors

TAKE_AT_ONCE = 5_000


@frozen
class Selection:
    """Which dead letters to try again; everything given must fit."""

    ids: Sequence[int] | None = None
    reason: str | None = None
    host: str | None = None


class DeadLetters:
    """The way back for requests that a job gave up on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def newest(self, job: str) -> int:
        """The id of the last letter; 0 when there is none."""
        query = sa.select(sa.func.max(dead_letters.c.id)).where(dead_letters.c.job == job)
        with translated_errors(), self._engine.connect() as connection:
            return connection.execute(query).scalar() or 0

    def take(self, job: str, chosen: Selection, created_ms: int, newest: int) -> Submission | None:
        """Turn a batch of dead letters, up to this one, into a submission; None when none is left."""
        wanted = RowFilter(outcome=Outcome.DEAD.value, reason=chosen.reason, host=chosen.host)
        mine = (dead_letters.c.job == job, dead_letters.c.id <= newest)
        first = sa.select(dead_letters.c.id).where(*mine, *conditions(dead_letters, wanted))
        if chosen.ids is not None:
            first = first.where(dead_letters.c.id.in_(chosen.ids))
        first = first.order_by(dead_letters.c.id).limit(TAKE_AT_ONCE)
        take = sa.delete(dead_letters).where(dead_letters.c.id.in_(first)).returning(*dead_letters.c)
        with translated_errors(), self._engine.begin() as connection:
            letters = sorted(connection.execute(take).mappings().all(), key=lambda letter: letter["id"])
            if not letters:
                return None
            lines = [_line(letter) for letter in letters]
            return Submission(insert_submission(connection, job, REPLAY, lines, created_ms), REPLAY, lines)


def requests_of(lines: Sequence[str]) -> list[tuple[Request, str]]:
    """(request, reason) of a replay's lines."""
    found: list[tuple[Request, str]] = []
    for line in lines:
        place, reason, rest = line.split(" ", 2)
        depth, _, page = place.partition(MARK)
        found.append((replace(read_line(rest, int(depth), read_found_on(page)), level=Level.FIRST), reason))
    return found


def _line(letter: sa.RowMapping) -> str:
    request = Request(parse(letter["url"]), callback=letter["callback"], meta=letter["meta"] or "")
    return f"{letter['depth']}{write_found_on(letter['found_on'])} {letter['reason']} {line_of(request)}"
