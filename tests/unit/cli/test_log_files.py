"""Log files are read together, from their ends, in constant memory, while they grow and are put aside."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from shoal.cli import log_files
from shoal.cli.log_files import Follower, Tally, all_lines, backwards, find_files, forwards, last_lines, opened
from shoal.cli.log_lines import LogLine, Wanted, for_people, for_programs, read_line
from shoal.errors import InputError

HOSTILE = "one\r\n\x1b]0;owned\x07\x1b[2J\u202e\x9b2J"


def _line(second: int, event: str = "page_cut", **fields: Any) -> str:
    at = f"2026-11-16T03:{second // 60:02d}:{second % 60:02d}.5Z"
    return json.dumps({"event": event, "level": "info", **fields, "timestamp": at})


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def _last(folder: Path, number: int, wanted: Wanted | None = None) -> tuple[list[LogLine], Tally]:
    tally = Tally()
    with opened(folder) as files:
        return last_lines(files.values(), wanted or Wanted(), number, tally), tally


def _seconds(lines: Iterable[LogLine]) -> list[int]:
    return [60 * int(line.at[14:16]) + int(line.at[17:19]) for line in lines]


def test_the_last_lines_of_all_files_come_in_the_order_of_time(tmp_path: Path) -> None:
    _write(tmp_path / "api.log", [_line(second) for second in range(0, 100, 2)])
    _write(tmp_path / "worker.log.1", [_line(second) for second in range(1, 50, 2)])
    _write(tmp_path / "worker.log", [_line(second) for second in range(51, 100, 2)])
    (tmp_path / "notes.txt").write_text(_line(500) + "\n")
    lines, tally = _last(tmp_path, 60)
    assert _seconds(lines) == list(range(40, 100))
    assert tally == Tally(broken=0)
    with opened(tmp_path) as files:
        assert _seconds(all_lines(files.values(), Wanted(), Tally())) == list(range(100))


def test_lines_of_several_processes_in_one_file_come_in_the_order_of_time(tmp_path: Path) -> None:
    seconds = [second ^ 7 for second in range(800)]
    _write(tmp_path / "worker.log", [_line(second) for second in seconds])
    assert _seconds(_last(tmp_path, 300)[0]) == list(range(500, 800))
    with opened(tmp_path) as files:
        assert _seconds(all_lines(files.values(), Wanted(), Tally())) == list(range(800))


def test_what_is_no_line_is_passed_over_and_counted(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    broken = [
        '{"half": ',
        "Traceback (most recent call last):",
        "[1]",
        '{"event": "x"}',
        f'{{"a": {deep}}}',
        "\x00\xff",
    ]
    (tmp_path / "worker.log").write_text("\n".join([_line(1), *broken, "", _line(2)]) + "\n" + _line(3))
    lines, tally = _last(tmp_path, 100)
    assert _seconds(lines) == [1, 2]  # the third is not whole yet
    assert tally.broken == len(broken)


@pytest.mark.parametrize("block", [1, 7, 64, 65_536])
def test_lines_are_the_same_whatever_a_block_holds(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "BLOCK", block)
    monkeypatch.setattr(log_files, "LONGEST_LINE", 100)
    texts = ["a", "", "b" * 100, "c" * 400, "d", "e" * 99, "f" * 1000]
    for tail in ([], ["last"], ["", ""]):
        content = [*texts, *tail]
        (tmp_path / "x.log").write_text("\n".join(content) + "\nhalf")
        with opened(tmp_path) as files:
            (file,) = files.values()
            assert file.end == len("\n".join(content)) + 1
            expected = [None if len(text) > 100 else text.encode() for text in content]
            there, back = list(forwards(file)), list(backwards(file))
        # In one large block nobody has to cut a line that is too long.
        assert [text if text is None or len(text) <= 100 else None for text in there] == expected
        assert [text if text is None or len(text) <= 100 else None for text in reversed(back)] == expected


def test_large_files_and_endless_lines_take_little_memory(tmp_path: Path) -> None:
    with (tmp_path / "worker.log").open("wb") as file:
        file.write(f"{_line(1)}\n".encode())
        for _ in range(30):
            file.write(b"x" * 1_000_000)
        file.write(b"\n")
        chunk = f"{_line(2, job='b', text='y' * 500)}\n".encode() * 1_000
        for _ in range(20):
            file.write(chunk)
    tracemalloc.start()
    try:
        lines, tally = _last(tmp_path, 10, Wanted(event="page_cut", since="2026-11-16T03:00:01"))
        rare, rare_tally = _last(tmp_path, 10, Wanted(job="a"))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (_seconds(lines), tally.broken) == ([2] * 10, 0)
    assert (rare, rare_tally.broken) == ([], 1)
    assert most < 8_000_000


def test_who_asks_for_the_last_minutes_reads_no_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "worker.log"
    _write(log, (_line(second // 100) for second in range(100_000)))
    _write(log, (_line(2_000 + second) for second in range(10)))
    sizes: list[int] = []
    pread = os.pread

    def counting(descriptor: int, size: int, at: int) -> bytes:
        sizes.append(size)
        return pread(descriptor, size, at)

    monkeypatch.setattr(os, "pread", counting)
    assert _last(tmp_path, 10, Wanted(since="2026-11-16T03:33:20", event="nothing"))[0] == []
    assert sum(sizes) < 4 * log_files.BLOCK < log.stat().st_size / 10
    assert _seconds(_last(tmp_path, 100, Wanted(since="2026-11-16T03:33:25"))[0]) == list(range(2_005, 2_010))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Wanted(job="nyup5fuweh"), [1, 2]),
        (Wanted(job="nyup"), [1, 2]),
        (Wanted(request_id="nightly-42"), [1]),
        (Wanted(event="page_cut"), [0, 1, 4]),
        (Wanted(host="books.example"), [1, 2]),
        (Wanted(host="books.example:8080"), [2]),
        (Wanted(level="warning"), [2, 3]),
        (Wanted(level="error"), [3]),
        (Wanted(job="nyup", level="warning"), [2]),
        (Wanted(request_id="grün"), [3]),
        (Wanted(since="2026-11-16T03:00:03"), [3, 4]),
        (Wanted(job="other"), []),
        (Wanted(slice="da688126"), [0, 2]),
        (Wanted(slice="da688126-4e07"), [2]),
        (Wanted(worker="crawler-1"), [0]),
        (Wanted(worker="crawler-1:4712"), []),
    ],
)
def test_lines_are_chosen_by_their_fields(tmp_path: Path, wanted: Wanted, found: list[int]) -> None:
    lines = [
        _line(0, slice="da688126", worker="crawler-1:4711"),
        _line(1, job="nyup5fuweh", request_id="nightly-42", host="books.example"),
        _line(2, "page_unread", job="nyup5fuweh", host="books.example:8080", level="warning", task_id="da688126-4e07"),
        _line(3, "visit_failed", request_id="grün", level="error", text="nyup5fuweh"),
        _line(4, "lines_left_out", of="page_cut", count=7),
    ]
    _write(tmp_path / "worker.log", lines)
    assert _seconds(_last(tmp_path, 10, wanted)[0]) == found
    with opened(tmp_path) as files:
        assert _seconds(all_lines(files.values(), wanted, Tally())) == found


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match="debug, info, warning, error"):
        Wanted(level="loud")


def test_files_are_followed_while_they_grow_come_and_are_put_aside(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    _write(log, [_line(0)])
    tally = Tally()
    with opened(tmp_path) as files:
        assert _seconds(last_lines(files.values(), Wanted(), 10, tally)) == [0]
        follower = Follower(tmp_path, files, Wanted(), tally)
        assert follower.look() == []
        _write(log, [_line(3)])
        _write(tmp_path / "api.log", [_line(2), "no line"])
        assert _seconds(follower.look()) == [2, 3]
        with log.open("a") as file:
            file.write(_line(4)[:20])
            file.flush()
            assert follower.look() == []
            file.write(_line(4)[20:] + "\n")
        assert _seconds(follower.look()) == [4]
        _write(log, [_line(5)])
        log.rename(tmp_path / "worker.log.1")
        _write(log, [_line(6)])
        assert _seconds(follower.look()) == [5, 6]
        _write(tmp_path / "worker.log.1", [_line(7)])
        (tmp_path / "api.log").write_text(_line(8) + "\n")  # somebody has emptied it
        assert _seconds(follower.look()) == [7, 8]
        (tmp_path / "worker.log.1").unlink()
        assert follower.look() == []
    assert tally.broken == 1


def _put_aside(log: Path) -> None:
    """As its writers do it: the oldest name comes to be, or is taken over, and the log begins anew."""
    for age in (2, 1):
        if (older := log.with_name(f"{log.name}.{age}")).exists():
            older.replace(log.with_name(f"{log.name}.{age + 1}"))
    log.replace(log.with_name(f"{log.name}.1"))
    log.touch()


def _list_then_put_aside(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next time that files are listed, they get other names right after that."""
    lists = log_files.find_files

    def once(folder: Path) -> list[Path]:
        monkeypatch.setattr(log_files, "find_files", lists)
        found = lists(folder)
        _put_aside(log)
        return found

    monkeypatch.setattr(log_files, "find_files", once)


