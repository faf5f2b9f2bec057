"""Submitted URLs that can be seen to be out of bounds: found out at once, instead of page by page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.core.egress import Egress, is_loopback
from shoal.core.spec import JobSpec
from shoal.core.url import Url, describe_problems
from shoal.errors import BadUrl, BadUrls


def check_reach(egress: Egress, urls: Sequence[Url], local: Iterable[str]) -> None:
    """Refuse a list with URLs of addresses that may not be asked; one error names them all."""
    own = frozenset(local)
    refusals = {host: why for host in {url.host for url in urls} if (why := _refusal(egress, host, own))}
    problems = [(number, refusals[url.host]) for number, url in enumerate(urls) if url.host in refusals]
    if problems:
        raise BadUrls(describe_problems([problem for _, problem in problems], len(urls)), tuple(problems))


def check_url(egress: Egress, url: Url, local: Iterable[str]) -> None:
    """The same for one; raises BadUrl."""
    if why := _refusal(egress, url.host, frozenset(local)):
        raise BadUrl(why)


def with_local(spec: JobSpec, urls: Iterable[Url]) -> JobSpec:
    """The job of somebody at this machine, who has named hosts on it in so many words: those may be asked."""
    named = (*spec.local, *(url.host for url in urls))
    local = dict.fromkeys(host for host in named if is_loopback(Url("http", host, "/").hostname))
    return spec.model_copy(update={"local": tuple(local)})


def _refusal(egress: Egress, host: str, local: frozenset[str]) -> str:
    try:
        egress.check(Url("http", host, "/").hostname, local=host in local)
    except BadUrl as exc:
        return str(exc)
    return ""
