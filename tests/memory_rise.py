"""`python -m tests.memory_rise CAP NAME=URL…`: by how much fetching and unpacking each URL raises a process' memory.

Everything is imported, and something small fetched, before the first figure. Each URL then has a process of its own,
forked from there, so that none finds memory which another has left behind. Prints a JSON line for each.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import Sequence

from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.fetch.http import HttpClient
from shoal.fetch.port import FetchLimits
from tests.guards import guard_of_loopback


def main(arguments: Sequence[str]) -> None:
    cap = int(arguments[0])
    pairs = [argument.partition("=") for argument in arguments[1:]]
    _reason(pairs[0][2], 1_000)  # refused at once; the way there is warm
    for name, _, url in pairs:
        child = os.fork()
        if not child:
            print(json.dumps(_measured(name, url, cap)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


def _measured(name: str, url: str, cap: int) -> dict[str, str | int]:
    before = _peak()
    reason = _reason(url, cap)
    return {"name": name, "reason": reason, "rise": _peak() - before}


def _reason(url: str, cap: int) -> str:
    """Why there is no page; empty if there is one."""

    async def fetch() -> None:
        client = HttpClient("test", guard_of_loopback())
        try:
            response = await client.fetch(parse(url), {}, FetchLimits(max_body=cap))
            response.unpacked(cap)
        finally:
            await client.close()

    try:
        asyncio.run(fetch())
    except FetchError as exc:
        return exc.reason
    return ""


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(sys.argv[1:])