def test_files_put_aside_while_they_are_listed_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "worker.log"
    for number, name in enumerate(("worker.log.2", "worker.log.1", "worker.log")):
        _write(tmp_path / name, [_line(number)])
    with opened(tmp_path) as files:
        follower = Follower(tmp_path, files, Wanted(), Tally())
        _list_then_put_aside(log, monkeypatch)
        assert follower.look() == []
        _write(log, [_line(3)])
        assert _seconds(follower.look()) == [3]
        (tmp_path / "worker.log.3").unlink()
        follower.look()
        assert len(files) == 3  # what is gone is closed


def test_no_file_is_missed_that_is_put_aside_while_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, name in enumerate(("worker.log.2", "worker.log.1", "worker.log")):
        _write(tmp_path / name, [_line(number)])
    _list_then_put_aside(tmp_path / "worker.log", monkeypatch)
    lines, _ = _last(tmp_path, 10)
    assert _seconds(lines) == [0, 1, 2]


def test_what_is_no_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "folder.log").mkdir()
    os.mkfifo(tmp_path / "pipe.log")
    _write(tmp_path / "worker.log", [_line(1)])
    lines, tally = _last(tmp_path, 10)
    assert (_seconds(lines), tally.broken) == ([1], 0)


def test_an_endless_line_does_not_stop_who_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "BYTES_AT_ONCE", 1_000)
    monkeypatch.setattr(log_files, "LONGEST_LINE", 500)
    tally = Tally()
    with opened(tmp_path) as files:
        follower = Follower(tmp_path, files, Wanted(), tally)
        (tmp_path / "worker.log").write_text("x" * 5_000 + "\n" + _line(1) + "\n")
        looks = [_seconds(follower.look()) for _ in range(8)]
    assert [look for look in looks if look] == [[1]]
    assert tally.broken == 1


