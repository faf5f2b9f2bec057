"""`python -m shoal.drill.tether PARENT COMMAND…`: becomes the command, and ends with its parent however that ends."""

from __future__ import annotations

import os
import sys

from shoal.guardian import die_with_parent

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
