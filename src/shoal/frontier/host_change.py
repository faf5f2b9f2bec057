"""An operator's word on a host, as a change of what was said before."""

from __future__ import annotations

from datetime import timedelta
from enum import Enum

from shoal.core.frozen import frozen
from shoal.frontier.scripts import Arg
from shoal.frontier.wire import ms, or_none


class Keep(Enum):
    """No change."""

    KEEP = "keep"


KEEP = Keep.KEEP


@frozen
class HostChange:
    """An operator's word on a host: None takes a limit back to what the jobs say, 0 is unlimited."""

    rate: float | Keep | None = KEEP
    parallel: int | Keep | None = KEEP
    paused: bool | Keep = KEEP
    hold: timedelta | Keep = KEEP
    """Ask it for nothing during this time; zero ends a hold."""

    def pairs(self) -> list[Arg]:
        """What changes, as `configure_host` takes it."""
        found: list[Arg] = []
        if not isinstance(self.rate, Keep):
            found += ("rate", or_none(self.rate))
        if not isinstance(self.parallel, Keep):
            found += ("parallel", or_none(self.parallel))
        if not isinstance(self.paused, Keep):
            found += ("paused", 1 if self.paused else "")
        if not isinstance(self.hold, Keep):
            found += ("hold", ms(self.hold) if self.hold else "")
        return found
