"""`python -m shoal.api`: the API configured by SHOAL_* variables alone, without the command line's imports."""

from __future__ import annotations

import sys

from shoal.collector import look_rarely
from shoal.companions import do_without_companions
from shoal.errors import ShoalError
from shoal.guardian import die_with_parent
from shoal.settings import read_settings

if __name__ == "__main__":
    look_rarely()
    do_without_companions()
    try:
        settings = read_settings()
        if settings.parent is not None:
            die_with_parent(settings.parent)  # before the long imports: the command may be killed meanwhile
        from shoal.api.serve import serve

        sys.exit(serve(settings, settings.log_level))
    except ShoalError as exc:
        print(f"shoal api: {exc}", file=sys.stderr)
        sys.exit(exc.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
