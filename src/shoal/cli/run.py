"""Commands that do the work in the foreground: crawl, scrape, resume."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from shoal.cli import options as opt
from shoal.cli.crew import Crew
from shoal.cli.forked import fork_worker
from shoal.cli.interrupts import Interrupts, noted_interrupts
from shoal.cli.jobfile import Written, make_spec, placed, places_in, read_url_list
from shoal.cli.talk import counted, print_json, say
from shoal.cli.view import View
from shoal.core.address import read_address
from shoal.core.egress import Egress, explain
from shoal.core.model import Engine, JobState
from shoal.core.revisit import LAST
from shoal.core.spec import JobSpec, with_max_body
from shoal.core.template import count_all
from shoal.core.url import Url
from shoal.errors import BadUrls, InputError
from shoal.home import prepare_home
from shoal.intake.reach import out_of_reach, read_urls, sitemaps_of, with_local
from shoal.proxy_pools import pools_of
from shoal.redis_url import RedisUrls, is_here
from shoal.render.lookup import find_browser
from shoal.settings import Settings, read_settings
from shoal.spiders.finder import is_loaded as spiders_loaded
from shoal.spiders.finder import use as use_spiders
from shoal.spiders.models import check_named

if TYPE_CHECKING:
    from shoal.wiring import Platform

DEFAULT_WORKERS = min(2, os.cpu_count() or 1)
MAX_LOOKUPS = 20
LOOKUP_S = 5.0
"""A name server that is slower than this has not said no."""

_RENAMED = {"take": "formats", "deliver": "output", "host": "hosts", "most_bytes": "bytes", "most_seconds": "seconds"}
"""Arguments of commands that are called otherwise than the setting that they are."""
_OTHERWISE = ("browser", "output")
"""Arguments that mean something else than the setting of that name."""

Places = Callable[[], Sequence[str]]
"""Where each URL of a job was written; a job file is read once more for it, and only when it is asked for."""


def crawl(
    urls: opt.Urls = None,
    job: opt.JobFile = None,
    pages: opt.Pages = None,
    depth: opt.Depth = None,
    most_bytes: opt.Bytes = None,
    most_seconds: opt.Seconds = None,
    host_pages: opt.HostPages = None,
    host_bytes: opt.HostBytes = None,
    host_seconds: opt.HostSeconds = None,
    allow: opt.Allow = None,
    deny: opt.Deny = None,
    host: opt.Host = None,
    sitemaps: opt.Sitemaps = None,
    sitemap: opt.Sitemap = None,
    since: opt.Since = None,
    next: opt.Next = None,  # noqa: A002 - the flag's name
    field: opt.FieldOption = None,
    take: opt.TakeOption = None,
    each: opt.Each = None,
    spider: opt.Spider = None,
    param: opt.Param = None,
    duplicates: opt.DuplicatesOption = None,
    changes: opt.Changes = None,
    ignore: opt.Ignore = None,
    name: opt.Name = None,
    previous: opt.Previous = None,
    revisit: opt.Revisit = None,
    max_age: opt.MaxAge = None,
    header: opt.Header = None,
    drop_tracking: opt.DropTracking = None,
    nofollow: opt.Nofollow = None,
    noindex: opt.Noindex = None,
    browser: opt.Browser = False,
    auto: opt.Auto = False,
    wait: opt.Wait = None,
    screenshot: opt.Screenshot = None,
    pdf: opt.Pdf = None,
    rate: opt.RateOption = None,
    parallel: opt.ParallelOption = None,
    robots: opt.Robots = None,
    proxy: opt.Proxy = None,
    proxies: opt.Proxies = None,
    retries: opt.Retries = None,
    timeout: opt.Timeout = None,
    lane: opt.LaneOption = None,
    weight: opt.Weight = None,
    archive: opt.Archive = None,
    keep: opt.Keep = None,
    workers: opt.Workers = DEFAULT_WORKERS,
    detach: opt.Detach = False,
    output: opt.Output = None,
    deliver: opt.Deliver = None,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> None:
    """Crawl a site: follow links inside the start hosts, take fields, write results as they come.

    shoal crawl https://books.example/ --pages 500 --field title=h1 --field price=.price -o books.jsonl"""
    _launch(locals())


