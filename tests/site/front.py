"""The counter between sockets and site: who asked, how often, how many at once.

Each Host header gets a `Tenant` of its own, so one server plays as many independent hosts as it is
asked for: hit counts, requests in flight and, for a `Located` site, the absolute links are per host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic

from tests.site.hits import Hit, HitLog
from tests.site.reply import Heeding, Located, Reply, Responder

NO_HEADERS: Mapping[str, str] = {}


@dataclass(slots=True)
class Tenant:
    """One host: its copy of the site and its counters."""

    site: Responder
    counts: Counter[str] = field(default_factory=Counter[str])
    in_flight: int = 0


class Front:
    """Used from the server's thread, except for `count`, which any thread may call."""

    def __init__(self, site: Responder, log: HitLog) -> None:
        self.log = log
        self._site = site
        self._tenants: dict[str, Tenant] = {}

    def admit(self, host: str, target: str, headers: Mapping[str, str] = NO_HEADERS) -> tuple[Tenant, Reply]:
        """Counts and logs a request; the caller lowers `in_flight` once it is answered or gone."""
        name = host.lower()
        tenant = self._tenants.get(name) or self._move_in(name)
        tenant.counts[target] += 1
        tenant.in_flight += 1
        site, hits = tenant.site, tenant.counts[target]
        reply = site.heed(target, hits, headers) if isinstance(site, Heeding) else site.respond(target, hits)
        agent = headers.get("user-agent", "")
        self.log.record(Hit(monotonic(), host, target, reply.status, tenant.in_flight, agent))
        return tenant, reply

    def count(self, target: str) -> int:
        return sum(tenant.counts[target] for tenant in list(self._tenants.values()))

    def _move_in(self, name: str) -> Tenant:
        site = self._site.at(f"http://{name}") if isinstance(self._site, Located) else self._site
        return self._tenants.setdefault(name, Tenant(site))
