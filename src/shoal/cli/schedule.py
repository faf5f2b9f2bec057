"""Commands about schedules. What they do is in `schedule_view`, imported when one is called."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from shoal.cli import options as opt

_WHEN = "When"

Name = Annotated[str, typer.Argument(help="The schedule's name: letters, digits and _.-", show_default=False)]
Cron = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_CRON", rich_help_panel=_WHEN, show_default=False,
                 help="Minute, hour, day of month, month, day of week: '0 3 * * *'; or @hourly, @daily, @weekly, "
                      "@monthly, @yearly."),
]  # fmt: skip
Every = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_EVERY", rich_help_panel=_WHEN, show_default=False,
                 help="In place of --cron: the time between two slots, 15m, 6h, 1d; from --start, or from now."),
]  # fmt: skip
Zone = Annotated[
    str | None,
    typer.Option("--timezone", envvar="SHOAL_TIMEZONE", rich_help_panel=_WHEN, show_default=False,
                 help="In which --cron, --start and --end are meant: Europe/Berlin. [default: UTC]"),
]  # fmt: skip
Jitter = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_JITTER", rich_help_panel=_WHEN, show_default=False,
                 help="Begin each slot up to this much later, by chance: 10m."),
]  # fmt: skip
Start = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_START", rich_help_panel=_WHEN, show_default=False,
                 help="No slot before this: 2026-12-01 or 2026-12-01T08:00; none takes it back."),
]  # fmt: skip
End = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_END", help="No slot after this; none takes it back.", rich_help_panel=_WHEN,
                 show_default=False),
]  # fmt: skip
CatchUp = Annotated[
    Literal["skip", "once", "all"] | None,
    typer.Option(envvar="SHOAL_CATCH_UP", rich_help_panel=_WHEN, show_default=False,
                 help="Slots that were missed while nothing was running: skip them, run once for all of them, or run "
                      "all. [default: once]"),
]  # fmt: skip
Overlap = Annotated[
    Literal["skip", "queue", "cancel"] | None,
    typer.Option(envvar="SHOAL_OVERLAP", rich_help_panel=_WHEN, show_default=False,
                 help="A slot while the run before goes on: skip it, queue it, or cancel the run before. "
                      "[default: skip]"),
]  # fmt: skip
Replace = Annotated[
    bool,
    typer.Option("--replace", envvar="SHOAL_REPLACE", help="Change the schedule of this name, if there is one."),
]
Follow = Annotated[
    bool | None,
    typer.Option("--follow/--no-follow", envvar="SHOAL_FOLLOW", show_default=False,
                 help="Follow links, or fetch just the URLs. [default: follow]"),
]  # fmt: skip
Paused = Annotated[bool, typer.Option("--paused", envvar="SHOAL_PAUSED", help="Record it, and do not run it yet.")]
Tenant = Annotated[str, typer.Option(envvar="SHOAL_SCHEDULE_TENANT", help="Whose schedule it is.")]
AnyTenant = Annotated[
    str | None,
    typer.Option("--tenant", envvar="SHOAL_SCHEDULE_TENANT", help="Only this tenant's.", show_default=False),
]
Slots = Annotated[int, typer.Option("--slots", "-n", envvar="SHOAL_SLOTS", min=1, max=1_000, help="How many slots.")]
Limit = Annotated[int, typer.Option("--limit", envvar="SHOAL_LIMIT", min=1, max=10_000, help="How many to list.")]
Force = Annotated[
    bool, typer.Option("--force", envvar="SHOAL_FORCE", help="Whatever goes on: the overlap policy is not asked.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", envvar="SHOAL_YES", help="Do not ask.")]

_HELP = """Submit a job again and again: every night, every six hours.

shoal schedule add nightly -j shop.yaml --cron "0 3 \\* \\* \\*" --timezone Europe/Berlin

shoal schedule next nightly

