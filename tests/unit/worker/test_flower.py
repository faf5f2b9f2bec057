"""Flower's password, and tasks in words."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from shoal.errors import InputError
from shoal.settings import Settings
from shoal.worker.app import PARTS_TASK, SLICE_TASK
from shoal.worker.flower import Flower, door_of, named
from shoal.worker.kit import SliceReport


def test_a_password_is_made_up_anew_where_none_is_set() -> None:
    first, second = door_of(Settings()), door_of(Settings())
    assert first.generated
    assert len(first.password) >= 20
    assert first.password != second.password


def test_a_password_that_is_set_is_taken_and_shown_by_no_settings() -> None:
    settings = Settings(flower_user="ops", flower_password="three-blind-mice")
    door = door_of(settings)
    assert (door.user, door.password, door.generated) == ("ops", "three-blind-mice", False)
    assert "three-blind-mice" not in repr(settings)


@pytest.mark.parametrize("user", ["", "a:b", "é", " "])
def test_a_name_that_basic_authentication_cannot_carry_is_refused(user: str) -> None:
    with pytest.raises(InputError, match="SHOAL_FLOWER_USER"):
        door_of(Settings(flower_user=user))


@pytest.mark.parametrize("password", ["sésame", "  ", "two\nlines"])
def test_a_password_with_which_nobody_could_log_in_is_refused(password: str) -> None:
    with pytest.raises(InputError, match="SHOAL_FLOWER_PASSWORD") as told:
        door_of(Settings(flower_password=password))
    assert password not in str(told.value)


def test_without_flower_its_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "flower.app", None)
    settings = Settings(home=tmp_path, redis_url="redis://127.0.0.1:1")
    with pytest.raises(InputError, match=r"pip install 'shoal\[flower\]'"):
        Flower(settings, door_of(settings), control=False)


@pytest.mark.parametrize(
    ("name", "args", "shown"),
    [
        (SLICE_TASK, "['http.batch']", "slice http.batch"),
        (PARTS_TASK, "['browser.slow']", "parts browser.slow"),
        (SLICE_TASK, None, "slice"),
        ("somebody.elses", "['http.batch']", "somebody.elses"),
    ],
)
def test_tasks_are_called_by_what_they_do(name: str, args: str | None, shown: str) -> None:
    task = SimpleNamespace(name=name, args=args, result="'12 pages'")
    assert (named(task).name, task.result) == (shown, "12 pages")


def test_a_slice_says_what_it_did() -> None:
    assert SliceReport().told == "0 pages"
    assert SliceReport(12, 1, 3, work_remains=True).told == "12 pages, 1 late, 3 given back, more to do"