def test_only_so_many_files_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MOST_FILES", 3)
    for number in range(10):
        _write(tmp_path / f"worker-{number}.log", [_line(number)])
    assert len(find_files(tmp_path)) == 3


def test_hostile_fields_cannot_drive_a_terminal() -> None:
    fields = {"url": HOSTILE, HOSTILE: HOSTILE, "level": HOSTILE, "list": [HOSTILE], "exception": f"a\n{HOSTILE}"}
    line = read_line(json.dumps({"event": HOSTILE, **fields, "timestamp": HOSTILE}, ensure_ascii=False).encode())
    assert line is not None
    for text in (for_people(line), for_programs(line)):
        assert all(char.isprintable() or char == "\n" for char in text)
    assert "\n" not in for_programs(line)
    assert [row.startswith("    ") for row in for_people(line).split("\n")] == [False, *[True] * 3]
    assert "\x1b[2J" not in for_people(line, colours=True)


def test_a_line_for_people_says_first_what_it_is_about() -> None:
    line = read_line(
        _line(
            1, spider="books", url="http://h/?a=b", worker="w:1", job="nyup5fuweh", error="no price", empty=None
        ).encode()
    )
    assert line is not None
    assert for_people(line) == (
        "2026-11-16 03:00:01.5 info    page_cut job=nyup5fuweh "
        'url="http://h/?a=b" error="no price" spider=books worker=w:1'
    )
