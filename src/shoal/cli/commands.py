"""All commands by name: where each lives, and the line that help shows of it.

A command's module is imported when the command is used, and only then: `shoal status` need not wait for what
`shoal crawl` imports, nor `shoal --help` for anything.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

from shoal.core.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Generator


@frozen
class Entry:
    """A command that is not imported yet."""

    name: str
    place: str
    """`module:name` within this package; of a function, or of a group of commands."""
    summary: str
    """The first lines of its help."""


PANELS: dict[str, tuple[Entry, ...]] = {
    "Fetch": (
        Entry(
            "crawl",
            "run:crawl",
            "Crawl a site: follow links inside the start hosts, take fields, write results as they come.",
        ),
        Entry("scrape", "run:scrape", "Fetch just these URLs, without following links."),
        Entry(
            "map",
            "mapping:map",
            "List the URLs of a site: of its sitemaps, and of some pages that are fetched for their links.",
        ),
        Entry("resume", "run:resume", "Go on with a job that was stopped or paused. No stored page is fetched again."),
        Entry(
            "spiders",
            "spiders:spiders",
            "List the spiders and models that jobs can name: those of SHOAL_SPIDERS and of installed packages.",
        ),
        Entry(
            "try",
            "trying:try_",
            "Show what would come out of one page: items, what is empty or broken, what would be followed.",
        ),
        Entry("schedule", "schedule:app", "Submit a job again and again: every night, every six hours."),
    ),
    "Extract again": (
        Entry(
            "extract",
            "extract:extract",
            "Take other items from the pages that a job has stored, without fetching anything.",
        ),
        Entry(
            "diff",
            "extract:diff",
            "Compare two versions of a job's items: rows added, removed and changed, field by field.",
        ),
    ),
    "Jobs": (
        Entry("jobs", "jobs:jobs", "List jobs, newest first."),
        Entry("status", "jobs:status", "Show a job's state and sums."),
        Entry(
            "explain",
            "explain:explain",
            "Explain what became of a URL in a job, step by step: found where, filtered or refused by what, "
            "waiting for what.",
        ),
        Entry(
            "history",
            "history:history",
            "Show how a job has been doing, or everything: pages a second, errors by reason, what waits, for up "
            "to a week.",
        ),
        Entry(
            "changes",
            "changes:changes",
            "Say what is new, changed and gone since an earlier run: pages, or items field by field.",
        ),
        Entry(
            "results",
            "jobs:results",
            "Write a job's items, or its pages when it has no fields: JSON Lines, CSV, Parquet, SQLite.",
        ),
        Entry("deliver", "jobs:deliver", "Deliver a job's results: once more, or to somewhere else."),
        Entry(
            "fields",
            "quality:fields",
            "Show what the fields of a job's items look like: how many are filled, with what, how many different "
            "values.",
        ),
        Entry(
            "quarantine",
            "quality:quarantine",
            "Print the items that break a job's contract, with the reasons. They are not among its results.",
        ),
        Entry(
            "page",
            "jobs:page",
            "Print the stored body of a page, straight from the archive; of a rendered one, the document after "
            "all scripts.",
        ),
        Entry(
            "dead",
            "jobs:dead",
            "Print the requests that a job gave up on, with their reasons; or try them once more.",
        ),
        Entry("pause", "jobs:pause", "Stop handing out a job's requests; what is under way is finished."),
        Entry("cancel", "jobs:cancel", "Give a job up: drop all that waits, keep what is stored."),
        Entry("add", "jobs:add", "Send more URLs to an open job (`open: true`)."),
        Entry("close", "jobs:close", "Take no more URLs for an open job; it ends when it has done what it has."),
    ),
    "Operate": (
        Entry(
            "up",
            "up:up",
            "Run all of Shoal on this machine: API, workers and housekeeping, with an embedded Redis unless you "
            "have one.",
        ),
        Entry("top", "top:top", "Watch jobs, queues, hosts and workers; sort, pause and cancel by keys."),
        Entry(
            "logs",
            "logs:logs",
            "Show the log lines of this machine: of the API and the workers that commands started here.",
        ),
        Entry("api", "ops:api", "Serve the HTTP API, and nothing else: workers and the beat are for others to run."),
        Entry(
            "worker",
            "ops:worker",
            "Join the work: serve queues of the Redis that SHOAL_REDIS_URL names (else of the embedded one).",
        ),
        Entry("workers", "workers:app", "Look at the workers that live, and how many would be useful."),
        Entry(
            "beat",
            "ops:beat",
            "Call for the housekeeping every two seconds; a worker that serves `control` does it.",
        ),
        Entry(
            "flower",
            "flower:flower",
            "Show Celery's workers and slices in Flower, behind a password (SHOAL_FLOWER_PASSWORD, else made up "
            "and shown).",
        ),
        Entry(
            "recover",
            "recover:recover",
            "Rebuild jobs that Redis has lost, from the database and the archive. No stored page is fetched again.",
        ),
        Entry(
            "proxies",
            "proxies:proxies",
            "List the pools of SHOAL_PROXIES_FILE and their proxies: score, in flight, rest.",
        ),
        Entry(
            "prune",
            "prune:prune",
            "Remove jobs that ended long ago: rows, dead letters, submitted URLs and archive. Shows them first, "
            "and asks.",
        ),
        Entry(
            "doctor",
            "doctor:doctor",
            "Look for what is wrong: settings, Redis, broker, workers, database, disks, browser, network, clocks.",
        ),
        Entry(
            "drill",
            "drill:drill",
            "Crawl a local site while workers, Redis and the database are killed, frozen and locked; then count "
            "the pages.",
        ),
        Entry("db", "db:app", "Look at the database's schema, bring it up to date, or back to an older version."),
        Entry("frontier", "frontier:app", "Look at the Redis servers that hosts are spread over, and move hosts."),
        Entry("hosts", "hosts:app", "Look at hosts, set their limits, and read what was asked of them."),
        Entry("keys", "keys:app", "Make, list and revoke the keys of the API."),
        Entry("webhooks", "webhooks:app", "Let others be told what happens: add, test, pause and watch webhooks."),
    ),
}


class Commands(TyperGroup):
    """Shoal's commands, imported one by one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._imported = _Imported()
        self.commands = cast(Any, self._imported)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """None for what is no command; what goes wrong while one is imported is raised as it is."""
        return self.commands[cmd_name] if cmd_name in _BY_NAME else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """A line of each."""
        with self._imported.outlined():
            super().format_help(ctx, formatter)


