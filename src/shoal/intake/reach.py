"""Submitted URLs that can be seen to be out of bounds: found out at once, instead of page by page."""

from __future__ import annotations

from collections.abc import Iterable

from shoal.core.egress import Egress, explain, is_loopback
from shoal.core.spec import JobSpec
from shoal.core.url import Url, describe_problems, parse
from shoal.errors import BadUrl, BadUrls

_INSTEAD = "leave the proxy out, or allow it with SHOAL_EGRESS_ALLOW"


class Refusals(dict[str, str]):
    """Host → why it may not be asked, empty when it may. Each is judged once: lists have few hosts and many URLs."""

    def __init__(self, egress: Egress, local: Iterable[str], *, proxied: bool = False) -> None:
        super().__init__()
        self._egress = egress
        self._local = frozenset(local)
        self._proxied = proxied

    def __missing__(self, host: str) -> str:
        name = _name_of(host)
        own = host in self._local
        why = self._egress.refuses_host(name, local=own and not self._proxied)
        self[host] = explain(name, why) if why else ""
        if why and own and not self._egress.refuses_host(name, local=True):
            self[host] = f"{name} is this machine, which is not asked through a proxy: {_INSTEAD}"
        return self[host]


def read_urls(spec: JobSpec, egress: Egress, *, here: bool = False) -> list[Url]:
    """The URLs of a job; one error names all that are none, and all that lead to addresses which may not be asked.

    `here`: somebody at this machine has written them, and may name hosts on it.
    """
    read = [_read(text, drop_tracking=spec.drop_tracking) for text in spec.urls]
    urls = [url for url in read if isinstance(url, Url)]
    refusals = Refusals(egress, with_local(spec, urls).local if here else spec.local, proxied=spec.proxies is not None)
    problems = [
        (number, problem)
        for number, url in enumerate(read)
        if (problem := refusals[url.host] if isinstance(url, Url) else url)
    ]
    if problems:
        raise BadUrls(describe_problems([problem for _, problem in problems], len(read)), tuple(problems))
    return urls


def _read(text: str, *, drop_tracking: bool) -> Url | str:
    """A URL, or why it is none."""
    try:
        return parse(text, drop_tracking=drop_tracking)
    except BadUrl as exc:
        return str(exc)


def with_local(spec: JobSpec, urls: Iterable[Url]) -> JobSpec:
    """The job of somebody at this machine, who has named hosts on it in so many words: those may be asked."""
    named = (*spec.local, *(url.host for url in urls))
    local = dict.fromkeys(host for host in named if is_loopback(_name_of(host)))
    return spec.model_copy(update={"local": tuple(local)})


def out_of_reach(spec: JobSpec, egress: Egress) -> list[str]:
    """Hosts on this machine that links may lead to, and that may not be asked for all that."""
    refusals = Refusals(egress, spec.local)
    return [host for host in spec.hosts if is_loopback(_name_of(host)) and refusals[host]]


def _name_of(host: str) -> str:
    return Url("http", host, "/").hostname
