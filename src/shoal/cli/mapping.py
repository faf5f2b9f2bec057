"""`shoal map`: the URLs of a site, by its sitemaps and a shallow crawl, printed as they are found.

It is a job like any other, in two parts: first the sitemaps and some of their pages, with half of what may be fetched,
then the start URL and what it links to. All that was fetched is read once more, from the archive, for the URLs in it.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli import options as opt
from shoal.cli.crew import Crew
from shoal.cli.interrupts import Interrupts, noted_interrupts
from shoal.cli.jobfile import read_headers
from shoal.cli.output import open_text
from shoal.cli.run import DEFAULT_WORKERS, make_ready, number_or_word
from shoal.cli.sink import Sink
from shoal.cli.talk import counted, say
from shoal.cli.view import View
from shoal.core.sitemaps import ROBOTS
from shoal.core.spec import JobSpec, read_spec
from shoal.core.url import Url, parse
from shoal.settings import Settings

PAGES, LIMIT, MOST = 50, 5_000, 1_000_000
"""Pages fetched and URLs printed unless somebody says otherwise; URLs at the most, each of which is remembered."""

Start = Annotated[str, typer.Argument(help="The site, or a part of it.", show_default=False)]
Search = Annotated[
    str | None, typer.Option("--search", envvar="SHOAL_SEARCH", help="Only URLs with this text in them.")
]
Most = Annotated[int, typer.Option("--limit", envvar="SHOAL_LIMIT", min=1, max=MOST, help="At most this many URLs.")]
Fetched = Annotated[int, typer.Option("--pages", envvar="SHOAL_PAGES", min=1, help="Fetch at most so many pages.")]
Levels = Annotated[int, typer.Option("--depth", envvar="SHOAL_DEPTH", min=0, help="Fetch pages so many links away.")]
Lines = Annotated[
    str | None,
    typer.Option("--output", "-o", envvar="SHOAL_OUTPUT", help="Write the URLs here; with more about each if .jsonl."),
]


def map(  # noqa: A001 - the command's name
    url: Start,
    search: Search = None,
    since: opt.Since = None,
    limit: Most = LIMIT,
    pages: Fetched = PAGES,
    depth: Levels = 1,
    host: opt.Host = None,
    allow: opt.Allow = None,
    deny: opt.Deny = None,
    header: opt.Header = None,
    rate: opt.RateOption = None,
    parallel: opt.ParallelOption = None,
    robots: opt.Robots = None,
    workers: opt.Workers = DEFAULT_WORKERS,
    output: Lines = None,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> None:
    """List the URLs of a site: of its sitemaps, and of some pages that are fetched for their links.

    shoal map https://books.example/ --search /book/

    shoal map https://books.example/ --since 7d --json -o changed.jsonl
    """
    start = parse(url)
    flags: dict[str, Any] = {
        "since": since, "pages": pages, "depth": depth, "allow": allow, "deny": deny, "rate": rate, "robots": robots,
        "parallel": number_or_word(parallel), "headers": read_headers(header or ()),
    }  # fmt: skip
    given = {name: value for name, value in flags.items() if value is not None}
    name = f"map of {start.host}"[:200]
    spec = read_spec({**given, "urls": [url], "hosts": [start.host, *(host or ())], "name": name}, "the map")
    view = View(output or "-", None, quiet)
    view.check()
    spec, settings = make_ready(spec, lambda: [""], workers=workers)
    first = {"urls": (), "open": True, "pages": max(1, pages // 2), "sitemaps": (f"{start.origin}{ROBOTS}",)}
    with ExitStack() as stack:
        interrupts = stack.enter_context(noted_interrupts())
        crew = stack.enter_context(Crew(settings, workers))
        file = stack.enter_context(open_text(view.output or "-"))
        as_json = json or Path(view.output or "-").suffix in (".json", ".jsonl")
        sink = Sink(file, search or "", limit, as_json=as_json)
        code = _run(spec.model_copy(update=first), start, max(2, pages), crew, view, interrupts, sink, settings)
    raise typer.Exit(code)


def _run(
    spec: JobSpec,
    start: Url,
    pages: int,
    crew: Crew,
    view: View,
    interrupts: Interrupts,
    sink: Sink,
    settings: Settings,
) -> int:
    from shoal.cli.follow import INTERRUPTED, follow
    from shoal.cli.survey import Survey
    from shoal.wiring import open_platform

    with open_platform(settings, rings=crew.absent) as platform:
        interrupts.check()
        platform.recovery.look()
        job = platform.intake.submit(spec).job
        code = follow(platform, job, crew, view, interrupts, Survey(platform, job, spec, start, pages, sink))
        if code == INTERRUPTED:
            platform.control.cancel(job)
            say(f"job {job} is cancelled: a map is made anew")
        elif sink.is_full:
            say(f"stopped by --limit: {counted(sink.written, 'URL')}")
            code = 0
        crew.stop()
        return code
