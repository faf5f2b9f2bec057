"""Counts SQL statements: Python imports this before all else where its folder is in `PYTHONPATH`.

Each call of the database's driver appends a byte to the file that `COUNTED_STATEMENTS` names; a batch of rows is one
call. The file is all that the processes of a run share.
"""

import os

from sqlalchemy import event
from sqlalchemy.engine import Engine

_file = os.open(os.environ["COUNTED_STATEMENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@event.listens_for(Engine, "before_cursor_execute")
def _count(*_call: object) -> None:
    os.write(_file, b".")
