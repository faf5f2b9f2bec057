"""`shoal flower`: a real Flower on the same broker, behind a password, in which slices mean something."""

from __future__ import annotations

import base64
import importlib.util
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
from urllib.parse import urlencode

import pytest

from tests import servers
from tests.command import Shoal, end
from tests.conftest import lack
from tests.site.generated import LinkedSite
from tests.site.server import serve
from tests.waiting import wait_until

SOON = timedelta(seconds=60)
PAGES = 30
TABLE = {"draw": 1, "start": 0, "length": 50, "search[value]": "", "order[0][column]": 0, "columns[0][data]": "name"}


@pytest.fixture(autouse=True)
def _installed() -> None:
    if importlib.util.find_spec("flower") is None:
        lack("flower is not installed (pip install 'shoal[flower]')")


@contextmanager
def _flower(shoal: Shoal, *args: str) -> Generator[tuple[subprocess.Popen[str], dict[str, str]]]:
    process = shoal.start("flower", "--port", "0", "--json", *args)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield process, json.loads(line)
    finally:
        end(process)


def _ask(url: str, path: str, login: str = "") -> tuple[int, str]:
    request = urllib.request.Request(url + path)
    if login:
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, ""


def _tasks(url: str, login: str) -> list[dict[str, Any]]:
    status, text = _ask(url, f"/tasks/datatable?{urlencode(TABLE)}", login)
    assert status == 200
    return json.loads(text)["data"]


def test_flower_shows_slices_with_their_queue_and_what_they_did(shoal: Shoal) -> None:
    with serve(LinkedSite(pages=PAGES, links=10, size=500)) as site, _flower(shoal) as (process, told):
        login = f"{told['user']}:{told['password']}"
        done = shoal.run("crawl", site.url, "--rate", "unlimited", "--no-robots", "--quiet", "--lane", "high")
        assert done.code == 0, done.err

        def counted() -> int:
            ended = [task for task in _tasks(told["url"], login) if task["state"] == "SUCCESS"]
            assert {task["name"] for task in ended} <= {"slice http.high"}
            return sum(int(task["result"].split()[0]) for task in ended)

        wait_until(lambda: counted() == PAGES, within=SOON)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert err.count(told["password"]) == 1


def test_nobody_is_let_in_without_the_password(shoal: Shoal) -> None:
    with _flower(shoal) as (_, told):
        assert told["url"].startswith("http://127.0.0.1:")
        assert len(told["password"]) >= 20
        for path in ("/", "/tasks", "/broker", "/api/tasks", "/api/workers"):
            answers = [_ask(told["url"], path, login)[0] for login in ("", "shoal:wrong", f"shoal:{told['password']}")]
            assert answers == [401, 401, 200], path
        assert _ask(told["url"], "/metrics")[0] == 404


def test_an_address_that_is_not_of_this_machine_is_told_with_its_flag(shoal: Shoal) -> None:
    done = shoal.run("flower", "--host", "192.0.2.1", "--port", "0")
    assert done.code == 1
    assert "cannot listen on 192.0.2.1" in done.err
    assert "--host" in done.err


def test_it_ends_at_once_when_the_broker_has_gone(shoal: Shoal) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with servers.running_with(servers.valkey(), "--port", str(port)):
        running = _flower(Shoal(shoal.home, (("SHOAL_REDIS_URL", f"redis://127.0.0.1:{port}"),)))
        process, told = running.__enter__()
        assert _ask(told["url"], "/broker", f"{told['user']}:{told['password']}")[0] == 200
    try:
        login = f"{told['user']}:{told['password']}"
        assert _ask(told["url"], "/", login)[0] == 200
        _ask(told["url"], "/broker", login)  # which asks the broker, and begins to wait for it
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert process.returncode == 0
    finally:
        running.__exit__(None, None, None)


def test_a_password_that_is_set_is_not_shown(shoal: Shoal) -> None:
    secret = "three-blind-mice"
    known = Shoal(shoal.home, (("SHOAL_FLOWER_PASSWORD", secret), ("SHOAL_FLOWER_USER", "ops")))
    with _flower(known) as (process, told):
        assert (told["user"], told["password"]) == ("ops", None)
        assert _ask(told["url"], "/", f"ops:{secret}")[0] == 200
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
    assert secret not in out + err
    assert process.returncode == 0
