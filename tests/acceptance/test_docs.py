"""The code in the documentation, run against the sample site.

A block counts when `<!-- run -->` stands before its fence. `https://books.example/` becomes the site's address and
`k3x9` the id of a job that was crawled before. A block of YAML or text whose first line is `# name.ext` is a file that
commands find in their folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.core.spec import read_spec
from tests.command import Done, Shoal, a_home
from tests.documents import Block, marked_blocks
from tests.site.bookshop import Bookshop
from tests.site.server import Server, serve

SITE, JOB = "https://books.example/", "k3x9"
SECONDS = 60.0
# The twins of flags that keep the examples quick. One worker for all of them is quicker than one for each.
QUICK = {"SHOAL_RATE": "unlimited", "SHOAL_RETRIES": "0", "SHOAL_WORKERS": "0"}
FIELDS = ("--field", "title=h1", "--field", "price=.price", "--field", "tags[]=.tag")

_TITLE = re.compile(r"# (\S+\.\w+)\n")
_WRITTEN = re.compile(r"(?:-o|>) ([\w.-]+\.\w+)")


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who follows the documentation: a home, a worker, a finished job, a folder with the files shown."""

    shoal: Shoal
    site: Server
    folder: Path
    job: str = JOB

    def run(self, command: Sequence[str]) -> Done:
        """A command in the reader's folder."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**self.shoal.environment, **QUICK, "PATH": path}
        ended = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def here(self, text: str) -> str:
        """The text for this site and this job."""
        return text.replace(SITE, self.site.url).replace(JOB, self.job)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Generator[Reader]:
    """One home and one worker for all examples."""
    folder = tmp_path_factory.mktemp("docs")
    with (
        a_home(folder) as shoal,
        serve(Bookshop(slow_seconds=0.2)) as site,
        shoal.running("worker", "--log-level", "error"),
    ):
        reader = Reader(shoal, site, folder)
        _write_files(reader)
        done = reader.run(["shoal", "crawl", site.url, "--pages", "60", *FIELDS, "--json", "--quiet"])
        assert done.code == 0, done.err
        yield Reader(shoal, site, folder, done.json["job"])


def _write_files(reader: Reader) -> None:
    for block in [*marked_blocks("yaml"), *marked_blocks("text")]:
        if title := _TITLE.match(block.text):
            (reader.folder / title[1]).write_text(reader.here(block.text), encoding="utf-8")


def _each(language: str) -> Any:
    found = marked_blocks(language)
    assert found, f"no block of {language} is marked"
    return pytest.mark.parametrize("block", found, ids=lambda block: block.place)


@_each("sh")
def test_commands_do_what_the_text_says(block: Block, reader: Reader) -> None:
    assert all(line.startswith(("shoal ", "  ")) for line in block.text.splitlines())
    done = reader.run(["sh", "-ec", reader.here(block.text)])
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    for name in _WRITTEN.findall(block.text):
        assert (reader.folder / name).read_text(encoding="utf-8"), f"{name} is empty"


@_each("yaml")
def test_job_files_are_valid(block: Block) -> None:
    spec = read_spec(yaml.safe_load(block.text), block.place)
    assert spec.urls


def test_a_job_file_is_crawled_by_workers_of_its_own(reader: Reader) -> None:
    """As README says, apart from the rate."""
    done = reader.run(["shoal", "crawl", "-j", "job.yaml", "--workers", "1", "-o", "fresh.jsonl", "--json"])
    assert done.code == 0, done.err
    assert done.json["pages"] == 40
    assert len((reader.folder / "fresh.jsonl").read_text(encoding="utf-8").splitlines()) == 40


@_each("python")
def test_programs_run_next_to_a_worker(block: Block, reader: Reader) -> None:
    done = reader.run([sys.executable, "-c", reader.here(block.text)])
    assert done.code == 0, done.err
    assert reader.site.url in done.out
