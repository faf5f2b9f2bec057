"""How a command shows a job: where results go, in which format, and how much is said."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shoal.core.frozen import frozen
from shoal.errors import InputError
from shoal.output.sending import check_target, is_url, is_whole


@frozen
class View:
    """What the user asked to see."""

    output: str | None = None
    format: str | None = None
    quiet: bool = False
    json: bool = False

    @property
    def on_screen(self) -> bool:
        """Do results go to the terminal?"""
        return self.output == "-" and sys.stdout.isatty()

    @property
    def is_whole(self) -> bool:
        """Are results written when the job has ended, as one file, rather than as they come?"""
        return self.output is not None and is_whole(self.output, check_target(self.output, self.format))

    def check(self) -> None:
        """Find out now what would fail when the first result comes."""
        check_target(self.output or "-", self.format)
        if self.output and self.output != "-" and not is_url(self.output):
            path = Path(self.output).expanduser()
            if path.is_dir() or (path.exists() and not os.access(path, os.W_OK)):
                raise InputError(f"cannot write {self.output}: it is a folder, or may not be written")
            if not os.access(path.parent, os.W_OK):
                raise InputError(f"cannot write {self.output}: no folder {path.parent} that can be written")
