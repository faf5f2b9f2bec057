"""The API's server: what never reaches the application is answered like all else, and nobody can hold it up."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.command import Shoal, a_home, end

START_S = 30.0


@contextmanager
def running_api(shoal: Shoal, *args: str) -> Generator[tuple[subprocess.Popen[str], int]]:
    """`shoal api` on a free port, from the moment when it is ready."""
    process = shoal.start("api", "--port", "0", *args)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = re.fullmatch(r"api: http://127\.0\.0\.1:(\d+)/api/v1  docs: http://127\.0\.0\.1:\1/openapi/\n", line)
        assert address, line + process.communicate()[1]
        yield process, int(address[1])
    finally:
        end(process)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Generator[int]:
    """One API for all tests that only talk to it."""
    with a_home(tmp_path_factory.mktemp("api")) as shoal, running_api(shoal) as (_, number):
        yield number


def send(port: int, data: bytes, *, hang_up: bool = False) -> tuple[int, dict[str, str], bytes]:
    """Bytes as they are; (status, headers, body) of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(data)
        if hang_up:
            client.shutdown(socket.SHUT_WR)
        answer = b""
        while block := client.recv(65536):
            answer += block
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, body


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers, "", ""]).encode()


def _check_problem(status: int, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    assert headers["content-type"] == "application/problem+json"
    problem = json.loads(body)
    assert problem["type"] == "about:blank"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    return problem


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"GARBAGE\r\n\r\n", 400, id="no request line"),
        pytest.param(b"get /healthz HTTP/1.1\r\nHost: test\r\n\r\n", 400, id="method"),
        pytest.param(b"GET /healthz HTTP/9.9\r\nHost: test\r\n\r\n", 400, id="version"),
        pytest.param(get("/healthz", "no colon"), 400, id="header"),
        pytest.param(get("/" + "a" * 9_000), 414, id="long line"),
        pytest.param(get("/healthz", *(f"X-{n}: 1" for n in range(150))), 431, id="many headers"),
        pytest.param(get("/healthz", "X: " + "y" * 20_000), 431, id="large header"),
        pytest.param(get("/healthz", "Expect: magic"), 417, id="expectation"),
        pytest.param(get("/api/v1/jobs", "Transfer-Encoding: bogus", method="POST"), 501, id="coding"),
    ],
)
def test_what_is_not_http_is_answered_with_a_problem(port: int, data: bytes, expected: int) -> None:
    status, headers, body = send(port, data)
    assert status == expected
    _check_problem(status, headers, body)


def test_a_body_that_ends_too_early_is_the_clients_fault(port: int) -> None:
    request = get("/api/v1/jobs", "Content-Type: application/json", "Content-Length: 100", method="POST")
    status, headers, body = send(port, request + b'{"urls":', hang_up=True)
    assert status == 400
    _check_problem(status, headers, body)


def test_a_body_in_bad_chunks_is_the_clients_fault(port: int) -> None:
    request = get("/api/v1/jobs", "Content-Type: application/json", "Transfer-Encoding: chunked", method="POST")
    status, headers, body = send(port, request + b"nonsense\r\n\r\n")
    assert status == 400
    _check_problem(status, headers, body)


def test_who_does_not_hang_up_holds_up_nobody(port: int) -> None:
    clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(10)]
    try:
        for client in clients:
            client.sendall(b"GARBAGE\r\n\r\n")
        for client in clients:
            assert client.recv(12) == b"HTTP/1.1 400"
        started = time.monotonic()
        for _ in range(10):
            assert send(port, get("/healthz"))[0] == 200
        assert time.monotonic() - started < 1.5
    finally:
        for client in clients:
            client.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_told_however_idle_its_clients_are(shoal: Shoal, number: signal.Signals) -> None:
    with (
        running_api(shoal) as (process, port),
        socket.create_connection(("127.0.0.1", port)) as silent,
        socket.create_connection(("127.0.0.1", port)) as kept,
    ):
        kept.sendall(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n")
        assert kept.recv(12) == b"HTTP/1.1 200"
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
        assert silent.recv(1) == b""
    assert process.returncode == 0
    assert all(json.loads(line)["event"] == "request" for line in err.splitlines())


def test_several_processes_add_up_their_metrics_and_leave_no_folder(shoal: Shoal) -> None:
    with running_api(shoal, "--workers", "2") as (_, port):
        for _ in range(40):
            assert send(port, get("/healthz"))[0] == 200
        status, _, body = send(port, get("/metrics"))
        assert status == 200
        counted = [line for line in body.decode().splitlines() if "/healthz" in line and "_count" in line]
        assert sum(float(line.rsplit(" ", 1)[1]) for line in counted) == 40
        assert len(_metric_folders(shoal.home)) == 1
    assert _metric_folders(shoal.home) == []


def _metric_folders(home: Path) -> list[Path]:
    return list((home / "run").glob("metrics-*"))


def test_fifty_clients_that_dawdle_hold_up_nobody(port: int) -> None:
    """Half of them send their headers bit by bit, the others their bodies."""
    head = b"GET /healthz HTTP/1.1\r\nHost: test\r\nX-Slow: "
    body = (
        get("/api/v1/jobs", "Content-Type: application/json", "Content-Length: 1000000", method="POST") + b'{"urls": ['
    )
    clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(50)]
    try:
        for number, client in enumerate(clients):
            client.sendall(body if number % 2 else head)
        for _ in range(5):
            for client in clients:
                client.sendall(b" ")
            assert send(port, get("/healthz"))[0] == 200
            assert send(port, get("/readyz"))[0] == 200
    finally:
        for client in clients:
            client.close()


def test_what_the_server_itself_refuses_has_a_request_id_too(port: int) -> None:
    _, headers, body = send(port, b"GARBAGE\r\n\r\n")
    assert headers["x-request-id"] == json.loads(body)["request_id"]
    assert headers["x-content-type-options"] == "nosniff"
    assert send(port, b"GARBAGE\r\n\r\n")[1]["x-request-id"] != headers["x-request-id"]
