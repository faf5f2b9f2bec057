"""URLs streamed to an open job: every line counts once, whatever the stream looks like and however long it is."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from werkzeug.exceptions import ClientDisconnected

from shoal.core.model import JobState
from shoal.errors import RedisUnavailable
from tests.contract.api import Desk, a_desk, refused, told

URL = "http://shop.example/"
NDJSON = "application/x-ndjson"


def _open(desk: Desk, **settings: Any) -> str:
    return desk.submit(open=True, **settings)


@dataclass(frozen=True, slots=True)
class Body:
    """What a server hands to the application."""

    read: Callable[[int], bytes]


def _stream(desk: Desk, job: str, read: Callable[[int], bytes], length: int) -> Any:
    """Lines that come bit by bit, as from a socket."""
    overrides = {"wsgi.input": Body(read), "CONTENT_LENGTH": str(length)}
    return desk.post(f"jobs/{job}/urls", content_type="text/plain", environ_overrides=overrides)


def _sums(answer: Any) -> dict[str, int]:
    return {name: value for name, value in told(answer).items() if name != "problems"}


def _counts(lines: int, accepted: int, seen: int = 0, filtered: int = 0, invalid: int = 0) -> dict[str, int]:
    return {"lines": lines, "accepted": accepted, "seen": seen, "filtered": filtered, "invalid": invalid}


def _problems(answer: Any) -> dict[int, str]:
    return {problem["line"]: problem["detail"] for problem in told(answer)["problems"]}


# --- what a line can be ----------------------------------------------------------------------------------------------


def test_lines_of_text_are_urls(each: Desk) -> None:
    job = _open(each)
    assert _sums(each.send(job, f"{URL}1\n{URL}2\n{URL}1\n")) == _counts(3, 2, seen=1)
    assert _sums(each.send(job, f"{URL}2\n{URL}3")) == _counts(2, 1, seen=1)
    assert each.rings[-1] == ("http.batch", each.job(job)["request_id"])
    assert sorted(each.work()) == [f"{URL}{n}" for n in (1, 2, 3)]


def test_lines_of_json_are_urls_or_objects_with_one(each: Desk) -> None:
    job = _open(each)
    lines = f'"{URL}1"\n{{"url": "{URL}2"}}\n{{"url": "{URL}3", "more": [1]}}\n'
    for kind in (NDJSON, "application/ndjson", "application/jsonl", "application/json-lines"):
        answer = each.send(job, lines, f"{kind}; charset=utf-8")
        assert told(answer)["invalid"] == 0
    assert sorted(each.work()) == [f"{URL}{n}" for n in (1, 2, 3)]


def test_endings_marks_blanks_and_comments_make_no_difference(desk: Desk) -> None:
    job = _open(desk)
    text = f"\ufeff{URL}1\r\n\r\n  # a comment\r\n\t {URL}2 \t\r\n#{URL}no\n\n{URL}3\r\n\n"
    assert _sums(desk.send(job, text.encode())) == _counts(7, 3)
    lines = f'\ufeff"{URL}1"\r\n\r\n  {{"url": "{URL}4"}}  \r\n'
    assert _sums(desk.send(job, lines.encode(), NDJSON)) == _counts(3, 1, seen=1)
    assert sorted(desk.work()) == [f"{URL}{n}" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("text", ["", "\n", "\r\n\r\n", "# nothing\n", "\ufeff"])
def test_nothing_is_nothing(desk: Desk, text: str) -> None:
    job = _open(desk)
    assert _sums(desk.send(job, text.encode())) == _counts(0, 0)
    assert list(desk.platform.jobs.submissions.urls(job)) == []


def test_bad_lines_are_named_and_the_others_taken(desk: Desk) -> None:
    job = _open(desk)
    lines = [
        URL.encode(),
        b"shop.example/2",
        b"ftp://shop.example/",
        b"http://shop.example/\xff\xfe",
        b"http://user:secret@shop.example/",
        (URL + "x" * 2_000).encode(),
        b"http://shop.example/" + b"y" * 70_000,
        (URL + "ok").encode(),
    ]
    answer = desk.send(job, b"\n".join(lines))
    assert _sums(answer) == _counts(8, 2, invalid=6)
    found = _problems(answer)
    assert list(found) == [2, 3, 4, 5, 6, 7]
    assert "did you mean 'https://shop.example/2'?" in found[2]
    assert "'ftp'" in found[3]
    assert found[4] == "not UTF-8"
    assert "secret" not in found[5]
    assert "2000" in found[6]
    assert "8192 bytes" in found[7]


def test_bad_lines_of_json_are_named(desk: Desk) -> None:
    job = _open(desk)
    lines = [
        "{",
        "7",
        "null",
        "[]",
        '{"uri": "x"}',
        '{"url": 7}',
        '"nonsense"',
        f'"{URL}"',
        "\ud800".encode("utf-8", "surrogatepass"),
    ]
    body = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    answer = desk.send(job, body, NDJSON)
    assert _sums(answer) == _counts(9, 1, invalid=8)
    found = _problems(answer)
    assert found[1].startswith("not JSON")
    assert all('{"url": ' in found[line] for line in range(2, 7))
    assert "not an absolute URL" in found[7]
    assert found[9] == "not UTF-8"


def test_only_the_first_bad_lines_are_told(desk: Desk) -> None:
    answer = desk.send(_open(desk), "nonsense\n" * 1_000)
    assert _sums(answer) == _counts(1_000, 0, invalid=1_000)
    assert [problem["line"] for problem in told(answer)["problems"]] == list(range(1, 21))


def test_a_line_of_any_length_is_one_line(desk: Desk) -> None:
    job = _open(desk)
    body = b"x" * 3_000_000 + f"\n{URL}1\n".encode() + b"http://shop.example/" + b"z" * 1_000_000
    answer = desk.send(job, body)
    assert _sums(answer) == _counts(3, 1, invalid=2)
    assert list(_problems(answer)) == [1, 3]


def test_a_line_may_be_torn_anywhere(desk: Desk) -> None:
    job = _open(desk)
    body = f"\ufeff{URL}größer\r\n{URL}2".encode()
    crumbs = io.BytesIO(body)
    answer = _stream(desk, job, lambda _: crumbs.read(1), len(body))
    assert _sums(answer) == _counts(2, 2)


# --- what a job takes ------------------------------------------------------------------------------------------------


def test_urls_out_of_scope_are_filtered(each: Desk) -> None:
    job = _open(each, follow=True, hosts=["shop.example"], deny=["/cart"])
    body = f"{URL}b1\nhttp://www.shop.example/b2\nhttp://elsewhere.example/b\n{URL}cart\n"
    assert _sums(each.send(job, body)) == _counts(4, 3, filtered=1)  # who names a URL wants it, denied or not
    shown = each.job(job)
    assert shown["reasons"] == {"filtered:other_host": 1}
    assert shown["reconciles"]


def test_a_job_that_follows_no_links_takes_any_host(desk: Desk) -> None:
    job = _open(desk, hosts=["shop.example"])
    assert _sums(desk.send(job, "http://elsewhere.example/b")) == _counts(1, 1)


def test_urls_over_the_budget_are_filtered(each: Desk) -> None:
    job = _open(each, pages=3)
    assert _sums(each.send(job, "".join(f"{URL}{n}\n" for n in range(5)))) == _counts(5, 3, filtered=2)
    assert len(each.work()) == 3


def test_tracking_parameters_are_dropped_where_the_job_says_so(desk: Desk) -> None:
    job = _open(desk, drop_tracking=True)
    assert _sums(desk.send(job, f"{URL}?utm_source=a\n{URL}?utm_source=b\n")) == _counts(2, 1, seen=1)


def test_a_long_list_is_taken_in_batches_each_durable(each: Desk) -> None:
    job = _open(each)
    body = "".join(f"{URL}{n}\n" for n in range(12_000))
    assert _sums(each.send(job, body)) == _counts(12_000, 12_000)
    assert [len(batch) for batch in each.platform.jobs.submissions.urls(job)] == [5_000, 5_000, 2_000]
    assert list(each.platform.jobs.submissions.waiting(job)) == []
    assert len(each.work()) == 12_000


def test_a_closed_job_takes_no_urls(each: Desk) -> None:
    refused(each.send(each.submit(URL), URL + "2"), 409)
    job = _open(each)
    told(each.post(f"jobs/{job}/close"))
    refused(each.send(job, URL), 409)
    assert each.work() == [URL]


@pytest.mark.parametrize("body", ["", "nonsense", URL])
def test_an_ended_job_takes_no_urls_and_stays_ended(each: Desk, body: str) -> None:
    job = _open(each)
    told(each.post(f"jobs/{job}/cancel"))
    refused(each.send(job, body), 409)
    assert (each.state(job), each.work()) == (JobState.CANCELLED, [])
    assert each.platform.frontier.known_jobs() == []
    assert list(each.platform.jobs.submissions.urls(job)) == []


def test_a_paused_job_takes_urls_for_later(desk: Desk) -> None:
    job = _open(desk)
    told(desk.post(f"jobs/{job}/pause"))
    assert told(desk.send(job, URL))["accepted"] == 1
    assert desk.work() == []
    told(desk.post(f"jobs/{job}/resume"))
    assert desk.work() == [URL]


@pytest.mark.parametrize("kind", ["application/json", "text/csv", "multipart/form-data; boundary=x", "", None])
def test_another_kind_of_list_is_refused_with_those_that_are_known(desk: Desk, kind: str | None) -> None:
    job = _open(desk)
    answer = desk.post(f"jobs/{job}/urls", data=URL.encode(), content_type=kind)
    assert "application/x-ndjson" in refused(answer, 415)["detail"]
    assert desk.job(job)["pending"] == 0


def test_a_job_that_redis_has_forgotten_learns_its_urls_again(desk: Desk) -> None:
    job = _open(desk)
    frontier = desk.platform.frontier
    frontier.cancel(job)
    frontier.forget(job)
    assert told(desk.send(job, URL))["accepted"] == 1
    assert desk.work() == [URL]


# --- a stream that is cut short --------------------------------------------------------------------------------------


def test_when_redis_goes_away_the_batch_is_kept_and_carried_out_later(
    each: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _open(each)
    admit = each.platform.frontier.admit
    calls: list[int] = []

    def failing(*args: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise RedisUnavailable("gone")
        return admit(*args, **more)

    monkeypatch.setattr(each.platform.frontier, "admit", failing)
    answer = each.send(job, "".join(f"{URL}{n}\n" for n in range(12_000)))
    assert int(answer.headers["Retry-After"]) > 0
    refused(answer, 503)
    monkeypatch.undo()
    assert [len(waiting.lines) for waiting in each.platform.jobs.submissions.waiting(job)] == [5_000]
    told(each.post(f"jobs/{job}/resume"))
    assert len(each.work()) == 10_000
    assert _sums(each.send(job, "".join(f"{URL}{n}\n" for n in range(12_000)))) == _counts(12_000, 2_000, seen=10_000)


def test_a_client_that_hangs_up_has_sent_whole_batches(desk: Desk) -> None:
    job = _open(desk)
    body = b"".join(b"http://shop.example/%09d\n" % n for n in range(12_000))
    rest = io.BytesIO(body)

    def read(_: int) -> bytes:
        if rest.tell() > 6_000 * 30:
            raise ClientDisconnected("the body ended too early")
        return rest.read(30_000)

    answer = _stream(desk, job, read, len(body))
    refused(answer, 400)
    assert desk.job(job)["pending"] == 5_000
    assert list(desk.platform.jobs.submissions.waiting(job)) == []


# --- a full house ----------------------------------------------------------------------------------------------------


def test_a_stream_stops_at_a_batch_and_says_where_to_go_on(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, frontier_urls=11_000) as desk:
        job = _open(desk)
        lines = [f"{URL}{n}\n" for n in range(16_000)]
        lines[7_000] = "nonsense\n"
        answer = desk.send(job, "".join(lines))
        problem = refused(answer, 429)
        assert int(answer.headers["Retry-After"]) > 0
        assert "go on with line 10001" in problem["detail"]
        assert problem["taken"] == _counts(10_000, 9_999, invalid=1)
        assert desk.job(job)["pending"] == 9_999
        assert len(desk.work()) == 9_999
        assert _sums(desk.send(job, "".join(lines[10_000:]))) == _counts(6_000, 6_000)
        assert len(desk.work()) == 6_000


def test_above_the_memory_cap_not_one_line_is_taken(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path) as desk:
        job = _open(desk)
        with a_desk(valkey_url, tmp_path, prefix=desk.platform.settings.prefix, frontier_megabytes=1) as full:
            problem = refused(full.send(job, f"{URL}1\nnonsense\n"), 429)
        assert "line 1" in problem["detail"]
        assert problem["taken"] == _counts(0, 0)
        assert desk.job(job)["pending"] == 0
        assert list(desk.platform.jobs.submissions.urls(job)) == []


# --- any length ------------------------------------------------------------------------------------------------------


class Endless:
    """A stream of numbered URLs that is made while it is read, and watches the memory of who reads it."""

    LINE = b"http://shop.example/%09d\n"

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.length = lines * len(self.LINE % 0)
        self.most = 0
        self._next = 0
        self._rest = b""
        self._process = psutil.Process()

    def read(self, size: int) -> bytes:
        self.most = max(self.most, self._process.memory_info().rss)
        while len(self._rest) < size and self._next < self.lines:
            last = min(self.lines, self._next + 1_000)
            self._rest += b"".join(self.LINE % n for n in range(self._next, last))
            self._next = last
        block, self._rest = self._rest[:size], self._rest[size:]
        return block


@pytest.mark.slow
def test_memory_does_not_grow_with_the_stream(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, api_body_megabytes=1) as desk:
        job = _open(desk)
        short, long = Endless(20_000), Endless(150_000)
        for stream, seen in ((short, 0), (long, 20_000)):
            answer = _stream(desk, job, stream.read, stream.length)
            assert _sums(answer) == _counts(stream.lines, stream.lines - seen, seen=seen)
        assert long.most - short.most < 12_000_000
        assert desk.delete(f"jobs/{job}").status_code == 204


def test_a_job_that_is_none_is_told_before_the_body_is_read(desk: Desk) -> None:
    def never(_: int) -> bytes:
        raise AssertionError("read")

    for job in ("NOT-A-JOB", "nothing"):
        refused(_stream(desk, job, never, 10), 404)
