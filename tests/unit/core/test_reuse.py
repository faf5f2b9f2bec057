"""May a stored page be used again? The decision, over all that can be known of a page."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.core.reuse import (
    FRESH,
    MAX_ETAG,
    MOST_UNVERIFIED,
    NOT_DUE,
    SKEW_MS,
    VERIFY_AFTER_MS,
    Known,
    Rules,
    Validators,
    Way,
    decide,
    has_conditions,
    interval_after,
    is_doubtful,
    read_validators,
)
from shoal.core.revisit import Revisiting

NOW = 1_800_000_000_000
HOUR, DAY = 3_600_000, 86_400_000
TAGGED = Validators('"a"', None)


def _span(least: float, more: float) -> Revisiting:
    return Revisiting(min=least, max=least + more)


times = st.integers(NOW - 60 * DAY, NOW + DAY)
spans = st.builds(_span, st.floats(60, 10**6), st.floats(0, 10**6))
knowns = st.builds(
    Known,
    fetched_ms=times,
    checked_ms=times,
    validators=st.sampled_from([Validators(), TAGGED, Validators(None, "x"), Validators('W/"b"', "x")]),
    interval_ms=st.none() | st.integers(0, 40 * DAY),
    unverified=st.integers(0, 12),
    rendered=st.booleans(),
)
rules = st.builds(Rules, max_age_ms=st.none() | st.integers(1, 40 * DAY), revisit=st.none() | spans, asks=st.booleans())


@given(knowns, rules)
def test_a_page_is_used_without_a_request_only_if_it_is_fresh_or_not_due(known: Known, rules: Rules) -> None:
    found = decide(known, rules, NOW)
    age = NOW - known.checked_ms
    fresh = rules.max_age_ms is not None and -SKEW_MS <= age <= rules.max_age_ms
    interval = rules.revisit.within(known.interval_ms) if rules.revisit and known.interval_ms is not None else None
    not_due = interval is not None and -SKEW_MS <= age < interval
    assert (found.way is Way.REUSE) == (fresh or not_due)
    if found.way is Way.REUSE:
        assert found.reason == (FRESH if fresh else NOT_DUE)
        assert not found.headers


@given(knowns, rules)
def test_a_host_is_asked_only_with_what_it_gave_and_while_it_is_believed(known: Known, rules: Rules) -> None:
    found = decide(known, rules, NOW)
    if found.way is not Way.ASK:
        assert not found.headers
        return
    assert found.headers == known.validators.conditions(known.checked_ms)
    assert found.headers
    assert rules.asks
    assert not known.rendered
    assert known.unverified < MOST_UNVERIFIED
    assert NOW - known.fetched_ms <= VERIFY_AFTER_MS


def test_the_span_of_the_job_holds_whatever_the_interval_was_before() -> None:
    rarely, often = (Known(NOW - 5 * DAY, NOW - 5 * DAY, TAGGED, interval_ms=ms) for ms in (20 * DAY, HOUR))
    assert decide(rarely, Rules(revisit=Revisiting(max=DAY / 1000)), NOW).way is Way.ASK
    assert decide(often, Rules(revisit=Revisiting(min=10 * DAY / 1000)), NOW).reason == NOT_DUE


def test_a_page_from_the_future_has_no_age() -> None:
    known = Known(NOW + DAY, NOW + DAY, TAGGED, interval_ms=10 * DAY)
    assert decide(known, Rules(DAY, Revisiting()), NOW).way is Way.ASK


def test_nobody_is_believed_for_ever() -> None:
    assert not is_doubtful(Known(NOW - DAY, NOW, TAGGED, unverified=MOST_UNVERIFIED - 1), NOW)
    assert is_doubtful(Known(NOW - DAY, NOW, TAGGED, unverified=MOST_UNVERIFIED), NOW)
    assert is_doubtful(Known(NOW - 31 * DAY, NOW, TAGGED), NOW)


@given(knowns, spans, st.sampled_from([True, False, None]))
def test_an_interval_stays_within_its_span_and_moves_the_right_way(
    known: Known, span: Revisiting, changed: bool | None
) -> None:
    found = interval_after(known, Rules(revisit=span), NOW, changed=changed)
    assert found is not None
    assert round(span.min * 1000) <= found <= round(span.max * 1000)
    before = known.interval_ms
    if before is not None and span.min * 1000 < before < span.max * 1000:
        assert found <= before if changed else found >= before


def test_the_first_interval_is_the_time_between_two_visits() -> None:
    known = Known(NOW - DAY, NOW - DAY)
    wide = Rules(revisit=Revisiting(min=60, max=10**7))
    assert interval_after(known, wide, NOW, changed=False) == 1.5 * DAY
    assert interval_after(known, wide, NOW, changed=True) == DAY / 2
    assert interval_after(known, wide, NOW, changed=None) == DAY
    assert interval_after(known, Rules(), NOW, changed=True) is None


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_whatever_a_server_gives_what_is_sent_back_is_one_printable_line(etag: bytes, date: bytes) -> None:
    found = read_validators(((b"ETag", etag), (b"Last-Modified", date)))
    for value in found.conditions(NOW).values():
        assert value.isascii()
        assert value.isprintable()
        assert value.strip() == value != "*"


def test_validators_are_kept_as_they_came() -> None:
    date = b"Tue, 03 Feb 2026 04:05:06 GMT"
    found = read_validators(((b"etag", b' W/"a,b" '), (b"LAST-MODIFIED", date), (b"ETag", b'"second"')))
    assert found == Validators('W/"a,b"', date.decode())
    assert found.conditions(NOW) == {"If-None-Match": 'W/"a,b"', "If-Modified-Since": date.decode()}


def test_what_says_nothing_is_not_kept() -> None:
    long = b'"' + b"x" * MAX_ETAG + b'"'
    for etag in (b"", b"*", long, b'"a\x00b"', b'"a\r\nb"', b'"\xe9"', b'"a\x7f"'):
        assert not read_validators(((b"ETag", etag),)).conditions(NOW)
    for date in (b"yesterday", b"Fri, 01 Jan 2100 00:00:00 GMT", b"0", b"Tue, 99 Feb 2026 04:05:06 GMT"):
        assert not read_validators(((b"Last-Modified", date),)).conditions(NOW)


def test_conditions_of_a_user_are_his_own() -> None:
    assert has_conditions({"IF-None-Match": "x"})
    assert has_conditions({"Range": "bytes=0-9"})
    assert not has_conditions({"Accept": "*/*"})
    assert decide(Known(NOW, NOW, TAGGED), Rules(asks=False), NOW).way is Way.FETCH
