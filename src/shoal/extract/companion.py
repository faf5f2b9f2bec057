"""Stored pages read apart, one after the other, in a process that stays: for who reads many and waits for each."""

from __future__ import annotations

import subprocess
import weakref
from contextlib import suppress
from threading import Lock, Timer
from typing import IO

from shoal.extract import apart
from shoal.extract.findings import Findings, Wanted

Process = subprocess.Popen[bytes]


class Companion:
    """Started when it is first needed, started anew when a page has killed it; it ends with its owner."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._ready = False
        self._lock = Lock()

    def begin(self) -> None:
        """Let it start: it is needed soon."""
        with self._lock:
            if self._living() is None:
                self._start()

    def find(self, body: bytes, wanted: Wanted) -> Findings:
        """Read a page, and wait for it; raises FetchError when that cannot be done within bounds."""
        apart.check_size(body)
        with self._lock:
            process = self._living() or self._start()
            timer = Timer(apart.WALL_S, process.kill)
            timer.daemon = True
            timer.start()
            try:
                if not self._ready:
                    _receive(process.stdout)
                    self._ready = True
                answer = _ask(process, apart.pack_order(wanted) + apart.pack(body))
            except OSError as exc:
                _bury(process)
                raise apart.too_complex(apart.explain_end(process.returncode, apart.CPU_S)) from exc
            finally:
                timer.cancel()
        return apart.read_answer(answer)

    def _living(self) -> Process | None:
        return self._process if self._process and self._process.poll() is None else None

    def _start(self) -> Process:
        process = subprocess.Popen(
            apart.command(apart.CPU_S), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=apart.environment()
        )
        weakref.finalize(self, _bury, process)
        self._process, self._ready = process, False
        return process


def _ask(process: Process, order: bytes) -> bytes:
    assert process.stdin is not None
    process.stdin.write(order)
    process.stdin.flush()
    return _receive(process.stdout)


def _receive(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    head = stream.read(apart.LENGTH.size)
    if len(head) < apart.LENGTH.size:
        raise ConnectionResetError("it has ended")
    (length,) = apart.LENGTH.unpack(head)
    if length > apart.MAX_ANSWER:
        raise OSError(f"an answer of {length} bytes")
    answer = stream.read(length)
    if len(answer) < length:
        raise ConnectionResetError("it has ended")
    return answer


def _bury(process: Process) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
