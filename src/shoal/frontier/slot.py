"""One slot of a frontier that is spread over servers: a frontier of its own, with what only slots do."""

from __future__ import annotations

from collections.abc import Sequence

from shoal.core.frozen import frozen
from shoal.core.model import AdmitReport, JobState, Request
from shoal.frontier.frontier import ADMIT_AT_ONCE, Frontier
from shoal.frontier.scripts import Arg
from shoal.frontier.wire import Triple, dead_letter

SEALED = "sealed"
UNKNOWN_HERE = -2
"""A slot does not know the job whose pages owe links."""
_SEALED_HERE = -3


class Sealed(Exception):
    """Somebody is about to end the job, and this slot takes nothing of it."""


@frozen
class Share:
    """What a slot may have of a job's budget of pages."""

    pages: int
    used: int
    version: int

    @property
    def left(self) -> int:
        """Less than nothing when it has used more, as pages were recalled or came back."""
        return self.pages - self.used


NO_SHARE = Share(0, 0, -1)
"""Nobody has asked the slot."""


@frozen
class Cut:
    """What a slot has under a new budget."""

    pages: int
    dropped: int
    version: int


@frozen
class Rest:
    """What a job leaves in a slot at its end."""

    sums: dict[str, str]
    reasons: dict[str, str]
    slowest: list[tuple[str, float]]


class SlotFrontier(Frontier):
    """What a spread frontier asks of its slots. Jobs have the names that they have in slots (`tag.name_of`)."""

    def open_slot(
        self, name: str, tenant: str, weight: Arg, elapsed_ms: int | None, expected: int, fields: Sequence[Arg]
    ) -> None:
        """Make a job known here; nothing changes when it was. Its first lease was so long ago, if it had one."""
        begun: Arg = "" if elapsed_ms is None else elapsed_ms
        self._scripts.call("open_slot", [name, tenant, weight, begun, expected, *fields])

    def let_in(self, name: str, triples: Sequence[Triple]) -> AdmitReport:
        """`admit`; no state says that the job is unknown. Raises Sealed when it takes nothing now."""
        report = AdmitReport(None)
        for start in range(0, len(triples), ADMIT_AT_ONCE):
            args: list[Arg] = [name, 0]
            for each in triples[start : start + ADMIT_AT_ONCE]:
                args += each
            state, admitted, seen, filtered, over = self._scripts.call("admit", args)
            if state == SEALED:
                raise Sealed(name)
            report += AdmitReport(JobState(state) if state else None, admitted, seen, filtered, over)
            if not state:
                break
        return report

    def try_again(self, name: str, token: str, dead: Sequence[tuple[Request, str]]) -> str:
        """`replay`: the state, '' when the job is unknown. Raises Sealed when it takes nothing now."""
        state = ""
        for number, start in enumerate(range(0, len(dead), ADMIT_AT_ONCE)):
            args: list[Arg] = [name, f"{token}.{number}"]
            for request, reason in dead[start : start + ADMIT_AT_ONCE]:
                args += dead_letter(request, reason)
            state, _ = self._scripts.call("replay", args)
            if state == SEALED:
                raise Sealed(name)
            if not state:
                break
        return state

    def follow_state(self, name: str, state: str) -> None:
        """Be what the job is as a whole."""
        order = {"paused": "pause", "running": "resume", "cancelled": "cancel"}.get(state)
        if order:
            self._scripts.call(order, [name])

    def seal(self, name: str, token: str, state: str) -> Rest | None:
        """Nothing is left here and nothing comes any more; None when that is not so."""
        found = self._scripts.call("seal", [name, token, state])
        if not found:
            return None
        sums, reasons, slowest = (_paired(part) for part in found)
        return Rest(dict(sums), dict(reasons), [(host, float(latency)) for host, latency in slowest])

    def unseal(self, name: str, token: str = "") -> str:
        """Go on, if it was sealed under this token; returns the one under which it is sealed now."""
        return str(self._scripts.call("unseal", [name, token]))

    def start_slot(self, name: str, elapsed_ms: int, time: str) -> None:
        """The job's first lease was so long ago, without pauses; `time` is what the list has of these."""
        self._scripts.call("start_slot", [name, elapsed_ms, time])

    def spend_all(self, name: str, reason: str) -> None:
        """The job has used up what it may, over all slots."""
        self._scripts.call("spend_all", [name, reason])

    def configure_slot(self, name: str, fields: Sequence[Arg]) -> None:
        """New limits for a job."""
        self._scripts.call("configure_job", [name, *fields])

    def share(self, name: str, pages: Arg = "", version: int = 0, back: int = 0) -> Share | None:
        """What the job may have here, after it was set under this version; `-`: just what it has used.

        Of these, so many come back, and are not let in.
        """
        found = self._scripts.call("share", [name, pages, version, back])
        return Share(*map(int, found)) if found else None

    def cut_share(self, name: str, version: int, cut: int) -> Cut | None:
        """The job has what it has used, less so many that wait and are dropped; None when it is unknown."""
        found = self._scripts.call("cut_share", [name, version, cut])
        return Cut(*map(int, found)) if found else None

    def drop_name(self, name: str) -> None:
        """Everything of a life of a job goes, its leases too."""
        self.audit.drop_job(name)

    # --- links to other slots ------------------------------------------------------------------------------------

    def note_links(self, name: str, fence: int, sent: str, owed: str, pages: str, token: str) -> int:
        """Before pages are settled: their links went to these slots, or could not. -1, or a higher fence.

        When they could not: UNKNOWN_HERE, and raises Sealed when the job takes nothing now.
        """
        answer = int(self._scripts.call("note_links", [name, fence, sent, owed, pages, token]))
        if answer == _SEALED_HERE:
            raise Sealed(name)
        return answer

    def links_sent(self, lines: Sequence[str], *, again: bool) -> None:
        """They were sent once more; or have arrived, and need not be known any longer."""
        self._scripts.call("links_sent", [int(again), *lines])


def _paired(flat: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(flat[::2], flat[1::2], strict=True))
