"""The code in the documentation, run against the sample site.

A block counts when `<!-- run -->` stands before its fence. `https://books.example/` becomes the site's address and
`k3x9` the id of a job that was crawled before. A block of YAML or text whose first line is `# name.ext` is a file that
commands find in their folder.

`<!-- run beside shoal up -->` marks what talks to the API. `http://127.0.0.1:8000` becomes the address of a `shoal up`;
`$api` is that of its API, `$job` the id of a job that has just finished, anew for each block. An answer above 399 fails
the block, as does whatever fails in a pipeline.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.cli.jobfile import SCHEDULE
from shoal.core.spec import read_spec
from shoal.schedules.book import read_timing
from tests.command import Done, Shoal, a_home, end
from tests.conftest import lack
from tests.documents import RUN, RUN_BESIDE_UP, Block, marked_blocks
from tests.forks import forks_in
from tests.site.bookshop import Bookshop
from tests.site.server import Server, serve
from tests.waiting import wait_until

SITE, JOB, API = "https://books.example/", "k3x9", "http://127.0.0.1:8000"
SECONDS = 60.0
INSTALLED = Path(sys.executable).parent
# The twins of flags that keep the examples quick. One worker for all of them is quicker than one for each.
QUICK = {"SHOAL_RATE": "unlimited", "SHOAL_RETRIES": "0", "SHOAL_WORKERS": "0"}
FIELDS = ("--field", "title=h1", "--field", "price=.price", "--field", "tags[]=.tag")

CURLRC = 'fail-with-body\nshow-error\nmax-time = 50\nnoproxy = "*"\n'

_NO_TEXTS = (".parquet", ".sqlite")
_TITLE = re.compile(r"# (\S+\.\w+)\n")
_WRITTEN = re.compile(r"(?:-o|>) ([\w.-]+\.\w+)")


def _is_written(path: Path) -> bool:
    """Is there something in it, and is that valid UTF-8, unless the format is no text?"""
    return bool(path.read_bytes() if path.suffix in _NO_TEXTS else path.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who follows the documentation: a home, a worker, a finished job, a folder with the files shown."""

    shoal: Shoal
    site: Server
    folder: Path
    programs: Path
    """In which a shell finds `shoal`, before it looks where it is installed."""
    job: str = JOB
    address: str = API

    def run(self, command: Sequence[str], variables: Mapping[str, str] | None = None) -> Done:
        """A command in the reader's folder."""
        path = os.pathsep.join((str(self.programs), str(INSTALLED), os.environ["PATH"]))
        environment = {**self.shoal.environment, **QUICK, "PATH": path, **(variables or {})}
        ended = subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        return Done(ended.returncode, ended.stdout, ended.stderr)

    def here(self, text: str) -> str:
        """The text for this site and this job."""
        return text.replace(SITE, self.site.url).replace(JOB, self.job).replace(API, self.address)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Generator[Reader]:
    """One home and one worker for all examples."""
    folder, programs = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("bin")
    with (
        forks_in(programs, SECONDS),
        a_home(folder) as shoal,
        serve(Bookshop(slow_seconds=0.2)) as site,
        shoal.running("worker", "--log-level", "error"),
    ):
        reader = Reader(shoal, site, folder, programs)
        _write_files(reader)
        done = reader.run(["shoal", "crawl", site.url, "--pages", "60", *FIELDS, "--json", "--quiet"])
        assert done.code == 0, done.err
        yield replace(reader, job=done.json["job"])


def _write_files(reader: Reader) -> None:
    for block in [*marked_blocks("yaml"), *marked_blocks("text")]:
        if title := _TITLE.match(block.text):
            (reader.folder / title[1]).write_text(reader.here(block.text), encoding="utf-8")


def _each(language: str, mark: str = RUN) -> Any:
    found = marked_blocks(language, mark)
    assert found, f"no block of {language} has the mark {mark}"
    in_folders = {block.place for block in found if "archive_path" in block.text}  # and not in an object store
    blocks = [pytest.param(block, marks=[pytest.mark.embedded] * (block.place in in_folders)) for block in found]
    return pytest.mark.parametrize("block", blocks, ids=[block.place for block in found])


