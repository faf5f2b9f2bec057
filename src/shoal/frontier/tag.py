"""What tells slots, and lives of jobs, apart: numbers of lease groups, and names.

A job that was lost or forgotten and comes back has another life, and slots know it by another name. So whatever a
server still has of an earlier life, because it was away, is nobody's.
"""

from __future__ import annotations

import secrets

from shoal.core.frozen import frozen

LIFE = "."
"""Between a job and its life, in the name that slots know it by."""


def new_life() -> str:
    return secrets.token_hex(5)


def name_of(job: str, life: str) -> str:
    """A job in a slot."""
    return f"{job}{LIFE}{life}"


def parse_name(name: str) -> tuple[str, str]:
    """(job, its life)"""
    job, _, life = name.rpartition(LIFE)
    return job, life


@frozen
class Tag:
    """One slot's mark on the numbers that it gives."""

    number: int
    of: int

    def outer(self, group: int) -> int:
        """As everybody outside knows the group."""
        return group * self.of + self.number

    def inner(self, group: int) -> int:
        """As the slot knows it."""
        return group // self.of


WHOLE = Tag(0, 1)
"""Of a frontier that is in one piece: it changes nothing."""
