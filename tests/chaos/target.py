"""The site that a fleet of hosts crawls: many names on one address, and a log of who asked which of them when.

`python -m tests.chaos.target ADDRESS LOG HOSTS PAGES SUBMITTED` serves until it is killed. Pages lead from host to
host, each but the submitted ones is linked from one page alone, and they take their time, those of every fourth host
so much that its cap is reached.
"""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass

from shoal.drill.site import SiteMap
from tests.site.reply import NOT_FOUND, Reply, page
from tests.site.server import serve

PORT = 80
_PAGE = "/page/"
_SLOW_S = 0.8
"""With four requests a second, more than two at once, if nobody kept to a cap."""


def host_names(count: int) -> list[str]:
    return [f"site-{number:02}.test" for number in range(count)]


def is_slow(name: str) -> bool:
    """Does this host take its time?"""
    return int(name.removeprefix("site-").removesuffix(".test")) % 4 == 0


def site_map(hosts: int, pages: int, submitted: int) -> SiteMap:
    return SiteMap(tuple(f"http://{name}" for name in host_names(hosts)), pages, submitted)


@dataclass(frozen=True, slots=True)
class Target:
    """Answers for all hosts."""

    map: SiteMap

    def respond(self, path_and_query: str, hits: int) -> Reply:
        del hits
        number = path_and_query.removeprefix(_PAGE)
        if not number.isdecimal() or int(number) >= self.map.pages:
            return NOT_FOUND
        return page(self.map.body(int(number)).decode(), delay=self._delay_s(int(number)))

    def _delay_s(self, number: int) -> float:
        slow = is_slow(host_names(len(self.map.origins))[number % len(self.map.origins)])
        return _SLOW_S if slow else 0.1 + number * 37 % 300 / 1_000


def main(address: str, log: str, *numbers: str) -> None:
    hosts, pages, submitted = map(int, numbers)
    with serve(Target(site_map(hosts, pages, submitted)), [address], port=PORT, log=log, isolated=True):
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
