"""Names of files that come from strangers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.file_name import safe_name

HOSTILE = st.text(st.sampled_from("./\\:\x00 ~%é表\ud800\u202eaCONnul012-")) | st.text(st.characters(codec=None))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("größer 表.html", "größer 表.html"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("/etc/passwd", "_etc_passwd"),
        ("..\\windows", "_windows"),
        (".bashrc", "bashrc"),
        ("a\x00b\nc", "a_b_c"),
        ("CON", "_CON"),
        ("nul.txt", "_nul.txt"),
        ("com1 .html", "_com1 .html"),
        ("console", "console"),
        ("ends. .", "ends"),
        ("..", ""),
        ("", ""),
    ],
)
def test_a_name_is_made_harmless_and_stays_readable(text: str, name: str) -> None:
    assert safe_name(text) == name


@settings(max_examples=500)
@given(HOSTILE)
def test_a_name_stays_in_its_folder(text: str) -> None:
    name = safe_name(text) or "page"
    path = Path("/folder") / name
    assert (path.parent, path.name) == (Path("/folder"), name)
    assert name.isprintable()
    assert not name.startswith(".")
    assert len(name.encode()) <= 200


def test_a_long_name_is_cut_between_characters() -> None:
    assert safe_name("表" * 500) == "表" * 50
    assert safe_name("a" + "é" * 500) == "a" + "é" * 74
