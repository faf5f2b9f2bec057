"""A real S3 API on this machine: moto's server in a process of its own, gone with the test run."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any, cast
from urllib.error import HTTPError, URLError

import obstore
from obstore.store import S3Store

from shoal.guardian import die_with_parent
from tests.waiting import wait_until

STARTS_WITHIN = timedelta(seconds=30)
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class S3:
    """A running server."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What leads tools there."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
        }

    def new_bucket(self) -> str:
        name = f"bucket-{next(_numbers)}"
        self.ask("PUT", name)
        return name

    def get(self, bucket: str, key: str) -> bytes:
        """An object; raises FileNotFoundError."""
        return bytes(obstore.get(self._store(bucket), key).bytes())

    def keys(self, bucket: str) -> list[str]:
        return sorted(found["path"] for page in cast(Any, obstore).list(self._store(bucket)) for found in page)

    def ask(self, method: str, path: str) -> None:
        request = urllib.request.Request(f"{self.url}/{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            answer.read()

    def _store(self, bucket: str) -> S3Store:
        options: Any = {"endpoint": self.url, "access_key_id": "testing", "region": "us-east-1"}
        return S3Store(bucket, secret_access_key="testing", client_options={"allow_http": True}, **options)


@contextmanager
def running_s3(port: int = 0) -> Generator[S3]:
    """On this port, or a free one."""
    port = port or free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent
    )
    server = S3(f"http://127.0.0.1:{port}")
    try:
        wait_until(lambda: _answers(server), within=STARTS_WITHIN)
        yield server
    finally:
        process.terminate()
        process.wait(10)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _answers(server: S3) -> bool:
    try:
        server.ask("GET", "")
    except HTTPError:
        return True
    except (URLError, OSError):
        return False
    return True
