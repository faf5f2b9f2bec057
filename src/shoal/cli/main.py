"""The command line's entry: commands by group, errors as one message."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from shoal import __version__
from shoal.cli.commands import Commands
from shoal.cli.talk import say
from shoal.collector import look_rarely
from shoal.companions import do_without_companions
from shoal.errors import ShoalError

app = typer.Typer(
    name="shoal",
    cls=Commands,
    help="Crawl a whole site with one command, on a laptop or a fleet.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    from shoal.observe import set_up_logs

    set_up_logs("warning")  # on standard error, for every command; those that serve choose a level of their own


def main() -> None:
    """Run a command; every error of ours is one message and an exit code."""
    look_rarely()
    do_without_companions()
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
