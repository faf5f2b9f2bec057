"""How often a host is asked for what pages need besides themselves: one pace for all pages of a process."""

from __future__ import annotations

BURST_S = 0.5
"""What may be asked in this time may be asked at once: pages want many things in their first moment."""
MAX_HOSTS = 10_000


class Pace:
    """When each host may be asked next. Who asks keeps the turn, and waits for it."""

    def __init__(self) -> None:
        self._spoken_for: dict[str, float] = {}
        """Host → until when its turns are taken."""

    def turn(self, host: str, rate: float, now: float, within: float) -> float | None:
        """Take the host's next turn; how many seconds to wait for it. None, and no turn, when that is too long."""
        step = 1 / rate
        taken = max(self._spoken_for.get(host, 0.0), now) + step
        wait = max(0.0, taken - max(BURST_S, step) - now)
        if wait > within:
            return None
        if host not in self._spoken_for and len(self._spoken_for) >= MAX_HOSTS:
            self._forget(now)
        self._spoken_for[host] = taken
        return wait

    def _forget(self, now: float) -> None:
        self._spoken_for = {host: taken for host, taken in self._spoken_for.items() if taken > now}
        if len(self._spoken_for) >= MAX_HOSTS:
            self._spoken_for.clear()
