"""JSON of strangers."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from shoal.core import json_text
from shoal.core.json_text import read_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, 2.5, true, null, "x"]}', {"a": [1, 2.5, True, None, "x"]}),
        (r'{"a": "\ud83d", "b": 1}', {"a": "\ufffd", "b": 1}),
        (r'"\uDE00 and \ud83d\ude00 and \ud83d!"', "\ufffd and \U0001f600 and \ufffd!"),
        (r'"\\ud83d \ud83d"', "\\ud83d \ufffd"),
        (r'{"\udfff": 1}', {"\ufffd": 1}),
        ('{"a": 1e400, "b": -1e400, "c": 2}', {"a": None, "b": None, "c": 2}),
        ('{"a": NaN, "b": [Infinity, -Infinity], "c": "NaN"}', {"a": None, "b": [None, None], "c": "NaN"}),
        ('{"a": NaN, "n": 18446744073709551615}', {"a": None, "n": 18446744073709551615}),
        ('{"a": NaN, "n": 18446744073709551616}', {"a": None, "n": 18446744073709551616.0}),
        ("[NaN, " + "9" * 5000 + ", 0." + "1" * 5000 + "]", [None, None, None]),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        (b'{"a": NaN}', {"a": None}),
    ],
)
def test_what_can_be_kept_is_kept_and_can_be_stored(text: str | bytes, expected: Any) -> None:
    assert read_json(text) == expected
    assert orjson.loads(orjson.dumps(read_json(text))) == expected


@pytest.mark.parametrize("text", ["", "{", '{"a": 1,}', "<html>", b"\xff\xfe", '{"a": 1} {"b": 2}', "[" * 100_000])
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text)


def test_hostile_texts_are_refused_or_read_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.process_time()
    assert read_json("[NaN," + ",".join(["1" * 900] * 2_000) + "]")[0] is None
    assert read_json('["' + r"\ud83d" * 300_000 + '"]') == ["\ufffd" * 300_000]
    with pytest.raises(ValueError):
        read_json('{"a":' * 200_000)
    assert time.process_time() - began < 5
    monkeypatch.setattr(json_text, "MAX_FORGIVEN_CHARS", 10)
    with pytest.raises(ValueError, match="too long"):
        read_json("[NaN, 1, 2, 3]")
