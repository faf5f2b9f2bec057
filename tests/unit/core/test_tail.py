"""What a spider sends along, in lines of text."""

from __future__ import annotations

import pytest

from shoal.core.model import Level, Request
from shoal.core.tail import line_of, read_line
from shoal.core.url import parse

URL = parse("https://shop.example/p?a=1&b=%20")


def test_a_request_of_which_nothing_is_sent_along_is_its_url() -> None:
    assert line_of(Request(URL, 3)) == str(URL)
    assert read_line(str(URL), 3) == Request(URL, 3)


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("callback", ["", "detail"])
@pytest.mark.parametrize("meta", ["", '{"name": "a b\\tc", "n": [1, null]}'])
def test_nothing_is_lost_in_a_line(level: Level, callback: str, meta: str) -> None:
    request = Request(URL, 2, level, callback=callback, meta=meta)
    assert "\n" not in line_of(request)
    assert read_line(line_of(request), 2) == request
