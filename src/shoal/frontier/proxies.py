"""The desk at which proxies are lent: caps, rates and health of each hold over all workers.

A loan has a deadline: one that a worker took to its grave runs out. A call lends, or takes back, many at once. Of a
large pool it looks at a sample.
"""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from datetime import timedelta

import redis

from shoal.core.frozen import frozen
from shoal.core.proxies import ProxyState, Verdict
from shoal.frontier.scripts import Arg, Scripts, connect, translated_errors

SAMPLE = 32
"""Proxies of a pool that are looked at for one request."""
SAMPLE_FOR_EACH = 2
"""Several requests of one call share a sample, which is larger then."""
LENT_AT_ONCE = 64
RETURNED_AT_ONCE = 500
LOOK_AT_ONCE = 1_000
LOAN = timedelta(seconds=60)


@frozen
class Want:
    """One request that needs a proxy."""

    group: str
    """Wants of one group choose among the same proxies, under the same limits."""
    proxies: Sequence[str]
    sticky: str = ""
    """What keeps to one proxy; the name belongs to these proxies and no others."""
    parallel: int = 0
    """Requests at once through each; 0 is unlimited."""
    rate: float = 0.0
    """Requests a second through each; 0 is unlimited."""
    lasts: timedelta = LOAN
    """A loan that is not returned counts for so long."""


@frozen
class Lent:
    """A proxy to use, and the token to return it with."""

    proxy: str
    token: str


@frozen
class Return:
    """A loan that comes back."""

    lent: Lent
    verdict: Verdict
    cool_down: timedelta
    """Its first rest, if it needs one."""


class ProxyDesk:
    """Lends proxies to the workers of one Redis."""

    def __init__(self, client: redis.Redis, prefix: str = "shoal") -> None:
        self._client = client
        self._prefix = prefix
        self._scripts = Scripts(client, prefix)

    @classmethod
    def at(cls, url: str, prefix: str = "shoal") -> ProxyDesk:
        return cls(connect(url), prefix)

    def close_connections(self) -> None:
        self._client.close()

    def borrow(self, wants: Sequence[Want]) -> list[Lent | timedelta]:
        """For each want a proxy, or the time after which to ask again."""
        found: list[Lent | timedelta] = []
        for start in range(0, len(wants), LENT_AT_ONCE):
            answers: list[list[str | int]] = self._scripts.call("borrow", _asked(wants[start : start + LENT_AT_ONCE]))
            found += map(_answer, answers)
        return found

    def give_back(self, returns: Sequence[Return]) -> int:
        """End loans, and hold against the proxies what they did. Safe to repeat: returns how many were still out."""
        count = 0
        for start in range(0, len(returns), RETURNED_AT_ONCE):
            args: list[Arg] = []
            for each in returns[start : start + RETURNED_AT_ONCE]:
                args += [each.lent.proxy, each.lent.token, each.verdict.value, _ms(each.cool_down)]
            count += int(self._scripts.call("return_proxies", args))
        return count

    def look(self, proxies: Sequence[str]) -> list[ProxyState]:
        """How these do at the moment."""
        found: list[ProxyState] = []
        with translated_errors("look"):
            seconds, micros = self._client.time()
            now_ms = seconds * 1000 + micros // 1000
            for start in range(0, len(proxies), LOOK_AT_ONCE):
                found += self._look(proxies[start : start + LOOK_AT_ONCE], now_ms)
        return found

    def _look(self, proxies: Sequence[str], now_ms: int) -> list[ProxyState]:
        pipeline = self._client.pipeline(transaction=False)
        for proxy in proxies:
            pipeline.hmget(f"{self._prefix}:proxy:{proxy}", ["score", "scored", "failures", "rest"])
            pipeline.zcount(f"{self._prefix}:loans:{proxy}", f"({now_ms}", "+inf")
        answers = pipeline.execute()
        return [_state(proxy, answers[2 * i], int(answers[2 * i + 1]), now_ms) for i, proxy in enumerate(proxies)]


def _asked(wants: Sequence[Want]) -> list[Arg]:
    groups: dict[str, list[Want]] = {}
    for want in wants:
        groups.setdefault(want.group, []).append(want)
    args: list[Arg] = [secrets.token_hex(8), len(groups)]
    for members in groups.values():
        first = members[0]
        sample = _sample(first.proxies, len(members))
        interval = 1000 / first.rate if first.rate else 0
        args += [first.parallel, interval, len(sample), *sample]
    numbers = {group: number for number, group in enumerate(groups, 1)}
    for want in wants:
        args += [numbers[want.group], want.sticky, _ms(want.lasts)]
    return args


def _sample(proxies: Sequence[str], wants: int) -> list[str]:
    """In random order: among equals the first is taken."""
    return random.sample(proxies, min(len(proxies), max(SAMPLE, SAMPLE_FOR_EACH * wants)))


def _answer(answer: list[str | int]) -> Lent | timedelta:
    if len(answer) == 1:
        return timedelta(milliseconds=float(answer[0]))
    return Lent(str(answer[0]), str(answer[1]))


SCORE_HALF_LIFE_MS = 60_000
"""As in the prelude."""


def _state(proxy: str, values: Sequence[str | None], in_flight: int, now_ms: int) -> ProxyState:
    score, scored, failures, rest = (float(value) if value else None for value in values)
    lost = 1 - (1.0 if score is None else score)
    lost *= 0.5 ** ((now_ms - (scored or now_ms)) / SCORE_HALF_LIFE_MS)
    return ProxyState(
        proxy,
        score=round(1 - lost, 3),
        in_flight=in_flight,
        failures=int(failures or 0),
        rest=timedelta(milliseconds=max(0.0, (rest or 0.0) - now_ms)),
    )


def _ms(span: timedelta) -> int:
    return round(span.total_seconds() * 1000)
