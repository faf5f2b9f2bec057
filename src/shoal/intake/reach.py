"""Submitted URLs that can be seen to be out of bounds: found out at once, instead of page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.core.egress import Egress, explain, is_loopback
from shoal.core.spec import JobSpec
from shoal.core.url import Url, describe_problems
from shoal.errors import BadUrls


class Refusals(dict[str, str]):
    """Host → why it may not be asked, empty when it may. Each is judged once: lists have few hosts and many URLs."""

    def __init__(self, egress: Egress, local: Iterable[str]) -> None:
        super().__init__()
        self._egress = egress
        self._local = frozenset(local)

    def __missing__(self, host: str) -> str:
        name = _name_of(host)
        why = self._egress.refuses_host(name, local=host in self._local)
        self[host] = explain(name, why) if why else ""
        return self[host]


def check_reach(egress: Egress, urls: Sequence[Url], local: Iterable[str]) -> None:
    """Refuse a list with URLs of addresses that may not be asked; one error names them all."""
    refusals = Refusals(egress, local)
    problems = [(number, why) for number, url in enumerate(urls) if (why := refusals[url.host])]
    if problems:
        raise BadUrls(describe_problems([problem for _, problem in problems], len(urls)), tuple(problems))


def with_local(spec: JobSpec, urls: Iterable[Url]) -> JobSpec:
    """The job of somebody at this machine, who has named hosts on it in so many words: those may be asked."""
    named = (*spec.local, *(url.host for url in urls))
    local = dict.fromkeys(host for host in named if is_loopback(_name_of(host)))
    return spec.model_copy(update={"local": tuple(local)})


def _name_of(host: str) -> str:
    return Url("http", host, "/").hostname
