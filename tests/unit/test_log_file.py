"""Log files have an end: full ones are put aside, by any of the processes that write, and no line is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from shoal.log_file import KEPT, KEPT_COMMANDS, put_aside, sweep

WRITER = """
import sys
from shoal.observe import set_up_served_logs
from shoal.settings import Settings
import structlog
set_up_served_logs(Settings(log_file=sys.argv[1], log_megabytes=0.05, log_lines=0), "info")
log = structlog.get_logger()
for number in range(int(sys.argv[3])):
    log.info("counted", who=sys.argv[2], number=number)
sys.stderr.write("raw\\n")  # at once: others write, too
"""


def _write(path: Path, who: str, lines: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), who, str(lines)], stderr=subprocess.PIPE)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_file_that_several_processes_write_to_never_grows_beyond_its_bounds(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    writers = [_write(path, str(number), 2_000) for number in range(3)]
    for writer in writers:
        _, err = writer.communicate(timeout=60)
        assert (writer.returncode, err) == (0, b"")
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == ["worker.log", *(f"worker.log.{age}" for age in range(1, KEPT + 1))]
    assert _size(tmp_path) < (KEPT + 1) * 70_000
    text = b"".join(file.read_bytes() for file in tmp_path.iterdir()).decode()
    assert all(line == "raw" or json.loads(line)["event"] == "counted" for line in text.splitlines())


def test_no_line_is_lost_when_a_file_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    writers = [_write(path, str(number), 300) for number in range(4)]  # three and a bit files
    for writer in writers:
        writer.communicate(timeout=60)
    found = [json.loads(line) for file in tmp_path.iterdir() for line in file.read_text().splitlines() if line != "raw"]
    assert len(list(tmp_path.iterdir())) > 1
    assert sorted((line["who"], line["number"]) for line in found) == sorted(
        (str(who), number) for who in range(4) for number in range(300)
    )


def test_a_file_that_is_not_full_stays(tmp_path: Path) -> None:
    path = tmp_path / "worker.log"
    path.write_text("line\n")
    put_aside(path, 100)
    assert path.read_text() == "line\n"
    put_aside(path, 4)
    assert (tmp_path / "worker.log.1").read_text() == "line\n"


def test_a_log_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    writer = _write(tmp_path / "nowhere" / "worker.log", "0", 1)
    _, err = writer.communicate(timeout=60)
    assert writer.returncode == 1
    assert b"SHOAL_LOG_FILE" in err
    assert b"No such file or directory" in err


def test_logs_of_commands_that_have_ended_go_but_for_the_youngest(tmp_path: Path) -> None:
    gone = [tmp_path / f"worker-{2**22 + number}.log" for number in range(KEPT_COMMANDS + 5)]
    for age, path in enumerate(gone):
        path.write_text("line\n")
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    aside = tmp_path / f"{gone[-1].name}.1"
    stay = [tmp_path / name for name in ("worker.log", "api.log", f"worker-{os.getpid()}.log", "worker-two.log")]
    for path in (aside, *stay):
        path.write_text("line\n")
        os.utime(path, (1, 1))
    sweep(tmp_path)
    assert set(tmp_path.iterdir()) == {*gone[:KEPT_COMMANDS], *stay}
