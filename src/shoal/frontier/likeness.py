"""Which pages of a job are alike: a memory that all workers share, as long as the job lives."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.frozen import frozen
from shoal.core.likeness import Likeness, hex_of
from shoal.frontier.scripts import Arg, Scripts

RESEMBLE_AT_ONCE = 200


@frozen
class Said:
    """What a page says, to be held against others of its job."""

    job: str
    fingerprint: int
    likeness: Likeness
    distance: int


class LikenessBook:
    """The likenesses of jobs in one frontier."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def resemble(self, pages: Sequence[Said]) -> list[int | None]:
        """For each page the fingerprint of the earlier one that it is like; who is like none is remembered."""
        found: list[int | None] = []
        for start in range(0, len(pages), RESEMBLE_AT_ONCE):
            args: list[Arg] = []
            for page in pages[start : start + RESEMBLE_AT_ONCE]:
                shown = page.likeness.simhash if page.distance else page.likeness.content
                args += (page.job, page.distance, page.fingerprint, hex_of(shown))
            answers: list[str] = self._scripts.call("resemble", args)
            found += [int(answer) if answer else None for answer in answers]
        return found
