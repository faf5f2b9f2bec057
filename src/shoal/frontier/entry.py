"""How a request looks inside Redis: short, because there are millions of them.

    h2/path?query            http, depth 2, first attempt
    s0,1,3,0/path            https, depth 0, attempt 1, 3 redirect hops, 0 lost leases
    h2~AAAAAAAAAAA/path      first found on the page with this fingerprint
    h1/path⇥detail⇥{"n":1}   for the spider's callback `detail`, with what it has sent along; tabs in between

A queue's key holds job, host and level, so that an entry need not. A leased or delayed request, which stands in a
structure shared by hosts, is a record: `job host level entry`. Levels 3 to 5 are 0 to 2 of requests for the browser.
"""

from __future__ import annotations

from shoal.core.found_on import MARK, read_found_on, write_found_on
from shoal.core.model import Level, Request
from shoal.core.tail import split_tail, tail_of
from shoal.core.url import Url

_FLAG = {"http": "h", "https": "s"}
_SCHEME = {"h": "http", "s": "https"}
_LEVELS = {level.value: level for level in Level}
RENDER = 3
"""The first level of requests for the browser."""


def digit(level: Level, render: bool) -> int:
    """The level as it stands in Redis."""
    return level.value + RENDER * render


def encode(request: Request) -> str:
    """The entry of a request."""
    url = request.url
    if request.attempt or request.hops or request.losses:
        numbers = f"{request.depth},{request.attempt},{request.hops},{request.losses}"
    else:
        numbers = str(request.depth)
    return f"{_FLAG[url.scheme]}{numbers}{write_found_on(request.found_on)}{url.target}{tail_of(request)}"


def encode_new(url: Url) -> str:
    """The entry of a URL that was submitted: depth 0, nothing tried."""
    return f"{_FLAG[url.scheme]}0{url.target}"


def decode(host: str, level: int, entry: str) -> Request:
    """The request of an entry that stood in the queue of this host and level."""
    slash = entry.index("/")
    target, callback, meta = split_tail(entry[slash:])
    url = Url(_SCHEME[entry[0]], host, target)
    plain, _, found_on = entry[1:slash].partition(MARK)
    numbers = plain.split(",")
    render = level >= RENDER
    priority = _LEVELS[level - RENDER * render]
    if len(numbers) == 1:
        return Request(url, int(numbers[0]), priority, 0, 0, 0, render, callback, meta, read_found_on(found_on))
    depth, attempt, hops, losses = map(int, numbers)
    return Request(url, depth, priority, attempt, hops, losses, render, callback, meta, read_found_on(found_on))


def decode_record(record: str) -> tuple[str, Request]:
    """(job, request) of a leased or delayed record."""
    job, host, level, entry = record.split(" ", 3)
    return job, decode(host, int(level), entry)