shoal schedule history nightly
"""

app = typer.Typer(name="schedule", help=_HELP, no_args_is_help=True)


@app.command()
def add(
    name: Name,
    urls: opt.Urls = None,
    job: opt.JobFile = None,
    cron: Cron = None,
    every: Every = None,
    timezone: Zone = None,
    jitter: Jitter = None,
    start: Start = None,
    end: End = None,
    catch_up: CatchUp = None,
    overlap: Overlap = None,
    paused: Paused = False,
    replace: Replace = False,
    file: opt.UrlFile = None,
    follow: Follow = None,
    pages: opt.Pages = None,
    depth: opt.Depth = None,
    allow: opt.Allow = None,
    deny: opt.Deny = None,
    sitemaps: opt.Sitemaps = None,
    sitemap: opt.Sitemap = None,
    since: opt.Since = None,
    field: opt.FieldOption = None,
    take: opt.TakeOption = None,
    each: opt.Each = None,
    spider: opt.Spider = None,
    param: opt.Param = None,
    header: opt.Header = None,
    browser: opt.Browser = False,
    auto: opt.Auto = False,
    rate: opt.RateOption = None,
    parallel: opt.ParallelOption = None,
    robots: opt.Robots = None,
    proxies: opt.Proxies = None,
    lane: opt.LaneOption = None,
    keep: opt.Keep = None,
    deliver: opt.Deliver = None,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    tenant: Tenant = "default",
    json: opt.Json = False,
) -> None:
    """Add a schedule: a job file or URLs, and when. A `schedule:` block in the file says when, too; flags win.

    shoal schedule add nightly -j shop.yaml --cron "0 3 * * *" --timezone Europe/Berlin

    shoal schedule add news https://news.example/ --every 6h --jitter 10m --pages 200
    """
    from shoal.cli import schedule_view

    given = locals()
    schedule_view.add(tenant, name, _job(given), _timing(given), paused=paused, replace=replace, json=json)


@app.command()
def edit(
    name: Name,
    job: opt.JobFile = None,
    cron: Cron = None,
    every: Every = None,
    timezone: Zone = None,
    jitter: Jitter = None,
    start: Start = None,
    end: End = None,
    catch_up: CatchUp = None,
    overlap: Overlap = None,
    tenant: Tenant = "default",
    json: opt.Json = False,
) -> None:
    """Change when a schedule runs, its policies, or its job; its history stays. Another timing counts from now.

    shoal schedule edit nightly --cron "30 4 * * *"

    shoal schedule edit nightly -j shop.yaml
    """
    from shoal.cli import schedule_view

    schedule_view.edit(tenant, name, job, _timing(locals()), json=json)


@app.command("list")
def list_(tenant: AnyTenant = None, limit: Limit = 1_000, json: opt.Json = False) -> None:
    """List schedules: when each runs next, and what became of the last slot.

    shoal schedule list
    """
    from shoal.cli import schedule_view

    schedule_view.list_all(tenant, limit, json=json)


@app.command()
def show(name: Name, tenant: Tenant = "default", json: opt.Json = False) -> None:
    """Show a schedule with its job.

    shoal schedule show nightly
    """
    from shoal.cli import schedule_view

    schedule_view.show_one(tenant, name, json=json)


@app.command("next")
def next_(name: Name, slots: Slots = 10, tenant: Tenant = "default", json: opt.Json = False) -> None:
    """Show the slots to come, so that you see what an expression means, also around daylight saving.

    shoal schedule next nightly -n 5
    """
    from shoal.cli import schedule_view

    schedule_view.show_next(tenant, name, slots, json=json)


@app.command()
def pause(name: Name, tenant: Tenant = "default", json: opt.Json = False) -> None:
    """No more slots, until it is resumed; what runs goes on.

    shoal schedule pause nightly
    """
    from shoal.cli import schedule_view

    schedule_view.pause(tenant, name, json=json)


@app.command()
def resume(name: Name, tenant: Tenant = "default", json: opt.Json = False) -> None:
    """Go on from now; slots that have passed meanwhile were not missed.

    shoal schedule resume nightly
    """
    from shoal.cli import schedule_view

    schedule_view.resume(tenant, name, json=json)


@app.command()
def run(name: Name, force: Force = False, tenant: Tenant = "default", json: opt.Json = False) -> None:
    """Run it now, by its overlap policy, and print the job.

    shoal schedule run nightly
    """
    from shoal.cli import schedule_view

    schedule_view.run(tenant, name, force=force, json=json)


@app.command()
def history(name: Name, limit: Limit = 20, tenant: Tenant = "default", json: opt.Json = False) -> None:
    """List what became of a schedule's slots, the latest first.

    shoal schedule history nightly
    """
    from shoal.cli import schedule_view

    schedule_view.show_history(tenant, name, limit, json=json)


@app.command()
def rm(name: Name, yes: Yes = False, tenant: Tenant = "default", json: opt.Json = False) -> None:
    """Remove a schedule with its history; jobs that it has made stay.

    shoal schedule rm nightly --yes
    """
    from shoal.cli import schedule_view

    schedule_view.remove(tenant, name, yes=yes, json=json)


_TIMING = ("cron", "every", "timezone", "jitter", "start", "end", "catch_up", "overlap")
_OTHERS = ("proxy", "wait", "screenshot", "pdf", "output", "next", "duplicates")
"""Flags of a crawl that stand in the job file here."""


def _timing(given: dict[str, Any]) -> dict[str, Any]:
    """What was said about when; `none` takes it back."""
    said = {name: given[name] for name in _TIMING if given[name] is not None}
    return {name: None if value == "none" else value for name, value in said.items()}


def _job(given: dict[str, Any]) -> dict[str, Any]:
    settings = {name: value for name, value in given.items() if name not in (*_TIMING, "name", "tenant", "paused")}
    return {**dict.fromkeys(_OTHERS), **settings}
