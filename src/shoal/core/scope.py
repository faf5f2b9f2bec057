"""Which discovered URLs belong to a job.

Rules in order; the first that refuses gives the reason: scheme and host (inside the start hosts, `www.` or not, http
or https), then `deny`, then `allow` (at least one must match when any is given). Patterns are searched in the whole
canonical URL. Submitted URLs are exempt from `allow` and `deny`: who names a URL wants it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from shoal.core.domain import registrable_domain
from shoal.core.frozen import frozen
from shoal.core.pattern import Pattern, compile_pattern
from shoal.core.url import Url

NOT_ALLOWED = "not_allowed"
"""No pattern of `allow` matches."""


def _bare(host: str) -> str:
    return host.lower().removeprefix("www.")


@frozen
class Scope:
    """The job's rules, compiled."""

    hosts: frozenset[str]
    """Without `www.`; empty means any host."""
    allow: tuple[Pattern, ...] = ()
    deny: tuple[Pattern, ...] = ()

    @classmethod
    def of(cls, hosts: Iterable[str], allow: Iterable[str] = (), deny: Iterable[str] = ()) -> Scope:
        return cls(
            frozenset(_bare(host) for host in hosts),
            tuple(compile_pattern(pattern) for pattern in allow),
            tuple(compile_pattern(pattern) for pattern in deny),
        )

    def refuses(self, url: Url) -> str | None:
        """The rule that keeps the URL out, or None when it belongs to the job."""
        if self.hosts and _bare(url.host) not in self.hosts:
            return "other_host"
        if not (self.allow or self.deny):
            return None
        text = str(url)
        if any(pattern.search(text) for pattern in self.deny):
            return "denied"
        if self.allow and not any(pattern.search(text) for pattern in self.allow):
            return "not_allowed"
        return None

    def refuses_way(self, url: Url, *, listed: bool) -> str | None:
        """The same for what only leads to pages: a list's next page, or (`listed`) a sitemap.

        `allow` is not about these, and sitemaps may be on any host of the same domain.
        """
        host = _bare(url.host)
        if self.hosts and host not in self.hosts and not (listed and self._is_of_domain(url)):
            return "other_host"
        if self.deny and any(pattern.search(str(url)) for pattern in self.deny):
            return "denied"
        return None

    def _is_of_domain(self, url: Url) -> bool:
        return registrable_domain(url.host) in _domains(self.hosts)


@lru_cache(maxsize=20)
def _domains(hosts: frozenset[str]) -> frozenset[str]:
    return frozenset(map(registrable_domain, hosts))
