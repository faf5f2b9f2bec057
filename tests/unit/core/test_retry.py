"""Who is asked again, when, and whether the host gets a rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.model import Outcome
from shoal.core.retry import RetryDecision, RetryPolicy, parse_retry_after

NOW = datetime(2015, 10, 21, 7, 27, 0, tzinfo=UTC)
POLICY = RetryPolicy()
ZERO = timedelta()


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def never() -> float:
    return 0.0


def fully() -> float:
    return 1.0


@pytest.mark.parametrize(
    "reason",
    [
        *("timeout_connect", "timeout_first_byte", "timeout_body", "timeout_total"),
        *("connect_refused", "connect_failed", "connection_lost", "dns_failed", "bad_http"),
        *("http_408", "http_425", "http_429", "http_500", "http_502", "http_503", "http_504"),
        *("http_507", "http_520", "http_522", "http_524", "http_599"),
    ],
)
def test_what_may_pass_is_tried_again(reason: str) -> None:
    assert POLICY.decide(reason, 0, jitter=fully) == RetryDecision(Outcome.RETRY, seconds(1))


def test_a_robots_txt_that_cannot_be_had_is_waited_for() -> None:
    decisions = [POLICY.decide("robots_unreachable", attempt, jitter=lambda: 0.0) for attempt in range(2)]
    assert decisions == [RetryDecision(Outcome.RETRY, seconds(15)), RetryDecision(Outcome.RETRY, seconds(30))]


@pytest.mark.parametrize(
    "reason",
    [
        *(f"http_{status}" for status in range(400, 500) if status not in (408, 425, 429)),
        *("http_501", "http_505", "http_304", "http_999", "http_600"),
        *("tls_certificate", "tls_failed", "dns_not_found", "bad_url", "too_large", "bad_encoding"),
        *("bad_redirect", "redirect_loop", "too_many_redirects", "worker_lost", "robots_disallowed", "", "http_"),
    ],
)
def test_what_will_not_pass_is_dead_at_once(reason: str) -> None:
    assert POLICY.decide(reason, 0, retry_after=seconds(5)) == RetryDecision(Outcome.DEAD)


@pytest.mark.parametrize(
    ("attempt", "longest"), [(0, 1), (1, 2), (2, 4), (3, 8), (7, 128), (8, 256), (9, 300), (30, 300), (10_000, 300)]
)
def test_backoff_doubles_up_to_its_cap(attempt: int, longest: int) -> None:
    policy = RetryPolicy(retries=20_000)
    assert policy.decide("timeout_total", attempt, jitter=fully).delay == seconds(longest)
    assert policy.decide("timeout_total", attempt, jitter=lambda: 0.25).delay == seconds(longest) / 4
    assert policy.decide("timeout_total", attempt, jitter=never).delay == ZERO


@settings(max_examples=200, deadline=None, database=None)
@given(st.integers(0, 40), st.floats(0, 1, exclude_max=True))
def test_jitter_spreads_over_the_whole_span_and_never_beyond(attempt: int, share: float) -> None:
    policy = RetryPolicy(retries=100, base=seconds(2), cap=seconds(60))
    delay = policy.decide("http_500", attempt, jitter=lambda: share).delay
    longest = min(2 * 2**attempt, 60)
    assert delay == seconds(longest) * share
    assert ZERO <= delay <= seconds(longest)


def test_jitter_differs_from_one_request_to_the_next() -> None:
    delays = {POLICY.decide("http_500", 2).delay for _ in range(50)}
    assert len(delays) > 40
    assert all(ZERO <= delay <= seconds(4) for delay in delays)


def test_retries_are_counted_from_the_first_failure() -> None:
    outcomes = [RetryPolicy(retries=2).decide("http_500", attempt).outcome for attempt in range(4)]
    assert outcomes == [Outcome.RETRY, Outcome.RETRY, Outcome.DEAD, Outcome.DEAD]
    assert RetryPolicy(retries=0).decide("http_500", 0).outcome is Outcome.DEAD


@pytest.mark.parametrize("reason", ["http_429", "http_503"])
def test_a_busy_host_is_held_for_as_long_as_it_asked(reason: str) -> None:
    assert POLICY.decide(reason, 0, seconds(7), fully) == RetryDecision(Outcome.RETRY, seconds(7), seconds(7))
    assert POLICY.decide(reason, 0, None, fully) == RetryDecision(Outcome.RETRY, seconds(1), ZERO)


@pytest.mark.parametrize("reason", ["http_500", "http_502", "http_408", "timeout_total"])
def test_another_failure_delays_the_request_but_not_the_host(reason: str) -> None:
    assert POLICY.decide(reason, 0, seconds(7), never) == RetryDecision(Outcome.RETRY, seconds(7), ZERO)


def test_a_request_given_up_still_leaves_its_busy_host_in_peace() -> None:
    decision = POLICY.decide("http_503", POLICY.retries, seconds(7))
    assert decision == RetryDecision(Outcome.DEAD, ZERO, seconds(7))


def test_retry_after_is_a_lower_bound_not_a_replacement() -> None:
    policy = RetryPolicy(base=seconds(100))
    assert policy.decide("http_503", 0, seconds(7), fully) == RetryDecision(Outcome.RETRY, seconds(100), seconds(7))


@pytest.mark.parametrize("asked", [seconds(601), timedelta(days=1), timedelta(days=999_999)])
def test_an_absurd_retry_after_is_cut_to_its_cap(asked: timedelta) -> None:
    ten_minutes = timedelta(minutes=10)
    assert POLICY.decide("http_503", 0, asked) == RetryDecision(Outcome.RETRY, ten_minutes, ten_minutes)


@pytest.mark.parametrize(
    ("header", "asked"),
    [
        ("0", 0),
        ("5", 5),
        ("  120 ", 120),
        ("007", 7),
        ("99999999999999999999999", 10**9),
        ("1" + "0" * 5000, 10**9),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 60),
        ("Wed, 21 Oct 2015 09:28:00 +0200", 60),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 60),
        ("Wednesday, 21-Oct-15 07:28:00 GMT", 60),
        ("Wed Oct 21 07:28:00 2015", 60),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0),
        ("Wed, 21 Oct 2015 07:26:59 GMT", 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, asked: int) -> None:
    assert parse_retry_after(header, now=NOW) == seconds(asked)


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", " ", "-5", "+5", "1.5", "1e5", "0x10", "5 seconds", "5, 6", "soon", "\x00", "٥", "²", "10:00"),
        *("2015-10-21T07:28:00Z", "Wed, 21 Oct 2015", "Wed, 32 Oct 2015 07:28:00 GMT"),
        *("Wed, 21 Oct 99999 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 +9999", "Wed, 21 Oct 2015 25:00:00 GMT"),
    ],
)
def test_a_retry_after_that_makes_no_sense_is_none(header: str | None) -> None:
    assert parse_retry_after(header, now=NOW) is None


def test_the_last_date_there_is_can_be_asked_for_and_is_cut() -> None:
    asked = parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", now=NOW)
    assert asked == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - NOW
    assert POLICY.decide("http_429", 0, asked).hold_host == timedelta(minutes=10)


@settings(max_examples=200, deadline=None, database=None)
@given(st.text(max_size=40))
def test_no_header_makes_retry_after_fail(header: str) -> None:
    asked = parse_retry_after(header, now=NOW)
    assert asked is None or asked >= ZERO


def test_a_date_is_that_of_the_servers_clock_not_of_ours() -> None:
    an_hour_behind, later = "Wed, 21 Oct 2015 06:27:00 GMT", "Wed, 21 Oct 2015 06:27:10 GMT"
    assert parse_retry_after(later, an_hour_behind, NOW) == seconds(10)
    assert parse_retry_after(later, "yesterday", NOW) == ZERO


def test_without_a_clock_given_the_present_counts() -> None:
    assert parse_retry_after("Sun, 06 Nov 1994 08:49:37 GMT") == ZERO
