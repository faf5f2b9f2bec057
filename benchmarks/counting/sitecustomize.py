"""Counts SQL statements: Python imports this before all else where its folder is in `PYTHONPATH`.

Each call of the database's driver appends a byte to the file that `COUNTED_STATEMENTS` names; a batch of rows is one
call. The file is all that the processes of a run share; a fork closes what it was given, so each call opens it anew.
"""

import os

from sqlalchemy import event
from sqlalchemy.engine import Engine

_NAME = os.environ["COUNTED_STATEMENTS"]


@event.listens_for(Engine, "before_cursor_execute")
def _count(*_call: object) -> None:
    file = os.open(_NAME, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, b".")
    os.close(file)
