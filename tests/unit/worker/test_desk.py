"""What lies on a slice's desk, and what that means for who leases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shoal.core.model import Lease, Request
from shoal.core.url import parse
from shoal.worker.desk import Desk
from shoal.worker.result import put_off

RESULT = put_off(Lease(1, 1, "job", Request(parse("http://a.test/")), "http.batch"), "test", timedelta())


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.put(RESULT)
    return desk


def test_where_nothing_waits_results_bring_work_until_they_are_delivered(desk: Desk) -> None:
    desk.is_dry = True
    assert desk.brings_work
    assert desk.take_results(10) == [RESULT]
    assert desk.brings_work
    desk.delivered()
    assert not desk.brings_work


def test_where_something_waits_nobody_looks_for_what_results_lead_to(desk: Desk) -> None:
    assert not desk.brings_work
