"""`python -m shoal.worker`: a worker configured by SHOAL_* variables alone, without the command line's imports.

This is what a foreground command starts, because its user waits for the first page.
"""

from __future__ import annotations

import sys

from shoal.collector import look_rarely
from shoal.errors import ShoalError
from shoal.guardian import die_with_parent
from shoal.settings import read_settings

if __name__ == "__main__":
    look_rarely()
    try:
        settings = read_settings()
        if settings.parent is not None:
            die_with_parent(settings.parent)  # before the long imports: the command may be killed meanwhile
        from shoal.worker.serve import serve

        sys.exit(serve(settings, settings.log_level))
    except ShoalError as exc:
        print(f"shoal worker: {exc}", file=sys.stderr)
        sys.exit(exc.exit_code)
