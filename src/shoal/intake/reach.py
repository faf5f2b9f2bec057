"""Submitted URLs that can be seen to be out of bounds: found out at once, instead of page by page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from shoal.core.egress import Egress, explain, is_loopback
from shoal.core.sitemaps import ROBOTS
from shoal.core.spec import JobSpec
from shoal.core.template import MAX_EXPANDED, count_all, expand
from shoal.core.url import Url, describe_problems, parse
from shoal.errors import BadUrl, BadUrls, InputError

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
    """The URLs of a job, templates expanded; one error names all that are none or may not be asked, each text once.

    `here`: somebody at this machine has written them, and may name hosts on it.
    """
    if (total := count_all(spec.urls)) > MAX_EXPANDED and total > len(spec.urls):
        raise InputError(f"urls: they stand for {total} URLs; at most {MAX_EXPANDED} are allowed in one job", "urls")
    read = [*_read(spec.urls, spec.drop_tracking)]
    urls = [url for _, url in read if isinstance(url, Url)]
    refusals = Refusals(egress, with_local(spec, urls).local if here else spec.local, proxied=spec.proxies is not None)
    if len(urls) == len(read) and not any(refusals[host] for host in {url.host for url in urls}):
        return urls
    problems: dict[int, str] = {}
    for number, url in read:
        if problem := refusals[url.host] if isinstance(url, Url) else url:
            problems.setdefault(number, problem)
    raise BadUrls(describe_problems([*problems.values()], len(spec.urls)), tuple(problems.items()))


def sitemaps_of(spec: JobSpec, urls: Iterable[Url], egress: Egress, *, here: bool = False) -> list[Url]:
    """The sitemaps that a job asks for; `true` stands for what each start host's robots.txt announces."""
    if isinstance(spec.sitemaps, bool):
        origins = dict.fromkeys((url.scheme, url.host) for url in urls if spec.sitemaps)
        return [Url(scheme, host, ROBOTS) for scheme, host in origins]
    try:
        return read_urls(spec.model_copy(update={"urls": spec.sitemaps}), egress, here=here)
    except BadUrls as exc:
        raise InputError(f"sitemaps: {exc}", "sitemaps") from exc


def _read(texts: Iterable[str], drop_tracking: bool) -> Iterator[tuple[int, Url | str]]:
    """The URLs that texts stand for, each with the number of its text, or why it is none in its place."""
    for number, text in enumerate(texts):
        try:
            if "{" in text:
                for url in expand(text):
                    yield number, parse(url, drop_tracking=drop_tracking)
            else:
                yield number, parse(text, drop_tracking=drop_tracking)
        except BadUrl as exc:
            yield number, str(exc)


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
