"""Reading pages in a process apart, under bounds: `python -m shoal.extract.apart SECONDS BYTES SPIDERS`.

Orders come in on its standard input: what is wanted as JSON, then the body, each behind its length. For each, what was
found goes out as JSON behind its length. JSON, as who reads hostile pages may one day be taken over by one. A page that
takes too long or too much kills the process, and with it nothing else. It ends with its input, and so with its parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import struct
import subprocess
import sys
from dataclasses import asdict, fields
from typing import Any, BinaryIO, cast

from shoal.errors import FetchError
from shoal.extract.findings import Findings, Wanted, find
from shoal.spiders.finder import load, named_sources, use
from shoal.spiders.follow import FollowUp
from shoal.spiders.registry import spiders

CPU_S = 5.0
"""That a page may take to read."""
WALL_S = 30.0
"""The same by the clock, on a machine that is busy."""
MEMORY = 1 << 30
"""Bytes that the process may map; it begins with about a tenth of that."""
MAX_READ = 64 << 20
"""Bytes of a page. A larger one takes more than the memory, unless it is all text; it would be copied for nothing."""
MAX_ANSWER = 64 << 20
"""Bytes of what was found."""
LENGTH = struct.Struct(">Q")
COMMAND = (sys.executable, "-m", "shoal.extract.apart")
READY = b"ready"


def command(cpu_s: float) -> tuple[str, ...]:
    """That starts the process, in which a page may take this much of the processor; it is told where spiders are."""
    return (*COMMAND, str(cpu_s), str(MEMORY), named_sources())


def environment() -> dict[str, str]:
    """All that the process is told: where our modules are. Secrets are no business of its."""
    return {"PYTHONPATH": os.pathsep.join(sys.path)}


def pack_order(wanted: Wanted) -> bytes:
    """What stands before the body."""
    return pack(_dump(asdict(wanted)))


def pack(data: bytes) -> bytes:
    """Behind its length."""
    return LENGTH.pack(len(data)) + data


def read_answer(data: bytes) -> Findings:
    """What the process has found; raises FetchError when it could not say."""
    try:
        found: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
        found["requests"] = [FollowUp(*each) for each in found["requests"]]
        named = ((each.name, found[each.name]) for each in fields(Findings))
        return Findings(**{name: _tuple(value) for name, value in named})
    except (ValueError, KeyError, TypeError) as exc:
        raise too_complex("its reader gave an answer that cannot be understood") from exc


def _tuple(value: Any) -> Any:
    """JSON has lists only."""
    return tuple(cast(list[Any], value)) if isinstance(value, list) else value


def too_complex(detail: str) -> FetchError:
    """A page that cannot be read within bounds."""
    return FetchError("too_complex", detail)


def check_size(body: bytes) -> None:
    """Refuse a page that need not be tried."""
    if len(body) > MAX_READ:
        raise too_complex(f"a page of {len(body)} bytes; at most {MAX_READ} are read")


def ran_out_of_time(returncode: int | None) -> bool:
    """Did a process end because a page took too much of the processor?"""
    return returncode == -signal.SIGPROF


def explain_end(returncode: int | None, cpu_s: float) -> str:
    """Why a process ended in the middle of a page."""
    if ran_out_of_time(returncode):
        return f"reading it took more than {cpu_s:g} s"
    if returncode == _OUT_OF_MEMORY:
        return f"reading it took more than {MEMORY >> 20} MB of memory"
    return f"its reader ended with {returncode}"


def find_apart(body: bytes, wanted: Wanted) -> Findings:
    """Read one page in a process of its own, and wait for it."""
    check_size(body)
    order = pack_order(wanted) + pack(body)
    try:
        done = subprocess.run(
            command(CPU_S), input=order, stdout=subprocess.PIPE, env=environment(), timeout=WALL_S, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise too_complex(f"reading it took more than {WALL_S:g} s") from exc
    answer = done.stdout.removeprefix(pack(READY))[LENGTH.size :]
    if done.returncode != 0 or len(answer) > MAX_ANSWER:
        raise too_complex(explain_end(done.returncode, CPU_S))
    return read_answer(answer)


# --- in the process -----------------------------------------------------------------------------------------------

_OUT_OF_MEMORY = 17
_PR_SET_PDEATHSIG = 1


def main(cpu_s: float, memory: int) -> None:
    """Answer orders until there are no more."""
    _limit(memory)
    source, sink = sys.stdin.buffer, _own_output()
    _warm_up()
    _send(sink, READY)
    while (order := _receive(source)) is not None and (body := _receive(source)) is not None:
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        try:
            answer = _dump(asdict(find(body, _wanted(order))))
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(sink, answer)
        del body, answer
        _give_back()


def _warm_up() -> None:
    """What pages may need is imported before there is one: that takes a while, and is not held against one."""
    import shoal.core.json_schema  # pyright: ignore[reportUnusedImport]
    import shoal.extract.markdown  # pyright: ignore[reportUnusedImport]
    import shoal.extract.next_by_xpath  # pyright: ignore[reportUnusedImport]

    load()
    if spiders():
        import shoal.extract.spiders  # noqa: F401  # pyright: ignore[reportUnusedImport]


def _own_output() -> BinaryIO:
    """For answers alone: what a spider prints goes to standard error."""
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sink


def _give_back() -> None:
    """Memory that was freed, to the system: the next page may be a long time coming."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def _limit(memory: int) -> None:
    """Bounds of the kernel: they hold within the parser too."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a page may be under way when the parent dies
    for ignored in (signal.SIGINT, signal.SIGTERM):  # the parent's business: it finishes what is under way
        signal.signal(ignored, signal.SIG_IGN)


def _wanted(order: bytes) -> Wanted:
    given: dict[str, Any] = json.loads(order)
    return Wanted(**given)


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _receive(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = source.read(length)
    return body if len(body) == length else None


def _send(sink: BinaryIO, data: bytes) -> None:
    sink.write(LENGTH.pack(len(data)))
    sink.write(data)
    sink.flush()


if __name__ == "__main__":
    use(sys.argv[3] if len(sys.argv) > 3 else "")
    main(float(sys.argv[1]), int(sys.argv[2]))
