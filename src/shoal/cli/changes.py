"""The command about what has changed since an earlier run. What it does is in `show_changes`."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import options as opt

Job = Annotated[
    str,
    typer.Argument(help="A job's id, or its first letters; or a name, for the newest job of it.", show_default=False),
]
Since = Annotated[
    str | None,
    typer.Option("--since", envvar="SHOAL_SINCE_RUN", show_default=False,
                 help="The run to compare with: a job's id, or its first letters. [default: the newest finished job "
                      "of the same name before it]"),
]  # fmt: skip
Items = Annotated[bool, typer.Option("--items", envvar="SHOAL_ITEMS", help="Compare items instead of pages.")]
Kinds = Annotated[
    str | None,
    typer.Option("--kind", envvar="SHOAL_CHANGE_KIND", show_default=False,
                 help="Only these: new, changed, gone, unchanged, unknown; several with commas. [default: all but "
                      "unchanged]"),
]  # fmt: skip
Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="SHOAL_URL", show_default=False, help="What became of this page, with its difference."
    ),
]
Diff = Annotated[
    bool, typer.Option("--diff", envvar="SHOAL_DIFF", help="With the lines that were added to each page and removed.")
]
Key = Annotated[
    str | None,
    typer.Option("--key", envvar="SHOAL_KEY", show_default=False,
                 help="Items with the same value of this field are the same. [default: what the job says]"),
]  # fmt: skip
Rows = Annotated[
    int, typer.Option("--rows", envvar="SHOAL_ROWS", min=0, help="Changes to show to people; programs get all.")
]
ExitCode = Annotated[
    bool,
    typer.Option("--exit-code", envvar="SHOAL_EXIT_CODE", help="End with 1 when anything is new, changed or gone."),
]


def changes(
    job: Job,
    since: Since = None,
    items: Items = False,
    kind: Kinds = None,
    url: Url = None,
    diff: Diff = False,
    key: Key = None,
    rows: Rows = 20,
    exit_code: ExitCode = False,
    output: opt.Output = None,
    format: opt.Format = None,  # noqa: A002 - the flag's name
    json: opt.Json = False,
) -> None:
    """Say what is new, changed and gone since an earlier run: pages, or items field by field.

    shoal changes k3x9

    shoal changes k3x9 --since a7b2 --kind changed --diff

    shoal changes k3x9 --items --key sku -o changes.csv

    shoal changes k3x9 --url https://books.example/book/1
    """
    from shoal.cli import show_changes

    asked = show_changes.Asked(job, since, items, show_changes.read_kinds(kind), diff, key, rows, output, format, json)
    differs = show_changes.show_page(asked, url) if url else show_changes.show_all(asked)
    raise typer.Exit(int(differs and exit_code))
