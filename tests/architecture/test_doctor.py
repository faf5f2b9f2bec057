"""The guide to the doctor has every finding as it is."""

from __future__ import annotations

import re

from shoal.doctor import (
    broker,
    browser,
    checkup,
    clock,
    database,
    fleet,
    network,
    rabbitmq,
    redis,
    sentinels,
    settings,
    storage,
)
from shoal.doctor.finding import Kind
from tests.documents import REPOSITORY, plain, table

GUIDE = "docs/guides/doctor.md"
MODULES = (settings, redis, sentinels, broker, rabbitmq, fleet, database, storage, browser, network, clock, checkup)
KINDS = [kind for module in MODULES for kind in vars(module).values() if isinstance(kind, Kind)]


def test_the_guide_has_every_finding_with_its_level_and_meaning() -> None:
    written = [(plain(code), level, means) for code, level, means in table(GUIDE, "finding", "level", "means")]
    assert written == [(kind.code, kind.level.value, kind.means) for kind in KINDS]
    assert len({kind.code for kind in KINDS}) == len(KINDS)


def test_the_errors_that_everybody_meets_have_findings_that_there_are() -> None:
    rows = table(GUIDE, "what Celery, Redis or the system say", "finding")
    named = {name for _, findings in rows for name in re.findall(r"`(\w+)`", findings)}
    assert named - {kind.code for kind in KINDS} == set()


def test_every_finding_means_something_and_can_be_mended() -> None:
    assert [kind.code for kind in KINDS if not kind.means.endswith(".") or not kind.mend] == []


def test_every_finding_was_prepared_as_a_fault_or_judged_without_one() -> None:
    acceptance, unit = REPOSITORY / "tests" / "acceptance", REPOSITORY / "tests" / "unit" / "doctor"
    folders = (*acceptance.glob("test_doctor*.py"), *unit.glob("*.py"))
    tried = "".join(path.read_text(encoding="utf-8") for path in folders)
    untried = {kind.code for kind in KINDS if f'"{kind.code}"' not in tried}
    assert untried == HARD_TO_PREPARE


HARD_TO_PREPARE = {
    "no_server",  # Shoal brings one along
    "redis_certificate",  # tests/acceptance/test_redis_access.py has the same refusal
    "redis_refuses",  # whatever a server may think of one day
    "redis_open",  # the risks of a Redis have tests of their own
    "redis_unchecked",
    "sqlite_on_network",
}
