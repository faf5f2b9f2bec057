"""The command line's entry: commands by group, errors as one message."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shoal import __version__
from shoal.cli import (
    changes,
    drill,
    explain,
    extract,
    flower,
    history,
    hosts,
    jobs,
    keys,
    logs,
    mapping,
    ops,
    proxies,
    prune,
    quality,
    recover,
    run,
    schedule,
    spiders,
    top,
    trying,
    up,
    webhooks,
)
from shoal.cli.talk import say
from shoal.errors import ShoalError
from shoal.observe import set_up_logs

app = typer.Typer(
    name="shoal",
    help="Crawl a whole site with one command, on a laptop or a fleet.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command in (run.crawl, run.scrape, mapping.map, run.resume, spiders.spiders):
    app.command(rich_help_panel="Fetch")(_command)
app.command("try", rich_help_panel="Fetch")(trying.try_)
for _command in (extract.extract, extract.diff):
    app.command(rich_help_panel="Extract again")(_command)
for _command in (
    jobs.jobs,
    jobs.status,
    explain.explain,
    history.history,
    changes.changes,
    jobs.results,
    jobs.deliver,
    quality.fields,
    quality.quarantine,
    jobs.page,
    jobs.dead,
    jobs.pause,
    jobs.cancel,
    jobs.add,
    jobs.close,
):
    app.command(rich_help_panel="Jobs")(_command)
for _command in (
    up.up,
    top.top,
    logs.logs,
    ops.api,
    ops.worker,
    ops.beat,
    flower.flower,
    recover.recover,
    proxies.proxies,
    prune.prune,
    drill.drill,
):
    app.command(rich_help_panel="Operate")(_command)
app.add_typer(schedule.app, rich_help_panel="Fetch")
app.add_typer(hosts.app, rich_help_panel="Operate")
app.add_typer(keys.app, rich_help_panel="Operate")
app.add_typer(webhooks.app, rich_help_panel="Operate")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"shoal {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Crawl a whole site with one command, on a laptop or a fleet."""
    del version
    set_up_logs("warning")  # on standard error, for every command; those that serve choose a level of their own


def main() -> None:
    """Run a command; every error of ours is one message and an exit code."""
    try:
        app()
    except ShoalError as exc:
        say(f"shoal: {exc}")
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        say("stopped")
        sys.exit(130)
    except SystemExit as exc:
        if isinstance(exc.__context__, BrokenPipeError):  # who reads has had enough; to Click that is an error
            sys.exit(0)
        raise
    except OSError as exc:
        say(f"shoal: {exc.strerror or exc}" + (f": {exc.filename}" if exc.filename else ""))
        sys.exit(1)
