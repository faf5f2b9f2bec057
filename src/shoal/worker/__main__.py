"""`python -m shoal.worker`: a worker configured by SHOAL_* variables alone, without the command line's imports.

This is what a foreground command starts, because its user waits for the first page.
"""

from __future__ import annotations

import sys

from shoal.errors import ShoalError
from shoal.settings import read_settings
from shoal.worker.serve import serve

if __name__ == "__main__":
    try:
        sys.exit(serve(read_settings()))
    except ShoalError as exc:
        print(f"shoal worker: {exc}", file=sys.stderr)
        sys.exit(exc.exit_code)
