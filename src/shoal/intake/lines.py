"""A stream of lines for an open job: what each is, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from shoal.core.egress import Egress
from shoal.core.model import Candidate, Level, Rejected, Request
from shoal.core.redact import without_secrets
from shoal.core.scope import Scope
from shoal.core.spec import JobSpec
from shoal.core.template import expand
from shoal.core.url import parse
from shoal.errors import BadUrl
from shoal.intake.reach import Refusals

SHOWN_PROBLEMS = 20

Line = tuple[int, str | None, str]
"""(number, URL or None, what is wrong with it)"""


@dataclass(slots=True)
class Added:
    """What became of lines that were sent to an open job."""

    lines: int = 0
    accepted: int = 0
    seen: int = 0
    filtered: int = 0
    invalid: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """(line, what is wrong) of the first invalid ones."""

    @property
    def sums(self) -> dict[str, int]:
        names = ("lines", "accepted", "seen", "filtered", "invalid")
        return {name: getattr(self, name) for name in names}

    def note(self, line: int, problem: str) -> None:
        self.invalid += 1
        if len(self.problems) < SHOWN_PROBLEMS:
            self.problems.append((line, without_secrets(problem)))


def expanded(lines: Iterable[Line]) -> Iterator[Line]:
    """Each URL that a line stands for as a line of the same number, made only when it is asked for."""
    for number, text, problem in lines:
        try:
            for url in expand(text) if text is not None else (None,):
                yield number, url, problem
        except BadUrl as exc:
            yield number, None, str(exc)


def in_batches(lines: Iterable[Line], size: int) -> Iterator[tuple[list[Line], int]]:
    """(some lines, the number of the last that is complete with them): one may stand for more than a batch."""
    source = iter(lines)
    ahead = next(source, None)
    while ahead is not None:
        batch = [ahead, *islice(source, size - 1)]
        ahead, last = next(source, None), batch[-1][0]
        yield batch, last - 1 if ahead is not None and ahead[0] == last else last


def sort_out(
    spec: JobSpec, scope: Scope, egress: Egress, local: Sequence[str], batch: Iterable[Line]
) -> tuple[list[Candidate], list[tuple[int, str]]]:
    """(what the frontier is asked to take, lines that are no URLs, or none that may be asked)"""
    candidates, problems = list[Candidate](), list[tuple[int, str]]()
    refusals = Refusals(egress, local, proxied=spec.proxies is not None)
    for number, text, problem in batch:
        try:
            if text is None:
                raise BadUrl(problem)
            url = parse(text, drop_tracking=spec.drop_tracking)
            if refusals[url.host]:
                raise BadUrl(refusals[url.host])
        except BadUrl as exc:
            problems.append((number, str(exc)))
            continue
        reason = scope.refuses(url)
        candidates.append(Rejected(url, reason) if reason else Request(url, level=Level.FIRST))
    return candidates, problems
