"""Who works on which part of an extraction: a claim with a lifetime, on Redis' clock.

The database knows what is to be done; this only keeps workers from doing the same twice. If it is lost, it is made
again from there (`offer`).
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import cast

import redis

from shoal.core.frozen import frozen
from shoal.frontier.scripts import Scripts, translated_errors
from shoal.frontier.wire import ms

CLAIM = timedelta(seconds=10)
"""Who is silent for longer has lost his part to others."""
LOOKED_AT = 50
"""Extractions among which a part is looked for."""
KEPT = timedelta(days=1)
OFFER_AT_ONCE = 1_000


@frozen
class Claim:
    """One worker's part."""

    extraction: int
    part: int
    times: int
    """That it was claimed since it last moved; more than once says that somebody died over it."""
    until_ms: int
    """It is his till then, on Redis' clock; and by it he is told from who claims it later."""


class Parts:
    """Parts that wait or are worked on, of all extractions."""

    def __init__(self, client: redis.Redis, prefix: str, scripts: Scripts) -> None:
        self._client = client
        self._prefix = prefix
        self._scripts = scripts

    def offer(self, extraction: int, numbers: Sequence[int]) -> None:
        """These are to be done; those that somebody works on are left to him."""
        with translated_errors("offer_parts"):
            pipeline = self._client.pipeline(transaction=True)
            for start in range(0, len(numbers), OFFER_AT_ONCE):
                some = {str(number): number for number in numbers[start : start + OFFER_AT_ONCE]}
                pipeline.zadd(f"{self._prefix}:parts:{extraction}", some, nx=True)
            pipeline.expire(f"{self._prefix}:parts:{extraction}", KEPT)
            pipeline.zadd(f"{self._prefix}:extractions", {str(extraction): 0}, nx=True)
            pipeline.expire(f"{self._prefix}:extractions", KEPT)
            pipeline.execute()

    def claim(self) -> Claim | None:
        """A part for the caller, for as long as he holds it."""
        answer = self._scripts.call("claim_part", [ms(CLAIM), LOOKED_AT])
        return Claim(*map(int, answer)) if answer else None

    def hold(self, claim: Claim, *, moved: bool = False) -> Claim | None:
        """The caller still works on it; None when somebody else does, or it is not to be done any more."""
        until_ms = self._hold(claim, CLAIM, moved=moved)
        return replace(claim, until_ms=until_ms) if until_ms else None

    def give_back(self, claim: Claim) -> None:
        """Somebody else may go on; it was no accident."""
        self._hold(claim, timedelta(), moved=True)

    def _hold(self, claim: Claim, how_long: timedelta, *, moved: bool) -> int:
        args = [claim.extraction, claim.part, claim.until_ms, ms(how_long), int(moved)]
        return int(self._scripts.call("hold_part", args))

    def finish(self, claim: Claim) -> None:
        """The part is done."""
        extraction = claim.extraction
        with translated_errors("finish_part"):
            pipeline = self._client.pipeline(transaction=True)
            pipeline.zrem(f"{self._prefix}:parts:{extraction}", claim.part)
            pipeline.hdel(f"{self._prefix}:claims:{extraction}", str(claim.part))
            pipeline.execute()

    def drop(self, extraction: int) -> None:
        """Nothing of it is to be done any more."""
        with translated_errors("drop_parts"):
            pipeline = self._client.pipeline(transaction=True)
            pipeline.delete(f"{self._prefix}:parts:{extraction}", f"{self._prefix}:claims:{extraction}")
            pipeline.zrem(f"{self._prefix}:extractions", str(extraction))
            pipeline.execute()

    def known(self) -> list[int]:
        """Extractions that something was offered of."""
        with translated_errors("extractions"):
            return [int(name) for name in cast("list[str]", self._client.zrange(f"{self._prefix}:extractions", 0, -1))]

    def free(self) -> int:
        """How many parts nobody works on."""
        return int(self._scripts.call("free_parts", [LOOKED_AT]))