@_each("sh")
def test_commands_do_what_the_text_says(block: Block, reader: Reader) -> None:
    assert all(line.startswith(("shoal ", "  ")) for line in block.text.splitlines())
    done = reader.run(["sh", "-ec", reader.here(block.text)])
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    for name in _WRITTEN.findall(block.text):
        assert _is_written(reader.folder / name), f"{name} is empty"


@_each("yaml")
def test_job_files_are_valid(block: Block) -> None:
    values = yaml.safe_load(block.text)
    timing = values.pop(SCHEDULE, None)
    spec = read_spec(values, block.place)
    assert spec.urls
    assert timing is None or read_timing(timing).cron


def test_a_job_file_is_crawled_by_workers_of_its_own(reader: Reader) -> None:
    """As README says, apart from the rate; by the command as it is installed."""
    done = reader.run(
        [str(INSTALLED / "shoal"), "crawl", "-j", "job.yaml", "--workers", "1", "-o", "fresh.jsonl", "--json"]
    )
    assert done.code == 0, done.err
    assert done.json["pages"] == 40
    assert len((reader.folder / "fresh.jsonl").read_text(encoding="utf-8").splitlines()) == 40


@_each("python")
def test_programs_run_next_to_a_worker(block: Block, reader: Reader) -> None:
    done = reader.run([sys.executable, "-c", reader.here(block.text)])
    assert done.code == 0, done.err
    assert reader.site.url in done.out


# --- the API --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Generator[Reader]:
    """Somebody with curl and a `shoal up` on a home without keys."""
    if not shutil.which("curl"):
        lack("curl is not on the PATH")
    folder = tmp_path_factory.mktemp("api")
    (folder / ".curlrc").write_text(CURLRC, encoding="utf-8")
    with a_home(folder) as shoal, serve(Bookshop(slow_seconds=0.2)) as site, _up(shoal) as address:
        yield Reader(shoal, site, folder, INSTALLED, address=address)


@contextmanager
def _up(shoal: Shoal) -> Generator[str]:
    """`shoal up` on a free port, from the moment when it is ready; ended for certain."""
    process = shoal.start("up", "--port", "0", "--workers", "1", "--json")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()  # it ends by itself when its API does not answer
        assert line, process.communicate()[1]
        yield json.loads(line)["url"]
    finally:
        end(process)


@pytest.fixture
def with_job(caller: Reader) -> Reader:
    """The caller with a new job that has finished, some of its requests given up."""
    fields = {"title": "h1"}
    spec = {"urls": [f"{caller.site.url}corners"], "depth": 1, "rate": "unlimited", "retries": 0, "fields": fields}
    job = _ask(f"{caller.address}/api/v1/jobs", spec)["id"]
    shown = f"{caller.address}/api/v1/jobs/{job}"
    wait_until(lambda: _ask(shown)["state"] == "finished", within=timedelta(seconds=SECONDS))
    return replace(caller, job=job)


def _ask(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=SECONDS) as answer:
        return json.loads(answer.read())


@_each("sh", RUN_BESIDE_UP)
def test_calls_of_the_api_do_what_the_text_says(block: Block, with_job: Reader) -> None:
    variables = {"api": f"{with_job.address}/api/v1", "job": with_job.job, "CURL_HOME": str(with_job.folder)}
    done = with_job.run(["bash", "-euo", "pipefail", "-c", with_job.here(block.text)], variables)
    assert done.code == 0, done.out + done.err
    assert "/events" not in block.text or "event: ended" in done.out
    for name in _WRITTEN.findall(block.text):
        assert _is_written(with_job.folder / name), f"{name} is empty"


@_each("python", RUN_BESIDE_UP)
def test_programs_talk_to_the_api(block: Block, caller: Reader) -> None:
    done = caller.run([sys.executable, "-c", caller.here(block.text)], {"no_proxy": "*"})
    assert done.code == 0, done.err
    assert caller.site.url in done.out
