"""What a page leads to, packed and unpacked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.extract.findings import Findings
from shoal.extract.outlinks import Written
from shoal.spiders.follow import FollowUp

texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=5).map(tuple)
requests = st.lists(
    st.builds(FollowUp, st.text("ab/"), st.just("parse"), st.just(1), st.just(2), st.just("")), max_size=2
)


@given(texts, texts, texts, requests.map(tuple), st.booleans(), st.booleans(), st.sampled_from(["", "index", "feed"]))
def test_what_is_written_down_is_read_back(
    hrefs: tuple[str, ...],
    further: tuple[str, ...],
    stale: tuple[str, ...],
    asked: tuple[FollowUp, ...],
    read: bool,
    nofollow: bool,
    kind: str,
) -> None:
    found = Findings("/base", hrefs=hrefs, kind=kind, further=further, stale=stale, requests=asked)
    written = Written(found, read, nofollow)
    packed = written.pack()
    assert packed is not None
    assert Written.unpack(packed) == written


def test_half_a_character_is_not_written_down() -> None:
    assert Written(Findings(hrefs=("/\ud800",)), links_read=True).pack() is None


@pytest.mark.parametrize("packed", [b"", b"garbage", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_what_was_not_written_here_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Written.unpack(packed)