def scrape(
    urls: opt.Urls = None,
    file: opt.UrlFile = None,
    job: opt.JobFile = None,
    pages: opt.Pages = None,
    sitemap: opt.Sitemap = None,
    since: opt.Since = None,
    next: opt.Next = None,  # noqa: A002 - the flag's name
    field: opt.FieldOption = None,
    take: opt.TakeOption = None,
    each: opt.Each = None,
    spider: opt.Spider = None,
    param: opt.Param = None,
    duplicates: opt.DuplicatesOption = None,
    changes: opt.Changes = None,
    ignore: opt.Ignore = None,
    name: opt.Name = None,
    previous: opt.Previous = None,
    revisit: opt.Revisit = None,
    max_age: opt.MaxAge = None,
    header: opt.Header = None,
    drop_tracking: opt.DropTracking = None,
    noindex: opt.Noindex = None,
    browser: opt.Browser = False,
    auto: opt.Auto = False,
    wait: opt.Wait = None,
    screenshot: opt.Screenshot = None,
    pdf: opt.Pdf = None,
    most_bytes: opt.Bytes = None,
    most_seconds: opt.Seconds = None,
    rate: opt.RateOption = None,
    parallel: opt.ParallelOption = None,
    robots: opt.Robots = None,
    proxy: opt.Proxy = None,
    proxies: opt.Proxies = None,
    retries: opt.Retries = None,
    timeout: opt.Timeout = None,
    lane: opt.LaneOption = None,
    weight: opt.Weight = None,
    archive: opt.Archive = None,
    keep: opt.Keep = None,
    workers: opt.Workers = DEFAULT_WORKERS,
    detach: opt.Detach = False,
    output: opt.Output = None,
    deliver: opt.Deliver = None,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> None:
    """Fetch just these URLs, without following links.

    shoal scrape https://books.example/book/1 https://books.example/book/2 --field title=h1 -o -

    shoal scrape -f urls.txt -o pages.csv
    """
    _launch({**locals(), "follow": False})


def resume(
    job: opt.Job,
    workers: opt.Workers = DEFAULT_WORKERS,
    detach: opt.Detach = False,
    output: opt.Output = None,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> None:
    """Go on with a job that was stopped or paused. No stored page is fetched again.

    shoal resume k3x9 -o books.jsonl
    """
    from shoal.cli.follow import follow
    from shoal.wiring import open_platform

    view = View(output, format, quiet, json)
    view.check()
    settings = read_settings()
    pools = pools_of(settings.proxies_file)
    with open_platform(settings) as platform:
        found = platform.control.find(job)
        row = platform.control.job(found)
        if not row.state.ended:
            pools.check(row.spec.proxies)
        state = platform.control.resume(found)
        if state.ended:
            say(f"job {found} is {state.value} already; `shoal results {found}` shows what it has")
            raise typer.Exit(0 if state is JobState.FINISHED else 1)
        if detach:
            say(f"resumed {found}")
            return
        with noted_interrupts() as interrupts, Crew(settings, workers) as crew:
            code = follow(platform, found, crew, view, interrupts)
    raise typer.Exit(code)


def _launch(given: Mapping[str, Any]) -> None:
    """Run what the arguments of a command ask for."""
    kind = given["format"]
    if given["deliver"] and kind and not given["output"]:
        kind = None  # that of the delivery
    view = View(given["output"], kind, given["quiet"], given["json"])
    spec, where = spec_of(given)
    _start(spec, given["workers"], given["detach"], view, where)


def spec_of(given: Mapping[str, Any]) -> tuple[JobSpec, Places]:
    """The job of a command's arguments, those that have the name of a setting; and where its URLs were written."""
    listed = [*map(Written, given["urls"] or ()), *(read_url_list(given["file"]) if given.get("file") else ())]
    flags = {name: given[name] for name in JobSpec.model_fields if name in given and name not in _OTHERWISE}
    flags |= {setting: given.get(name) for name, setting in _RENAMED.items()}
    flags |= {
        "urls": [written.url for written in listed],
        "parallel": number_or_word(given["parallel"]),
        "sitemaps": _sitemaps(given["sitemap"], given.get("sitemaps")),
        "engine": engine_of(browser=given["browser"], auto=given["auto"]),
    }
    job = given["job"]
    if given["deliver"] and given["format"] and not given["output"]:
        flags["output"] = {"to": given["deliver"], "format": given["format"]}
    asked = asked_of_browser(flags["engine"], job, **{name: given[name] for name in ("wait", "screenshot", "pdf")})
    fields, headers, proxies = (given[name] or () for name in ("field", "header", "proxy"))
    spec = make_spec(job, flags, fields, headers, proxies, asked, given["param"] or (), given.get("ignore") or ())
    return spec, _where(listed, job)


def _sitemaps(listed: list[str] | None, all_of_hosts: bool | None) -> list[str] | bool | None:
    """None: what the job file says."""
    if listed and all_of_hosts:
        raise InputError("--sitemaps finds them by itself, --sitemap names one: give one of them")
    return listed or all_of_hosts


def engine_of(*, browser: bool, auto: bool) -> str | None:
    """None: what the job file says."""
    if browser and auto:
        raise InputError("--browser renders every page, --auto only those that need it: give one of them")
    return "browser" if browser else "auto" if auto else None


def asked_of_browser(engine: str | None, job: Path | None, **flags: Any) -> dict[str, Any]:
    """What is asked of the browser; without one, a job file may still ask for it."""
    given = [f"--{name}" for name, value in flags.items() if value is not None]
    if given and engine is None and job is None:
        raise InputError(f"{given[0]} is for pages in a browser: add --browser, or --auto for those that need it")
    return flags


def _where(listed: Sequence[Written], job: Path | None) -> Places:
    """Where the URLs were written: those of the command stand in place of the file's."""
    if listed or job is None:
        return lambda: [written.place for written in listed]
    return lambda: places_in(job)


def _start(spec: JobSpec, workers: int, detach: bool, view: View, where: Places) -> None:
    if spec.open and not detach:
        raise InputError("an open job waits for more URLs: submit it with --detach, and end it with: shoal close JOB")
    if not spec.urls and not spec.open and isinstance(spec.sitemaps, bool):
        raise InputError("no URLs given; for example: shoal crawl https://books.example/")
    view.check()
    spec, settings = make_ready(spec, where, workers=0 if detach else workers)
    fork = None if spiders_loaded() else fork_worker  # nobody knows what else they have begun
    with noted_interrupts() as interrupts, Crew(settings, 0 if detach else workers, fork) as crew:
        code = _submit_and_follow(spec, settings, crew, view, interrupts, detach=detach)
    raise typer.Exit(code)


def make_ready(spec: JobSpec, where: Places, *, workers: int) -> tuple[JobSpec, Settings]:
    """Find out before anything starts what would fail; with the hosts on this machine that the job may ask."""
    settings = read_settings()
    spec = with_max_body(spec, settings.max_body)
    if settings.redis_url:
        RedisUrls.of(settings.redis_url)  # before its place is asked for: what is wrong with it is named
    pools_of(settings.proxies_file).check(spec.proxies)
    use_spiders(settings.spiders)
    check_named(spec)
    here = is_here(settings.redis_url)
    if spec.local and not here:
        raise InputError("local: only while Redis, too, is on this machine; see SHOAL_EGRESS_ALLOW")
    try:
        urls = read_urls(spec, settings.egress, here=here)
    except BadUrls as exc:
        raise placed(exc, where(), len(spec.urls)) from None
    urls += sitemaps_of(spec, urls, settings.egress, here=here)
    spec = with_local(spec, urls) if here else spec
    _warn_of_hosts(spec, settings.egress, here=here)
    if workers and spec.proxies is None:  # a proxy may know names that we do not
        _look_up(urls, settings.egress, spec.local)
    if workers and spec.engine is not Engine.HTTP:
        find_browser(settings.browser)  # before anything starts: what is missing is named
    prepare_home(settings.home)
    return spec, settings


def _warn_of_hosts(spec: JobSpec, egress: Egress, *, here: bool) -> None:
    """A page may lead to this machine only where its owner has named the very host as a place to start."""
    ways = "give a URL of it as well, or name it under `local` in a job file" if here else "see SHOAL_EGRESS_ALLOW"
    for host in out_of_reach(spec, egress):
        say(f"--host {host} is on this machine, and links alone do not open it: {ways}")


def _submit_and_follow(
    spec: JobSpec, settings: Settings, crew: Crew, view: View, interrupts: Interrupts, *, detach: bool
) -> int:
    # Imported while the workers start: both take about as long.
    from shoal.cli.follow import follow
    from shoal.wiring import open_platform

    with open_platform(settings, rings=crew.absent) as platform:
        interrupts.check()
        platform.recovery.look()  # at a Redis that was started anew; later it would be told of this job once more
        job = platform.intake.submit(_with_previous(spec, platform)).job
        if detach:
            print_json({"job": job}) if view.json else print(job)
            return 0
        if not view.quiet:
            say(f"job {job}: {counted(count_all(spec.urls), 'URL')}; Ctrl-C stops, nothing is lost")
        code = follow(platform, job, crew, view, interrupts)
        crew.stop()  # before the platform goes: the workers still write to it
        return code


def _with_previous(spec: JobSpec, platform: Platform) -> JobSpec:
    """People may write the first letters of a job's id."""
    if spec.previous in (None, LAST):
        return spec
    return spec.model_copy(update={"previous": platform.control.find(spec.previous)})


def _look_up(urls: Iterable[Url], egress: Egress, local: Iterable[str]) -> None:
    """Hosts that do not exist, or may not be asked, are found out before anything starts; some are only mentioned."""
    own = frozenset(local)
    hosts = list(dict.fromkeys((url.hostname.strip("[]"), url.host in own) for url in urls))[:MAX_LOOKUPS]
    pool = ThreadPoolExecutor(max_workers=MAX_LOOKUPS)
    lookups = {host: pool.submit(_trouble, host, egress, local=here) for host, here in hosts}
    answered, _ = wait(lookups.values(), timeout=LOOKUP_S)
    troubles = [trouble for lookup in lookups.values() if lookup in answered and (trouble := lookup.result())]
    pool.shutdown(wait=len(answered) == len(lookups), cancel_futures=True)
    if len(troubles) == len(lookups):
        raise InputError("\n".join(troubles))
    for trouble in troubles:
        say(f"{trouble}; its URLs will fail")


def _trouble(host: str, egress: Egress, *, local: bool) -> str:
    """Why a host cannot be asked; empty when it can."""
    try:
        found = {str(address[4][0]) for address in socket.getaddrinfo(host, None)}
    except OSError:
        return f"no such host: {host}; check the spelling and the network"
    refusals = {text: egress.refuses(address, host, local=local) for text in found if (address := read_address(text))}
    text, why = min(refusals.items(), key=lambda refusal: refusal[1], default=("", ""))
    return explain(f"{host}, which leads to {text},", why) if why else ""


def number_or_word(text: str | None) -> int | str | None:
    """`4`, or `unlimited`."""
    return int(text) if text is not None and text.isdigit() else text
