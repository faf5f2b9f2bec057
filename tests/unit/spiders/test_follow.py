"""What a spider can ask for, and what it is told when it cannot."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from shoal import Follow
from shoal.core.model import Level
from shoal.spiders.follow import MAX_META, FollowUp


def test_a_request_is_one_deeper_than_its_page_unless_it_says_so() -> None:
    assert Follow("/a").onward(3) == FollowUp("/a", "", Level.NORMAL, 4, "")
    asked = Follow("/a", "detail", "first", depth=3, meta={"n": [1, None], "t": "ü\t\n"})
    assert asked.onward(3) == FollowUp("/a", "detail", Level.FIRST, 3, '{"n":[1,null],"t":"\\u00fc\\t\\n"}')


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"url": ""}, "a URL is needed"),
        ({"url": None}, "a URL is needed"),
        ({"url": "/a", "callback": "a b"}, "not the name of a callback"),
        ({"url": "/a", "callback": "_private"}, "not the name of a callback"),
        ({"url": "/a", "priority": 3}, "first, normal or last"),
        ({"url": "/a", "depth": -1}, "from 0 on"),
        ({"url": "/a", "depth": True}, "from 0 on"),
        ({"url": "/a", "meta": {"day": date(2024, 1, 1)}}, "meta must be JSON"),
        ({"url": "/a", "meta": {"n": float("nan")}}, "meta must be JSON"),
        ({"url": "/a", "meta": {"text": "x" * MAX_META}}, "at most 4096"),
    ],
)
def test_what_cannot_be_sent_is_refused_where_it_is_written(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Follow(**values)
