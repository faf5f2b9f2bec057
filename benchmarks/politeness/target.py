"""The web server that is crawled: many hosts in one process, each with manners of its own, and a log of every request.

`python -m benchmarks.politeness.target PLAN PORT LOG` serves until SIGTERM. A host is a loopback address. The log has
a line for each request at the moment it arrives (CLOCK_MONOTONIC, which all processes of a machine share), with the
number of requests that the host had under way then: what never exceeds a cap there never exceeded it at all.
"""

import json
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.launch import REPOSITORY, environment
from benchmarks.process import free_port, listens, running, wait_ready
from tests.site.hits import Hit
from tests.site.parent import die_with_parent
from tests.site.reply import Reply, page, plain
from tests.site.server import Server, run

PROSE = "<p>The tide comes in, the tide goes out, and nobody asked it to hurry.</p>\n" * 12
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Manner:
    """How one host answers."""

    delay: float = 0.0
    """Seconds until a page is answered."""
    robots: str = ""
    """The text of its robots.txt."""
    robots_delay: float = 0.0
    """Seconds until that is answered."""
    allows: tuple[tuple[float, float], ...] = ()
    """(second since its first request, requests a second from then on); what comes beyond them gets a 429."""
    retry_after: str = ""
    """Sent with a 429."""
    depth: float = 0.5
    """Its bucket holds as much as it allows in so many seconds, and two requests at least."""

    @classmethod
    def read(cls, saved: Mapping[str, Any]) -> "Manner":
        """As it stands in a plan."""
        pairs: list[list[float]] = saved["allows"]
        fields: dict[str, Any] = {**saved, "allows": tuple((since, rate) for since, rate in pairs)}
        return cls(**fields)


class Host:
    """One host of the target."""

    def __init__(self, manner: Manner, clock: Callable[[], float] = time.monotonic) -> None:
        self._manner = manner
        self._clock = clock
        self._began: float | None = None
        self._tokens, self._stamp = 0.0, 0.0

    def respond(self, target: str, hits: int) -> Reply:
        """A page, late if the host is slow, or a refusal."""
        del hits
        if target == "/robots.txt":
            return replace(plain(self._manner.robots), delay=self._manner.robots_delay)
        if self._manner.allows and not self._may():
            headers = (("Retry-After", self._manner.retry_after),) if self._manner.retry_after else ()
            return Reply(429, headers)
        return page(f"<!doctype html><title>{target}</title><h1>{target}</h1>\n{PROSE}", delay=self._manner.delay)

    def _may(self) -> bool:
        now = self._clock()
        if self._began is None:
            self._began, self._stamp, self._tokens = now, now, self._room(self._rate(0.0))
        rate = self._rate(now - self._began)
        self._tokens = min(self._room(rate), self._tokens + (now - self._stamp) * rate)
        self._stamp = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _rate(self, second: float) -> float:
        return [rate for since, rate in self._manner.allows if since <= second][-1]

    def _room(self, rate: float) -> float:
        return max(2.0, rate * self._manner.depth)


class Hosts:
    """All of them; one that is not in the plan answers at once."""

    def __init__(self, plan: Mapping[str, Manner]) -> None:
        self._plan = plan

    def at(self, origin: str) -> Host:
        name = origin.removeprefix("http://").partition(":")[0]
        return Host(self._plan.get(name, Manner()))

    def respond(self, target: str, hits: int) -> Reply:
        return Host(Manner()).respond(target, hits)


@dataclass(slots=True)
class Target:
    """The running target, as a benchmark sees it."""

    port: int
    log: Path
    _read: int = 0
    _hits: list[Hit] = field(default_factory=list[Hit])

    def host(self, address: str) -> str:
        """The host as a URL names it."""
        return f"{address}:{self.port}"

    def urls(self, address: str, count: int, path: str = "p") -> list[str]:
        return [f"http://{address}:{self.port}/{path}/{number}" for number in range(count)]

    def hits(self) -> list[Hit]:
        """All that has arrived so far."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        self._hits += [Hit(**json.loads(line)) for line in whole.splitlines()]
        return self._hits

    def wait_for(self, enough: Callable[[list[Hit]], bool], *, within_s: float) -> list[Hit]:
        """Wait until enough has arrived."""
        deadline = time.monotonic() + within_s
        while not enough(self.hits()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self._hits)} requests in {within_s:g} s, and not those that were awaited")
            time.sleep(POLL_S)
        return self._hits


def addresses(count: int, first: int = 1) -> list[str]:
    """So many loopback addresses."""
    return [f"127.0.{number // 250}.{number % 250 + 1}" for number in range(first, first + count)]


@contextmanager
def target(plan: Mapping[str, Manner], folder: Path) -> Generator[Target]:
    """Serve these hosts while the block lasts."""
    port, log, written = free_port(), folder / "target.jsonl", folder / "target.plan"
    log.touch()
    written.write_text(json.dumps({name: asdict(manner) for name, manner in plan.items()}))
    command = [sys.executable, "-m", "benchmarks.politeness.target", str(written), str(port), str(log)]
    with running(command, log=folder / "target.log", env=environment({}), cwd=REPOSITORY) as child:
        wait_ready(child, lambda: listens(port))
        yield Target(port, log)


def main(arguments: Sequence[str]) -> None:
    """Serve what the plan says."""
    plan, port, log = arguments
    die_with_parent()
    saved: dict[str, dict[str, Any]] = json.loads(Path(plan).read_text())
    hosts = {name: Manner.read(fields) for name, fields in saved.items()}
    served = list(dict.fromkeys(["127.0.0.1", *hosts]))
    run(Hosts(hosts), served, port=int(port), log=log, announce=_say_nothing)


def _say_nothing(server: Server) -> None:
    del server


if __name__ == "__main__":
    main(sys.argv[1:])
