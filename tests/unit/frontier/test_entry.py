"""A request on its way into Redis and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.model import Level, Request
from shoal.core.url import Url, parse
from shoal.frontier.entry import decode, decode_record, encode


@pytest.mark.parametrize(
    ("request_", "entry"),
    [
        (Request(parse("http://a/path?query"), 2), "h2/path?query"),
        (Request(parse("https://a/")), "s0/"),
        (Request(parse("https://a/path"), attempt=1, hops=3), "s0,1,3,0/path"),
        (Request(parse("http://a/"), 12, losses=1), "h12,0,0,1/"),
        (Request(parse("http://a/1,2,3,4/5"), 7, Level.LAST), "h7/1,2,3,4/5"),
        (Request(parse("http://a/x"), 1, callback="detail"), "h1/x\tdetail\t"),
        (Request(parse("http://a/x"), 1, attempt=1, meta='{"a":"b/c"}'), 'h1,1,0,0/x\t\t{"a":"b/c"}'),
        (Request(parse("http://a/x"), 2, found_on=0), "h2~AAAAAAAAAAA/x"),
        (Request(parse("http://a/x"), 2, attempt=1, found_on=-1), "h2,1,0,0~__________8/x"),
        (Request(parse("http://a//x?/y"), 10, attempt=20, hops=10, losses=3), "h10,20,10,3//x?/y"),
    ],
)
def test_an_entry_is_short_and_stays_readable_by_older_workers(request_: Request, entry: str) -> None:
    assert encode(request_) == entry
    assert decode("a", request_.level, entry) == request_


REQUESTS = st.builds(
    Request,
    st.builds(
        Url,
        st.sampled_from(["http", "https"]),
        st.sampled_from(["a.example", "a.example:8080", "[::1]:8080", "127.0.0.1"]),
        st.text("/,?=&%20aZ9é ", max_size=30).map(lambda rest: "/" + rest),
    ),
    depth=st.integers(0, 10**6),
    level=st.sampled_from(Level),
    attempt=st.integers(0, 20),
    hops=st.integers(0, 10),
    losses=st.integers(0, 3),
    callback=st.sampled_from(["", "detail"]),
    meta=st.sampled_from(["", '{"page": 2}', '"a/b\\tc"']),
    found_on=st.none() | st.integers(-(2**63), 2**63 - 1),
)


@settings(max_examples=300, deadline=None, database=None)
@given(REQUESTS)
def test_nothing_is_lost_on_the_way(request_: Request) -> None:
    host, level = request_.url.host, int(request_.level)
    assert decode(host, level, encode(request_)) == request_
    assert decode_record(f"job1 {host} {level} {encode(request_)}") == ("job1", request_)


@pytest.mark.parametrize("entry", ["", "h0", "x0/", "h/", "hx/", "h1,2/", "h1,2,3/", "h1,2,3,4,5/", "/path"])
def test_what_is_no_entry_is_an_error_and_not_another_request(entry: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        decode("a", 1, entry)


@pytest.mark.parametrize("record", ["", "job a 1", "job a x h0/", "job a 9 h0/"])
def test_what_is_no_record_is_an_error_and_not_another_request(record: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        decode_record(record)
