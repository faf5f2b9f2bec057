"""Bodies that trickle: who reads them is not held for ever."""

from __future__ import annotations

import socket
import threading
from datetime import timedelta
from typing import Any

import pytest
from werkzeug.exceptions import ClientDisconnected

from shoal.api.app import STREAMED_BODY
from shoal.api.server import Body, Readings
from tests.waiting import wait_until

LATER = 10.0**9
"""In seconds: any deadline is past."""


class Reader:
    """A thread that reads a body of ten bytes from a socket, as a request does."""

    def __init__(self, readings: Readings, **environ: Any) -> None:
        self.client, self._server = socket.socketpair()
        given = {"CONTENT_LENGTH": "10", "wsgi.input": _Whole(self._server), "gunicorn.socket": self._server, **environ}
        self._body = Body(given, readings)
        self.data = b""
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.thread.join(10)
        self._server.close()

    def _read(self) -> None:
        self.data = self._body.read(10)

    def read_on(self) -> bytes:
        return self._body.read(10)


class _Whole:
    """Reads until all is there, as gunicorn does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (block := self._connection.recv(size - len(data))):
            data += block
        return data


@pytest.fixture
def readings() -> Readings:
    return Readings()


def test_a_body_that_trickles_is_cut_off_and_its_reader_is_free(readings: Readings) -> None:
    with Reader(readings) as reader:
        reader.client.sendall(b"123")
        readings.cut(0.0)
        assert reader.thread.is_alive()
        wait_until(lambda: _cut(readings, reader), within=timedelta(seconds=10))
        assert reader.client.recv(1) == b""
        assert b"123".startswith(reader.data)
        with pytest.raises(ClientDisconnected):
            reader.read_on()


def _cut(readings: Readings, reader: Reader) -> bool:
    readings.cut(LATER)
    return not reader.thread.is_alive()


def test_a_body_that_is_there_is_read_and_nobody_hangs_up(readings: Readings) -> None:
    with Reader(readings) as reader:
        reader.client.sendall(b"1234567890")
        reader.thread.join(10)
        assert reader.data == b"1234567890"
        readings.cut(LATER)
        reader.client.sendall(b"more")


def test_a_streamed_body_may_take_its_time(readings: Readings) -> None:
    with Reader(readings, **{STREAMED_BODY: True}) as reader:
        reader.client.sendall(b"123")
        readings.cut(LATER)
        reader.client.sendall(b"4567890")
        reader.thread.join(10)
        assert reader.data == b"1234567890"
