"""Commands about the database's schema. Looking changes nothing; who would be hurt by a change is asked about first."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal import __version__
from shoal.cli import options as opt
from shoal.cli.talk import counted, print_json, say, show
from shoal.core.frozen import frozen
from shoal.core.redact import without_login
from shoal.errors import Conflict, InputError, RedisUnavailable
from shoal.home import make_home
from shoal.settings import Settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.store.inspection import Sight
    from shoal.store.schema import Migration
    from shoal.upgrades import AtWork

WAIT_S = 5.0
"""For SQLite's lock."""

Revision = Annotated[str, typer.Argument(help="The version to go back to, such as 0014.", show_default=False)]
# These have no variable: one that was exported long ago must change no database.
Force = Annotated[bool, typer.Option("--force", help="Also while somebody is at work who will fail from then on.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

app = typer.Typer(
    name="db",
    help="Look at the database's schema, bring it up to date, or back to an older version.",
    no_args_is_help=True,
)


@frozen
class Look:
    """The database as it stands."""

    shown: str
    sight: Sight | None
    """None: there is none yet."""
    pending: Sequence[Migration]
    at_work: AtWork | None
    """None: Redis, which knows the workers, cannot be asked."""
    trouble: str = ""
    """Why it cannot."""

    @property
    def revision(self) -> str | None:
        return self.sight.revision if self.sight else None


@app.command()
def status(json: opt.Json = False) -> None:
    """Show which version the schema has, which one this Shoal needs, what lies between them, and who is at work.

    shoal db status

    shoal db status --json
    """
    look = _look(read_settings())
    if json:
        print_json(_as_json(look))
    else:
        _show(look)


@app.command()
def upgrade(force: Force = False, json: opt.Json = False) -> None:
    """Bring the schema up to date, beside those who are at work if they can live with it; else it is refused.

    shoal db upgrade

    shoal db upgrade --force
    """
    settings = read_settings()
    make_home(settings.home)
    before = _look(settings)
    if before.pending and not force:
        _check_upgrade(before)
    _upgrade(settings)
    after = _look(settings)
    if json:
        print_json({**_as_json(after), "from": before.revision, "applied": [asdict(each) for each in before.pending]})
    elif before.pending:
        say(f"the schema of {after.shown} is {after.revision} now; it was {before.revision or 'empty'}")
    else:
        say(f"the schema of {after.shown} is {after.revision}: there is nothing to do")


@app.command()
def downgrade(revision: Revision, yes: Yes = False, force: Force = False, json: opt.Json = False) -> None:
    """Go back to an older schema, for the Shoal that made it. What newer versions have stored beside it is lost.

    shoal db downgrade 0014

    shoal db downgrade 0014 --yes
    """
    settings = read_settings()
    before = _look(settings)
    undone = _to_undo(before, revision)
    if undone and not force:
        _check_downgrade(before)
    if undone and not yes:
        _ask(before, revision, undone)
    if undone:
        _downgrade(settings, revision)
    if json:
        print_json({**_as_json(_look(settings)), "from": before.revision, "undone": [asdict(each) for each in undone]})
    elif undone:
        say(f"the schema of {before.shown} is {revision} now; it was {before.revision}")
        say(f"start the Shoal that made it: this one, {__version__}, would bring it up to date again")
    else:
        say(f"the schema of {before.shown} is {before.revision}: there is nothing to do")


def _look(settings: Settings) -> Look:
    from shoal.store.inspection import inspected, sqlite_file
    from shoal.store.schema import pending
    from shoal.upgrades import who_works

    shown, file = without_login(settings.sql_url), sqlite_file(settings.sql_url)
    if file and not file.exists():
        return Look(shown, None, pending(None), None)
    with inspected(settings.sql_url, WAIT_S) as database:
        sight = database.see()
        at_work, trouble = None, ""
        try:
            at_work = who_works(settings, database.connection)
        except RedisUnavailable as exc:
            trouble = str(exc)
    return Look(shown, sight, pending(sight.revision), at_work, trouble)


def _check_upgrade(look: Look) -> None:
    """Raises Conflict when somebody at work could not go on."""
    breaking = [each.revision for each in look.pending if not each.additive]
    strangers = look.at_work.strangers if look.at_work else []
    if look.revision is None or not (strangers or look.trouble):
        return
    if not breaking:
        say("those of another version who are at work can go on: everything that is missing is additive")
        return
    from shoal.upgrades import told

    who = f"are at work: {told(strangers)}" if strangers else f"may be at work: {look.trouble}"
    raise Conflict(
        f"not changed: {', '.join(breaking)} would break processes of another version, which {who}. Stop them first, "
        "what waits in Redis waits; or say --force"
    )


def _to_undo(look: Look, revision: str) -> list[Migration]:
    from shoal.store.schema import migrations

    known = migrations()
    names = [each.revision for each in known]
    if revision not in names:
        raise InputError(f"there is no schema {revision!r}; this Shoal knows {', '.join(names)}")
    if look.revision is None:
        raise InputError(f"{look.shown} has no tables of Shoal's")
    if look.revision not in names:
        raise InputError(
            f"{look.shown} has the schema {look.revision}, which this Shoal does not know: use a newer one"
        )
    if revision > look.revision:
        raise InputError(f"{look.shown} has the schema {look.revision}, which is older; `shoal db upgrade` goes up")
    return [each for each in reversed(known) if revision < each.revision <= look.revision]


def _check_downgrade(look: Look) -> None:
    """Raises Conflict when somebody is at work, of any version."""
    from shoal.upgrades import told

    everybody = look.at_work.all if look.at_work else []
    if everybody or look.trouble:
        who = f"at work: {told(everybody)}" if everybody else f"nobody knows who is at work: {look.trouble}"
        raise Conflict(f"not changed: {who}. Stop workers and APIs first; or say --force")


def _ask(look: Look, revision: str, undone: Sequence[Migration]) -> None:
    for each in undone:
        say(f"undo {each.revision}: {each.about}")
    if not sys.stdin.isatty():
        raise InputError("nobody is here to ask: say --yes to go back; what these versions have stored is lost")
    say(f"Take {look.shown} back to {revision}? What these versions have stored is lost. [y/N] ")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        say("nothing was changed")
        raise typer.Exit(1)


def _upgrade(settings: Settings) -> None:
    from shoal.store.database import open_database

    open_database(settings.sql_url).dispose()


def _downgrade(settings: Settings, revision: str) -> None:
    from shoal.store.database import make_engine
    from shoal.store.schema import downgrade as go_back
    from shoal.store.trouble import translated_errors

    engine = make_engine(settings.sql_url)
    try:
        with translated_errors():
            go_back(engine, revision)
    finally:
        engine.dispose()


def _as_json(look: Look) -> dict[str, Any]:
    from shoal.store.database import HEAD

    workers = look.at_work.workers if look.at_work else ()
    return {
        "database": look.shown,
        "schema": look.revision,
        "needed": HEAD,
        "version": __version__,
        "usable_from": look.sight.usable_from if look.sight else None,
        "up_to_date": look.revision == HEAD,
        "pending": [asdict(each) for each in look.pending],
        "made_by": look.sight.made_by if look.sight else None,
        "workers": [{"name": each.name, "version": each.version, "schema": each.schema} for each in workers],
        "connections": look.at_work.connections if look.at_work else {},
        "trouble": look.trouble,
    }


def _show(look: Look) -> None:
    from shoal.store.database import HEAD

    show(f"database  {look.shown}")
    show(f"schema    {look.revision or 'none yet'}")
    show(f"needed    {HEAD}, by Shoal {__version__}")
    for each in look.pending if look.revision else ():
        kind = "additive" if each.additive else "breaks older processes"
        show(f"pending   {each.revision}  {each.about} ({kind})")
    if look.at_work:
        for name in look.at_work.all or ["nobody"]:
            show(f"at work   {name}")
    if look.trouble:
        say(f"who is at work is not known: {look.trouble}")
    if look.revision and look.revision > HEAD:
        usable = look.sight and look.sight.usable_from and look.sight.usable_from <= HEAD
        maker = f"Shoal {look.sight.made_by}" if look.sight and look.sight.made_by else "the Shoal that made it"
        back = f"install {maker} or a newer one, or take the schema back with that one: shoal db downgrade {HEAD}"
        say("it is newer than this Shoal, which can work with it" if usable else f"it is newer than this Shoal: {back}")
    elif look.pending:
        steps = counted(len(look.pending), "version")
        say(f"{steps} behind; bring it up to date with: shoal db upgrade")
