"""Commands about hosts. What they do is in `host_view`, imported when one is called."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from shoal.cli import options as opt

State = Annotated[
    Literal["open", "at_cap", "slowed", "held", "tripped", "down", "paused"] | None,
    typer.Option(envvar="SHOAL_HOST_STATE", help="Only hosts in this state.", show_default=False),
]
Limit = Annotated[int, typer.Option(envvar="SHOAL_LIMIT", min=1, max=100_000, help="How many to list.")]
Name = Annotated[
    str,
    typer.Argument(metavar="HOST", show_default=False,
                   help="A host, shop.example or shop.example:8080, or a URL of it; @example.org is the bucket that "
                        "the hosts of a domain share (SHOAL_GROUP_BY=domain)."),
]  # fmt: skip
Rate = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_HOST_RATE", show_default=False,
                 help="Requests a second, for all jobs: 4, 30/m, unlimited; or none, which leaves it to the others."),
]  # fmt: skip
Parallel = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_HOST_PARALLEL", show_default=False,
                 help="Requests at once, for all jobs: 1, unlimited; or none, which leaves it to the others."),
]  # fmt: skip
Paused = Annotated[
    bool | None,
    typer.Option("--pause/--resume", envvar="SHOAL_HOST_PAUSED", show_default=False,
                 help="Hand out nothing for it, until it is resumed."),
]  # fmt: skip
Hold = Annotated[
    float | None,
    typer.Option(envvar="SHOAL_HOST_HOLD", min=0, max=86_400, metavar="SECONDS", show_default=False,
                 help="Hand out nothing for it during this time; 0 ends a hold. This alone is not kept for good."),
]  # fmt: skip
Note = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_HOST_NOTE", help="For people: who agreed to this, and when.", show_default=False),
]
Since = Annotated[
    str | None,
    typer.Option(envvar="SHOAL_SINCE", show_default=False,
                 help="From then on: 90s, 15m, 2h, 7d ago, or a time such as 2026-11-01 or 2026-11-01T08:00 (UTC)."),
]  # fmt: skip
Until = Annotated[
    str | None, typer.Option(envvar="SHOAL_UNTIL", help="Before then; written likewise.", show_default=False)
]
Entries = Annotated[
    int | None,
    typer.Option("--limit", envvar="SHOAL_LIMIT", min=1, show_default=False,
                 help="At most so many entries, the last ones. [default: 20 in the table and JSON, else all]"),
]  # fmt: skip
Format = Annotated[
    Literal["table", "csv", "jsonl", "json"] | None,
    typer.Option("--format", envvar="SHOAL_FORMAT", show_default=False,
                 help="table for people, csv and jsonl of all entries, json with the sums. [default: by the ending of "
                      "--output, else table]"),
]  # fmt: skip
Output = Annotated[
    str, typer.Option("--output", "-o", envvar="SHOAL_OUTPUT", help="Write it here; - for standard output.")
]

_HELP = """Look at hosts, set their limits, and read what was asked of them.

Alone it lists hosts, the last used first: state, limits and whose they are, and why.

shoal hosts --state slowed

shoal hosts set shop.example --rate 30/m --note "agreed with their admin"
"""

app = typer.Typer(name="hosts", help=_HELP, invoke_without_command=True)


@app.callback()
def list_hosts(context: typer.Context, state: State = None, limit: Limit = 50, json: opt.Json = False) -> None:
    """List hosts, unless another command follows."""
    if context.invoked_subcommand is None:
        from shoal.cli import host_view

        host_view.list_hosts(state, limit, json=json)


@app.command()
def show(host: Name, json: opt.Json = False) -> None:
    """Show all that is known of a host: limits, decisions with their reasons, robots.txt.

    shoal hosts show shop.example
    """
    from shoal.cli import host_view

    host_view.show_host(host, json=json)


@app.command("set")
def set_limits(
    host: Name,
    rate: Rate = None,
    parallel: Parallel = None,
    pause: Paused = None,
    hold: Hold = None,
    note: Note = None,
    json: opt.Json = False,
) -> None:
    """Set a host's limits or pause it, for all jobs and for good; stronger than what jobs and robots.txt say.

    shoal hosts set shop.example --rate 30/m --parallel 1 --note "agreed by mail, 2 November"

    shoal hosts set shop.example --pause

    shoal hosts set shop.example --hold 600
    """
    from shoal.cli import host_view

    host_view.set_limits(host, host_view.read_change(rate, parallel, pause, hold), note, json=json)


@app.command()
def unset(host: Name, json: opt.Json = False) -> None:
    """Take back all that was set for a host; what the file of hosts says holds again.

    shoal hosts unset shop.example
    """
    from shoal.cli import host_view

    host_view.unset(host, json=json)


@app.command()
def audit(
    host: Name,
    since: Since = None,
    until: Until = None,
    limit: Entries = None,
    format: Format = None,  # noqa: A002 - the flag's name
    output: Output = "-",
    json: opt.Json = False,
) -> None:
    """Print what was asked of a host: when, by which job, under which limit and version of robots.txt.

    shoal hosts audit shop.example --since 2h

    shoal hosts audit shop.example --since 2h --json

    shoal hosts audit shop.example --since 2026-11-01 --until 2026-11-02 -o shop.csv
    """
    from shoal.cli import host_audit

    kind = host_audit.read_kind(format, output, json=json)
    host_audit.audit(host, host_audit.read_period(since, until), limit, kind, output)
