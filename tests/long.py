"""SHOAL_TEST_LONG=1 turns the short versions of slow tests into the long ones."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("SHOAL_TEST_LONG"))
