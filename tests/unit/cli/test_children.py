"""A command's children: their logs, and when they are started again."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from shoal.cli import children
from shoal.cli.children import Child, Post, how_it_ended
from shoal.restarts import STEADY_S


def _child(log: Path) -> Child:
    return Child("shoal.nothing", log, log.parent, {}, grace_s=0)


def _run(child: Child) -> None:
    child.start()
    child.wait()


def test_what_a_child_has_written_is_told_from_what_was_there(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("before\n")
    child = _child(log)
    _run(child)
    assert child.code == 1
    assert "before" not in child.written()
    assert "No module named shoal.nothing" in child.written()
    assert child.tail().startswith("  | ")


def test_what_a_child_has_written_is_found_although_its_log_was_put_aside(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("before\n" * 1000)
    child = _child(log)
    _run(child)
    log.rename(tmp_path / "worker.log.1")
    log.write_text("new\n")
    assert child.written() == "new\n"


class Dead:
    """A child that never lives."""

    def __init__(self) -> None:
        self.starts = 0
        self.code = 1
        self.log = Path("a.log")

    def start(self) -> None:
        self.starts += 1


def test_the_pause_before_a_restart_grows_and_is_forgotten_after_a_steady_life(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(children.time, "monotonic", lambda: now)
    dead = Dead()
    post = Post("api", cast(Child, dead))
    post.start()
    pauses: list[float] = []
    for _ in range(8):
        post.tend()
        assert post.due is not None
        pauses.append(post.due - now)
        starts = dead.starts
        now = post.due - 0.1
        post.tend()
        assert dead.starts == starts
        now = post.due
        post.tend()
        assert dead.starts == starts + 1
    assert pauses == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30])
    assert capsys.readouterr().err.startswith("the api ended with code 1; it starts again in 1 s (a.log)\n")
    now += STEADY_S
    post.tend()
    assert post.due == pytest.approx(now + 1)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with code 0"),
        (1, "ended with code 1"),
        (-9, "was killed (SIGKILL)"),
        (-15, "was killed (SIGTERM)"),
        (-99, "was killed (signal 99)"),
    ],
)
def test_an_exit_code_is_told_in_words(code: int, words: str) -> None:
    assert how_it_ended(code) == words
