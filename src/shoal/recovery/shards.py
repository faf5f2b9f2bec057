"""What single servers of a frontier in slots have lost, and how it is made good.

A server that is started anew may have lost its last writes. Requests that it has again are looked up by workers, as
ever; but links that it got may be gone while the pages that led to them are settled on other servers. Those have it
written down for a while where links went. So the loss is told to all of them first (a fence): whoever has links under
way sends them again; then what is written down is sent again, with links read from the database. Until all that is
done no job ends that has hosts there. Links that are owed to a server that was away are sent in the same way.

A server that was emptied, or is older than that, has lost every job that has hosts there: these are rebuilt.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import structlog

from shoal.errors import RedisUnavailable, ShoalError
from shoal.frontier.rebuild import Overtaken
from shoal.frontier.slots import slot_of
from shoal.frontier.spread_rebuild import Line, ServerRebuild, SpreadRebuild
from shoal.frontier.tag import parse_name
from shoal.recovery.losses import DOUBT, LATELY
from shoal.recovery.way_back import WayBack
from shoal.store.epochs import Epochs
from shoal.store.jobs import JobStore

log = structlog.get_logger()

TRIM_EVERY_S = 10.0
LINES_AT_ONCE = 1_000


class ShardRecovery:
    """Looks after the servers of one frontier."""

    def __init__(self, rebuild: SpreadRebuild, epochs: Epochs, jobs: JobStore, way: WayBack) -> None:
        self._rebuild = rebuild
        self._epochs = epochs
        self._jobs = jobs
        self._way = way
        self._trimmed_at = 0.0

    def look_at_servers(self, catch_up: Callable[[], None]) -> None:
        """At each that is there; `catch_up` is for what any of them may have lost."""
        self._rebuild.caretaker.tend()  # the table may have forgotten where slots have gone
        well: dict[str, bool] = {}
        for name, server in self._rebuild.servers().items():
            try:
                well[name] = self._look_at(server, catch_up)
            except RedisUnavailable as exc:
                trouble = self._rebuild.away(name, exc)
                log.warning("shard_away", shard=name, error=trouble.message)
        self._pay(well)
        self._trim(well)

    # --- the list of jobs ----------------------------------------------------------------------------------------

    def look_at_list(self) -> None:
        """At the control Redis, once it is known to be the one that was there."""
        run = self._rebuild.server()
        if self._rebuild.trusted() == run and not self._rebuild.is_whole(run):
            self._make_list_whole(run)

    def _make_list_whole(self, run: str) -> None:
        """The list may have gone back by a moment: to an earlier life of a job, to fewer slots, to smaller shares."""
        strange, complete = self._rebuild.strangers()
        for job in strange:
            self._way.begin(job, force=True)
        for job in self._rebuild.jobs.list.known():
            self._rebuild.jobs.agree_on_shares(job)
        if complete:
            self._rebuild.note_whole(run)

    # --- one server ----------------------------------------------------------------------------------------------

    def _look_at(self, server: ServerRebuild, catch_up: Callable[[], None]) -> bool:
        """Is all well with it?"""
        run, before = server.server(), server.trusted()
        epochs = self._epochs.of(f"{self._epochs.frontier}.{server.name}")
        last = epochs.last()  # first: whoever looks at the same time only raises both
        epoch = server.next_epoch()
        lost = self._rebuild.adopt(server.lost_slots(), server.name) if epoch > last else server.slots()
        if lost and not self._begin_again(server, lost, max(last, epoch)):
            return False
        if epoch > last:
            epochs.note(epoch)
        if before and before != run:
            self._rebuild.cast_doubt(DOUBT)
            server.skip_leases(run, LATELY)
        server.disown()
        if before != run:
            self._rebuild.fence()  # it may have forgotten that others have lost something
            server.trust(run)
        return server.is_whole(run) or self._make_whole(server, run, catch_up)

    def _make_whole(self, server: ServerRebuild, run: str, catch_up: Callable[[], None]) -> bool:
        """What this run of the server may have lost is made good; False when that did not succeed this time."""
        try:
            catch_up()
        except RedisUnavailable as exc:
            log.warning("shard_not_whole", shard=server.name, error=str(exc))
            return False
        self._bring_again(server.slots())
        if not self._send_again(server.slots()):
            return False
        server.note_whole(run)
        return True

    def _bring_again(self, slots: Iterable[int]) -> None:
        """Jobs to which something was brought there lately of which no page tells are rebuilt."""
        wanted = frozenset(slots)
        lately = {name: text for (name, slot), text in self._rebuild.jobs.list.brought().items() if slot in wanted}
        lives = self._rebuild.jobs.list.lives([parse_name(name)[0] for name in lately])
        for name in lately:
            job, life = parse_name(name)
            if job in lives and lives[job].life == life and not lives[job].ended:
                self._way.begin(job, force=True)

    def _begin_again(self, server: ServerRebuild, slots: list[int], epoch: int) -> bool:
        """These slots have nothing, or nothing of today: jobs that have hosts there are rebuilt."""
        claim = self._rebuild.claim()
        if not claim:
            return False
        log.warning("shard_lost", shard=server.name, slots=len(slots))
        try:
            for job in self._rebuild.jobs_in(self._jobs.living(), slots):
                self._way.begin(job, claim=claim)
            self._rebuild.cast_doubt(DOUBT)
            server.begin_slots(slots)
            server.set_epoch(epoch + 1)  # last: who is cut short before this is followed by another
        except Overtaken:
            return False
        finally:
            self._rebuild.unclaim(claim)
        return True

    # --- links ---------------------------------------------------------------------------------------------------

    def _send_again(self, slots: Iterable[int]) -> bool:
        """What went to these slots lately, from any other; False when not all can be asked."""
        _, fenced = self._rebuild.fence()
        lines, complete = self._rebuild.lines("sent")
        wanted = frozenset(slots)
        sent = [self._send(line, line.to & wanted) for line in lines if line.to & wanted]
        return fenced and complete and all(sent)

    def _pay(self, well: dict[str, bool]) -> None:
        """Links that are owed to slots whose servers are back."""
        for line in self._rebuild.lines("owed")[0]:
            if self._rebuild.are_there(line.to, well):
                self._send(line, line.to)

    def _send(self, line: Line, to: frozenset[int]) -> bool:
        """The links of these pages to these slots, once more; those of an earlier life are nobody's."""
        try:
            standing = self._rebuild.jobs.list.lives([line.job]).get(line.job)
            mine = standing is not None and standing.life == line.life and not standing.ended
            if mine:
                self._way.send_links(line.job, line.pages, lambda host: slot_of(host) in to)
            self._rebuild.note_lines([line], again=mine)
        except ShoalError as exc:
            log.warning("links_not_sent", job=line.job, error=str(exc))
            return False
        return True

    def _trim(self, well: dict[str, bool]) -> None:
        """What was sent a while ago to servers that have been well since is on their disks."""
        if time.monotonic() - self._trimmed_at < TRIM_EVERY_S:
            return
        self._trimmed_at = time.monotonic()
        brought = self._rebuild.jobs.list.brought(LATELY)
        there = [text for (_, slot), text in brought.items() if self._rebuild.are_there([slot], well)]
        self._rebuild.jobs.list.forget_brought(there)
        lines, _ = self._rebuild.lines("sent", LATELY, LINES_AT_ONCE)
        self._rebuild.note_lines([line for line in lines if self._rebuild.are_there(line.to, well)], again=False)
