"""All cases, and the addresses at which they play."""

from __future__ import annotations

from collections.abc import Mapping

from tests.site.hostile import bombs, charsets, framing, pages, slowness, tls, traps
from tests.site.hostile.case import Case

ALL = (
    *slowness.CASES,
    *slowness.ROBOTS_CASES,
    *framing.CASES,
    *bombs.CASES,
    *tls.CASES,
    *charsets.CASES,
    *traps.CASES,
    *pages.CASES,
)
BY_NAME: Mapping[str, Case] = {case.name: case for case in ALL}
PLAN: Mapping[str, str] = {f"127.66.{number // 250}.{number % 250 + 1}": case.name for number, case in enumerate(ALL)}
"""Address → name: each case is a host of its own, so that nobody is judged by what another did."""
ADDRESS_OF: Mapping[str, str] = {name: address for address, name in PLAN.items()}
