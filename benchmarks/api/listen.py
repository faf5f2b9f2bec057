"""Listens to a job many times over: `python -m benchmarks.api.listen PORT JOB LISTENERS SECONDS`.

Says `ready` when each listener has had its first event, and after so many seconds how many came to each since.
"""

import asyncio
import json
import sys
from collections.abc import Sequence

from benchmarks.api.client import PREFIX

READY = "ready"
START_S = 60.0
_REQUEST = "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n"


class Listener:
    """One connection; counts the events that it hears."""

    def __init__(self) -> None:
        self.events = 0
        self.first = asyncio.Event()

    async def listen(self, port: int, path: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(_REQUEST.format(path=path).encode())
            while line := await reader.readline():
                if line.startswith(b"event:"):
                    self.events += 1
                    self.first.set()
        finally:
            writer.close()


async def listen(port: int, job: str, count: int, seconds: float) -> Sequence[int]:
    """How many events each listener had, from the moment on when all had their first."""
    listeners = [Listener() for _ in range(count)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(listener.listen(port, f"{PREFIX}/jobs/{job}/events")) for listener in listeners]
        async with asyncio.timeout(START_S):
            await asyncio.gather(*(listener.first.wait() for listener in listeners))
        for listener in listeners:
            listener.events = 0
        print(READY, flush=True)
        await asyncio.sleep(seconds)
        heard = [listener.events for listener in listeners]
        for task in tasks:
            task.cancel()
    return heard


def main() -> None:
    """Print what was heard as JSON."""
    port, job, count, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run(listen(int(port), job, int(count), float(seconds)))))


if __name__ == "__main__":
    main()
