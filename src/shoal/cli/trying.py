"""`shoal try`: what would come out of one page. A real job fetches it, unless one has done so within the last hour."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import options as opt
from shoal.cli.jobfile import make_spec, read_params
from shoal.cli.run import asked_of_browser, engine_of
from shoal.core.template import count_all
from shoal.errors import InputError
from shoal.settings import read_settings
from shoal.spiders.finder import find_spider
from shoal.spiders.finder import use as use_spiders
from shoal.spiders.models import check_named

Page = Annotated[str, typer.Argument(help="The page.", show_default=False)]
Callback = Annotated[
    str | None,
    typer.Option("--callback", envvar="SHOAL_CALLBACK", help="Which callback of the spider gets the page."),
]
Meta = Annotated[
    list[str] | None,
    typer.Option("--meta", envvar="SHOAL_META", help="What the spider has sent along: NAME=VALUE, as for --param."),
]
Fresh = Annotated[bool, typer.Option("--fresh", envvar="SHOAL_FRESH", help="Fetch it, whatever is stored.")]


def try_(
    url: Page,
    job: opt.JobFile = None,
    field: opt.FieldOption = None,
    each: opt.Each = None,
    take: opt.TakeOption = None,
    spider: opt.Spider = None,
    callback: Callback = None,
    param: opt.Param = None,
    meta: Meta = None,
    header: opt.Header = None,
    browser: opt.Browser = False,
    auto: opt.Auto = False,
    wait: opt.Wait = None,
    robots: opt.Robots = None,
    timeout: opt.Timeout = None,
    fresh: Fresh = False,
    workers: opt.Workers = 1,
    quiet: opt.Quiet = False,
    json: opt.Json = False,
) -> None:
    """Show what would come out of one page: items, what is empty or broken, what would be followed.

    shoal try https://books.example/books/1 --field title=h1 --field price:money=.price

    shoal try https://books.example/ --spider books
    """
    engine = engine_of(browser=browser, auto=auto)
    flags = {
        "urls": [url], "each": each, "formats": take, "spider": spider, "robots": robots, "timeout": timeout,
        "engine": engine,
    }  # fmt: skip
    spec = make_spec(job, flags, field or (), header or (), (), asked_of_browser(engine, job, wait=wait), param or ())
    if count_all(spec.urls) != 1:
        raise InputError(f"{url} stands for {count_all(spec.urls)} URLs: try one of them")
    settings = read_settings()
    use_spiders(settings.spiders)
    check_named(spec)
    if (callback or meta) and not spec.spider:
        raise InputError("--callback and --meta are for a spider: name it with --spider")
    if callback:
        find_spider(spec.spider).callback(callback, 0)

    from shoal.cli.trial import Trial

    trial = Trial(spec, settings, callback or "", read_params(meta or ()), quiet=quiet, json=json)
    raise typer.Exit(trial.run(workers, fresh=fresh))