class _Imported(MutableMapping[str, Any]):
    """Name → command, imported when it is asked for."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}
        self._outlined = False

    @contextmanager
    def outlined(self) -> Generator[None]:
        """For so long, commands have a name and a summary only."""
        self._outlined = True
        try:
            yield
        finally:
            self._outlined = False

    def __getitem__(self, name: str) -> Any:
        panel, entry = _BY_NAME[name]
        if self._outlined:
            return TyperCommand(name, help=entry.summary, rich_help_panel=panel)
        if name not in self._found:
            self._found[name] = load(entry)
        return self._found[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._found[name] = command

    def __delitem__(self, name: str) -> None:
        raise TypeError("commands stay")

    def __iter__(self) -> Iterator[str]:
        return iter(_BY_NAME)

    def __len__(self) -> int:
        return len(_BY_NAME)


_LIKE_ALL: dict[str, Any] = {"pretty_exceptions_short": True, "rich_markup_mode": "markdown"}
_BY_NAME = {entry.name: (panel, entry) for panel, entries in PANELS.items() for entry in entries}


def load(entry: Entry) -> Any:
    """Import a command."""
    module, _, name = entry.place.partition(":")
    found = getattr(import_module(f"shoal.cli.{module}"), name)
    if not isinstance(found, typer.Typer):
        return get_command_from_info(CommandInfo(entry.name, callback=found), **_LIKE_ALL)
    return get_group_from_info(TyperInfo(found), suggest_commands=True, **_LIKE_ALL)
