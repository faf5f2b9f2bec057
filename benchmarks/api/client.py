"""A client of the API as cheap as Python has it: one connection, kept alive."""

import http.client
import json
import select
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from benchmarks.api.stage import BenchError

PREFIX = "/api/v1"
JSON = "application/json"
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, and how long that took: from the first byte sent to the last one read."""

    status: int
    seconds: float
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


class Client:
    """One connection to the API on a port of this machine."""

    def __init__(self, port: int, *, patience_s: float = PATIENCE_S) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str, *, expect: int = 200) -> Answer:
        return self._expect(expect, "GET", path)

    def post(self, path: str, body: bytes | Mapping[str, Any], *, expect: int = 202) -> Answer:
        return self._expect(expect, "POST", path, body if isinstance(body, bytes) else dump(body))

    def stream(self, path: str, blocks: Iterable[bytes], kind: str, *, expect: int = 200) -> Answer:
        """Send a body of unknown length, block by block."""
        return self._expect(expect, "POST", path, blocks, kind)

    def ask(self, method: str, path: str, body: bytes | Iterable[bytes] | None = None, kind: str = JSON) -> Answer:
        """One request, whatever is answered. To connect, where that is needed, is not part of its time."""
        self.connect()
        started = time.perf_counter()
        self._connection.request(method, PREFIX + path, body, {"Content-Type": kind} if body is not None else {})
        response = self._connection.getresponse()
        content = response.read()
        return Answer(response.status, time.perf_counter() - started, content)

    def connect(self) -> None:
        """Connect, unless the connection of the last request still stands."""
        sock = self._connection.sock
        if sock is not None and select.select([sock], [], [], 0)[0]:
            self._connection.close()  # nobody owes us bytes: it was hung up
            sock = None
        if sock is None:
            self._connection.connect()

    def _expect(
        self, status: int, method: str, path: str, body: bytes | Iterable[bytes] | None = None, kind: str = JSON
    ) -> Answer:
        answer = self.ask(method, path, body, kind)
        if answer.status != status:
            raise BenchError(f"{method} {path} was answered with {answer.status}: {answer.body[:500]!r}")
        return answer


def dump(value: object) -> bytes:
    return json.dumps(value).encode()
