"""Charts of one line, and the history drawn with them."""

from __future__ import annotations

import pytest

from shoal.cli.show_history import PLACES, drawn
from shoal.cli.spark import number, spark
from shoal.core.history import Point, Sample, Window
from shoal.history import Chart

STEP = 5_000


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ((), ""),
        ((None, None), "  "),
        ((0, 0, 0), "▁▁▁"),
        ((0, 0.001, 50, 100), "▁▂▅█"),
        ((7, None, 7), "█ █"),
        (tuple(range(8)), "▁▂▃▄▅▆▇█"),
    ],
)
def test_zero_little_and_unknown_can_be_told_apart(values: tuple[float | None, ...], drawn: str) -> None:
    assert spark(values) == drawn


def test_numbers_are_as_long_as_they_need_to_be() -> None:
    assert [number(each) for each in (None, 0, 0.001, 0.041, 7.254, 31.42, 31, 120.7, 1_204)] == [
        *("-", "0", "<0.01", "0.04", "7.25", "31.4", "31", "121", "1,204")
    ]


def test_a_history_has_what_happened_by_reason_and_a_gap_where_nobody_looked() -> None:
    points = [_point(0, pages=4, reasons={"dead:http_404": 0.4, "done:redirect": 2.0}), _gap(1), _point(2, pages=8)]
    lines = list(drawn("job k3x9", _chart(points), PLACES))
    assert lines[0] == "job k3x9, 1970-01-01 00:00:00 to 1970-01-01 00:00:15 UTC, in steps of 5 s"
    assert "  pages/s      ▅ █  most 8, last 8, in all 60" in lines
    assert "  queued       ▅ █  most 8, last 8" in lines
    assert "  dead:http_404                        2  █ ▁" in lines
    assert not any("redirect" in line for line in lines)
    assert [line[:19] for line in lines[-2:]] == ["1970-01-01 00:00:00", "1970-01-01 00:00:10"]


def test_the_table_has_few_rows_that_stand_for_all_steps() -> None:
    points = [_point(place, pages=place) for place in range(30)]
    rows = list(drawn("job", _chart(points), PLACES))[-10:]
    assert [row.split()[2] for row in rows[:2]] == ["1", "4"]  # pages a second: of 0, 1, 2 and of 3, 4, 5
    assert [row.split()[5] for row in rows[:2]] == ["2", "5"]  # queued: as it was at the end of each
    assert rows[-1].startswith("1970-01-01 00:02:15")


def test_reasons_of_strangers_do_nothing_to_a_terminal() -> None:
    points = [_point(0, pages=1, reasons={"dead:\x1b[31m": 1.0})]
    assert "\x1b" not in "".join(drawn("job", _chart(points), PLACES))


def test_of_a_time_in_which_nobody_looked_there_is_no_chart() -> None:
    empty = _chart([_gap(0), _gap(1)])
    assert len(list(drawn("everything together", empty, PLACES))) == 1


def _chart(points: list[Point]) -> Chart:
    return Chart(Window(0, len(points) * STEP, STEP), points)


def _point(place: int, *, pages: int, reasons: dict[str, float] | None = None) -> Point:
    last = Sample((place + 1) * STEP, {"pages": pages}, {"queued": pages})
    return Point(place * STEP, STEP, {"pages": float(pages)}, reasons or {}, last)


def _gap(place: int) -> Point:
    return Point(place * STEP, 0, None, {}, None)
