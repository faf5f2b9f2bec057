"""Connections to PostgreSQL, on which nobody waits for ever. Imported only where one is used: its driver is optional.

A server that is gone, or a network that swallows what is sent, is noticed by the kernel: TCP has limits here. A server
that is frozen, or a connection that somebody in between has forgotten, looks well from below. So a query that has not
been answered for a while makes us ask on another connection whether it is being worked on; if so, we wait on, since a
migration may take an hour.
"""

from __future__ import annotations

import time
from typing import Any, NoReturn, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import pq, sql
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo

from shoal import __version__
from shoal.errors import InputError
from shoal.store.database import HEAD

SILENCE_S = 5.0
"""After so long without an answer somebody asks whether the query is being worked on, and then again."""
DOUBT_S = 1.0
"""What was answered while somebody asked has come by then: only who hears nothing twice gives up."""
LIMITS: dict[str, int] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""In seconds, the last one in milliseconds."""
PROGRAM = f"shoal {__version__} schema {HEAD}"
"""What connections are called in `pg_stat_activity`."""
PREPARE = "prepare_threshold"
THEIR_LIMITS: dict[str, int] = {
    "tcp_keepalives_idle": 3,
    "tcp_keepalives_interval": 2,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 6_000,
}
"""For the server's end. Left to itself, it keeps a transaction of a machine that has lost its power or its network for
hours, and whoever wants the same locks waits. Theirs are shorter than ours: nobody else waits for ours."""
_SET_THEIRS = sql.SQL("SELECT {}").format(
    sql.SQL(", ").join(
        sql.SQL("set_config({}, {}, false)").format(name, str(value)) for name, value in THEIR_LIMITS.items()
    )
)
"""Not as options of the connection: some poolers refuse these."""
_FULL = ("too many clients", "connection slots are reserved")
"""libpq keeps the code of a refusal to itself, and has but its text."""
_LOOK = "SELECT pg_backend_pid(), (SELECT state FROM pg_stat_activity WHERE pid = %s)"

Answer = TypeVar("Answer")


class _Watched(psycopg.Connection[Any]):
    """A connection on which somebody looks up when no answer comes."""

    def wait(self, gen: PQGen[Answer], *args: Any, **kwargs: Any) -> Answer:
        """What every call on a connection goes through."""
        return super().wait(self._watched(gen), *args, **kwargs)

    def _watched(self, gen: PQGen[Answer]) -> PQGen[Answer]:
        """The same conversation; the driver says several times a second that nothing has come."""
        heard, doubt = time.monotonic(), ""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard, doubt = time.monotonic(), ""
                elif time.monotonic() - heard > (DOUBT_S if doubt else SILENCE_S):
                    found = self._look_up()
                    if found and doubt:
                        self._give_up(found)
                    heard, doubt = time.monotonic(), found
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _look_up(self) -> str:
        """Why no answer may come, unless it has just come; empty when one will. Gives up when none can."""
        self._give_up("the server is silent")

    def _give_up(self, why: str) -> NoReturn:
        self.pgconn.finish()
        raise psycopg.OperationalError(f"no answer for {SILENCE_S:g} s: {why}")


class PatientConnection(_Watched):
    """A connection whose queries may take as long as the server works on them."""

    def _look_up(self) -> str:
        try:
            with _Watched.connect(self.info.dsn, password=self.info.password or None, autocommit=True) as other:
                return _trouble_of(other, self.pgconn.backend_pid)
        except psycopg.Error as exc:
            self._give_up(str(exc))


def _trouble_of(other: psycopg.Connection[Any], backend: int) -> str:
    """Why no answer will come; empty when one may: a pooler in between has numbers of its own, and hides it."""
    ((own, state),) = other.execute(_LOOK, (backend,)).fetchall()
    if own != other.pgconn.backend_pid or state == "active":
        return ""
    return f"the server knows of no such query ({state or 'no such connection'})"


def driver_url(url: sa.URL) -> sa.URL:
    """The URL with the driver that Shoal brings along, unless it names one."""
    return url.set(drivername="postgresql+psycopg") if url.drivername in ("postgresql", "postgres") else url


def connect(_dialect: object, _record: object, args: list[Any], parameters: dict[str, Any]) -> PatientConnection:
    """A new connection, for SQLAlchemy's event of this name; what the URL says is stronger than our limits."""
    connection = PatientConnection.connect(*args, **{**LIMITS, "application_name": PROGRAM, **_read(parameters)})
    try:
        connection.autocommit = True
        connection.execute(_SET_THEIRS)
        connection.autocommit = False
    except BaseException:
        connection.close()
        raise
    return connection


def _read(parameters: dict[str, Any]) -> dict[str, Any]:
    """What a URL spells and the driver wants as a number: how often before a statement is prepared, or `none`."""
    text = str(parameters.get(PREPARE, ""))
    if not text:
        return parameters
    if not (text.isdigit() or text == "none"):
        raise InputError(f"SHOAL_DATABASE_URL: {PREPARE} is a number, or none for a pooler that cannot prepare")
    return {**parameters, PREPARE: None if text == "none" else int(text)}


def refuses(url: str) -> bool:
    """Is the server well, and does not let us in? Not while it is away, starting, stopping or full."""
    chosen = driver_url(sa.make_url(url))
    _, parameters = chosen.get_dialect()().create_connect_args(chosen)
    known = {name: value for name, value in parameters.items() if name != PREPARE}
    conninfo = make_conninfo("", **{**LIMITS, **known})
    if pq.PGconn.ping(conninfo.encode()) in (pq.Ping.REJECT, pq.Ping.NO_RESPONSE):
        return False
    try:
        psycopg.connect(conninfo).close()  # it may have come just now
    except psycopg.Error as exc:
        return not any(words in str(exc) for words in _FULL)
    return False
