"""`shoal up`: one command starts everything, keeps it running, and leaves nothing."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psutil
import pytest

from tests.command import Shoal, end, wait_for_nobody
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

SOON = timedelta(seconds=60)
PAGES = 60
REQUEST = "from-a-test"


def ask(url: str, body: dict[str, Any] | None = None, **headers: str) -> dict[str, Any]:
    """One request over HTTP, without any proxy."""
    data = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, data, sent), timeout=30) as answer:
        return json.loads(answer.read())


def is_healthy(url: str) -> bool:
    try:
        return ask(f"{url}/healthz")["status"] == "ok"
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def running_up(shoal: Shoal, *args: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """`shoal up` on a free port, from the moment when it says that it is ready; ended for certain."""
    process = shoal.start("up", "--port", "0", "--json", *args)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)["url"]
    finally:
        end(process)


def _processes(shoal: Shoal, module: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in shoal.processes():
        try:
            if module in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def test_a_job_submitted_over_http_is_done_and_ctrl_c_ends_everything(shoal: Shoal) -> None:
    spec = {"rate": "unlimited", "robots": False, "lane": "high"}
    with serve(LinkedSite(pages=PAGES, links=10, size=500)) as site, running_up(shoal, "--workers", "1") as (up, url):
        assert is_healthy(url)
        taken = ask(f"{url}/api/v1/jobs", {"urls": [site.url], **spec}, X_Request_ID=REQUEST)
        job = f"{url}/api/v1/jobs/{taken['id']}"
        wait_until(lambda: ask(job)["state"] == "finished", within=SOON)
        assert len({hit.target for hit in site.hits}) == PAGES
        wait_until(lambda: bool(_lines_of_request(shoal, "worker")), within=SOON)
        up.send_signal(signal.SIGINT)
        _, err = up.communicate(timeout=30)
    assert up.returncode == 0
    assert f"{url}/api/v1" in err
    assert f"{url}/openapi/" in err
    assert str(shoal.home / "logs") in err
    wait_for_nobody(shoal)
    assert _lines_of_request(shoal, "api")
    assert all(line["task_id"] for line in _lines_of_request(shoal, "worker"))
    assert _log(shoal, "control")


def _lines_of_request(shoal: Shoal, name: str) -> list[dict[str, Any]]:
    return [line for line in _log(shoal, name) if line.get("request_id") == REQUEST]


def _log(shoal: Shoal, name: str) -> list[dict[str, Any]]:
    """Every line of a child's log; each is JSON."""
    return [json.loads(line) for line in (shoal.home / "logs" / f"{name}.log").read_text().splitlines()]


def test_who_dies_is_started_again_in_the_same_place(shoal: Shoal) -> None:
    with running_up(shoal, "--workers", "1") as (up, url):
        masters = {process.pid for process in _processes(shoal, "shoal.api")}
        master = next(process for process in _processes(shoal, "shoal.api") if process.ppid() not in masters)
        master.kill()
        # Its child may answer for a moment longer: healthy is who was not there before.
        wait_until(lambda: any(p.pid not in masters for p in _processes(shoal, "shoal.api")), within=SOON)
        wait_until(lambda: is_healthy(url), within=SOON)
        up.send_signal(signal.SIGTERM)
        _, err = up.communicate(timeout=30)
    assert up.returncode == 0
    assert "the api was killed (SIGKILL); it starts again in 1 s" in err


def test_kill_9_leaves_nobody(shoal: Shoal) -> None:
    with running_up(shoal, "--workers", "1", "--api-workers", "2") as (up, url):
        assert is_healthy(url)
        up.kill()
        wait_for_nobody(shoal)


def test_a_second_ctrl_c_does_not_wait(shoal: Shoal) -> None:
    with running_up(shoal, "--workers", "1") as (up, _):
        (frozen, *_rest) = _processes(shoal, "shoal.worker")
        frozen.suspend()  # it will not stop by itself
        up.send_signal(signal.SIGINT)
        assert up.stderr is not None
        while "stopping" not in up.stderr.readline():
            assert up.poll() is None
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=10)
    assert up.returncode == 130
    wait_for_nobody(shoal)


@pytest.mark.parametrize("command", ["up", "api"])
def test_a_port_in_use_is_said_and_nothing_is_left_running(shoal: Shoal, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = shoal.run(command, "--port", port)
    assert done.code == 1
    assert f"port {port} on 127.0.0.1 is in use; choose another with --port" in done.err
    wait_for_nobody(shoal)


@pytest.mark.parametrize("command", ["up", "api"])
def test_nobody_listens_to_the_world_without_a_key(shoal: Shoal, command: str) -> None:
    done = shoal.run(command, "--host", "0.0.0.0", "--port", "0")
    assert done.code == 2
    assert "refuses to listen on 0.0.0.0 without an API key; make one with: shoal keys create" in done.err
    wait_for_nobody(shoal)


def test_with_a_key_the_world_may_come(shoal: Shoal) -> None:
    key = shoal.run("keys", "create", "--label", "test", "--scope", "submit,read,admin").out.strip()
    with running_up(shoal, "--workers", "0", "--host", "0.0.0.0") as (_, url):
        assert ask(f"{url}/api/v1/jobs", Authorization=f"Bearer {key}")["data"] == []
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(f"{url}/api/v1/jobs")
        refused.value.close()
        assert refused.value.code == 401


def test_it_says_at_once_that_it_starts(shoal: Shoal) -> None:
    with shoal.running("up", "--port", "0") as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "starting: Redis, the API and the workers …\n"
