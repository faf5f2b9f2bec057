"""A million lines of one kind become a few lines and a number; together they are what happened."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import pytest
import structlog

from shoal import log_limit
from shoal.log_limit import LineLimit
from shoal.log_names import add_process_names, add_visit_names, name_no_visit, name_visit, of_no_visit
from tests.waiting import wait_until

LIMIT = 3


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Written:
    """Lines as they would be written, and how many of each kind they stand for."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def __call__(self, _logger: object, name: str, event: Any) -> Any:
        self.lines.append({**event, "level": name})
        raise structlog.DropEvent

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]

    def happened(self) -> Counter[tuple[str, str]]:
        sums = Counter[tuple[str, str]]()
        for line in self.lines:
            if line["event"] == "lines_left_out":
                sums[line["of"], line.get("job", "")] += line["count"]
            else:
                sums[line["event"], line.get("job", "")] += 1
        return sums


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def written() -> Generator[Written]:
    yield Written()
    structlog.contextvars.clear_contextvars()
    name_no_visit()


def _set_up(written: Written, limit: LineLimit) -> Any:
    structlog.configure(
        processors=[add_visit_names, structlog.contextvars.merge_contextvars, limit, add_process_names, written],
        wrapper_class=structlog.make_filtering_bound_logger(10),
        cache_logger_on_first_use=False,
    )
    return structlog.get_logger()


def test_of_each_event_and_job_a_few_lines_are_written_and_the_rest_is_counted(written: Written, clock: Clock) -> None:
    limit = LineLimit(LIMIT, clock=clock)
    log = _set_up(written, limit)
    for _ in range(100):
        log.info("page_cut", job="a", request_id="r1")
    for _ in range(5):
        log.info("page_cut", job="b")
        log.warning("page_unread", job="a")
    log.info("page_cut", job="c")
    limit.flush()
    assert [len(written.of(event)) for event in ("page_cut", "page_unread")] == [2 * LIMIT + 1, LIMIT]
    assert written.happened() == {
        ("page_cut", "a"): 100,
        ("page_cut", "b"): 5,
        ("page_cut", "c"): 1,
        ("page_unread", "a"): 5,
    }
    told = {(line["of"], line["job"]): line for line in written.of("lines_left_out")}
    assert told["page_cut", "a"]["request_id"] == "r1"
    assert told["page_unread", "a"]["level"] == "warning"


def test_the_next_minute_begins_with_the_count_of_the_last(written: Written, clock: Clock) -> None:
    limit = LineLimit(LIMIT, clock=clock)
    log = _set_up(written, limit)
    for _ in range(10):
        log.info("page_cut", job="a")
    clock.now += log_limit.WINDOW_S
    log.info("page_cut", job="a")
    assert [line["event"] for line in written.lines] == ["page_cut"] * LIMIT + ["lines_left_out", "page_cut"]
    assert written.happened()["page_cut", "a"] == 11


def test_an_error_that_is_left_out_is_told_as_an_error(written: Written, clock: Clock) -> None:
    limit = LineLimit(1, clock=clock)
    log = _set_up(written, limit)
    log.info("mixed")
    log.info("mixed")
    log.exception("mixed")
    log.info("mixed")
    limit.flush()
    (told,) = written.of("lines_left_out")
    assert (told["level"], told["count"]) == ("error", 3)


def test_what_is_told_once_is_not_told_again(written: Written, clock: Clock) -> None:
    limit = LineLimit(1, clock=clock)
    log = _set_up(written, limit)
    for _ in range(3):
        log.info("page_cut")
    limit.flush()
    limit.flush()
    log.info("page_cut")
    limit.flush()
    assert [line["count"] for line in written.of("lines_left_out")] == [2, 1]


def test_the_count_comes_although_no_further_line_does(written: Written) -> None:
    limit = LineLimit(1, window_s=0.05)
    log = _set_up(written, limit)
    for _ in range(5):
        log.info("page_cut", job="a")
    wait_until(lambda: written.happened()["page_cut", "a"] == 5, within=timedelta(seconds=5))


def test_the_count_has_no_names_but_those_it_is_about(written: Written, clock: Clock) -> None:
    limit = LineLimit(1, clock=clock)
    log = _set_up(written, limit)
    for host in ("one.example", "two.example"):
        name_visit("a", host, "r")
        log.info("page_cut")
    limit.flush()
    (told,) = written.of("lines_left_out")
    assert (told["job"], told["request_id"], "host" in told) == ("a", "r", False)


def test_jobs_without_end_take_no_memory_without_end(
    written: Written, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_limit, "MOST_WINDOWS", 10)
    limit = LineLimit(LIMIT, clock=clock)
    log = _set_up(written, limit)
    for number in range(1000):
        log.info("page_cut", job=f"job-{number}")
    limit.flush()
    assert len(written.lines) == 10 + LIMIT + 1
    assert sum(written.happened().values()) == 1000
    clock.now += log_limit.WINDOW_S
    log.info("page_cut", job="later")
    assert written.lines[-1]["job"] == "later"


def test_what_the_api_answered_is_never_left_out_and_nothing_is_without_a_limit(written: Written, clock: Clock) -> None:
    log = _set_up(written, LineLimit(1, clock=clock))
    for _ in range(5):
        log.info("request", path="/")
    log = _set_up(written, LineLimit(0, clock=clock))
    for _ in range(5):
        log.info("page_cut")
    assert written.happened() == {("request", ""): 5, ("page_cut", ""): 5}


def test_threads_count_together(written: Written, clock: Clock) -> None:
    limit = LineLimit(LIMIT, clock=clock)
    log = _set_up(written, limit)

    def talk() -> None:
        for _ in range(500):
            log.info("page_cut", job="a")

    threads = [threading.Thread(target=talk) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    limit.flush()
    assert len(written.of("page_cut")) == LIMIT
    assert written.happened() == {("page_cut", "a"): 4000}


def test_a_fork_does_not_tell_what_its_parent_left_out(written: Written, clock: Clock) -> None:
    limit = LineLimit(1, clock=clock)
    log = _set_up(written, limit)
    log.info("page_cut")
    log.info("page_cut")
    pid = os.fork()
    if pid == 0:
        before = len(written.lines)
        limit.flush()
        log.info("page_cut")
        os._exit(len(written.lines) - before)
    _, status = os.waitpid(pid, 0)
    limit.flush()
    assert os.waitstatus_to_exitcode(status) == 1
    assert written.happened()["page_cut", ""] == 2


def test_a_task_for_all_visits_has_no_names_of_one(written: Written, clock: Clock) -> None:
    log = _set_up(written, LineLimit(LIMIT, clock=clock))
    names = ("slice", "job", "host", "request_id")
    structlog.contextvars.bind_contextvars(slice="da688126", request_id="of who rang")
    name_visit("a", "one.example", "r")
    of_no_visit().run(log.info, "browser_replaced")
    log.info("page_killed")
    of_all, of_one = written.lines
    assert [of_all.get(name) for name in names] == ["da688126", None, None, None]
    assert [of_one.get(name) for name in names] == ["da688126", "a", "one.example", "r"]
