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
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta

import structlog

from shoal.errors import RedisUnavailable, ShoalError
from shoal.frontier.link_lines import Line, Place
from shoal.frontier.rebuild import Overtaken
from shoal.frontier.server_rebuild import ServerRebuild
from shoal.frontier.slots import SLOTS, slot_of
from shoal.frontier.spread_rebuild import SpreadRebuild
from shoal.frontier.tag import parse_name
from shoal.recovery.losses import DOUBT, LATELY
from shoal.recovery.way_back import WayBack
from shoal.store.epochs import Epochs
from shoal.store.jobs import JobStore

log = structlog.get_logger()

EVERY = frozenset(range(SLOTS))
TRIM_EVERY_S = 10.0
LINKS_S = 2.0
"""So long links are seen to in one look, give or take a line."""
PAGES_AT_ONCE = 5
"""Of lines of a slot, in one look."""


class ShardRecovery:
    """Looks after the servers of one frontier."""

    def __init__(self, rebuild: SpreadRebuild, epochs: Epochs, jobs: JobStore, way: WayBack) -> None:
        self._rebuild = rebuild
        self._epochs = epochs
        self._jobs = jobs
        self._way = way
        self._trimmed_at = 0.0
        self._places: dict[tuple[str, int], Place] = {}
        """Where to go on with the lines of a kind and a slot."""
        self._first_slot = 0

    def look_at_servers(self, catch_up: Callable[[], None]) -> None:
        """At each that is there; `catch_up` is for what any of them may have lost."""
        shards = self._rebuild.shards
        shards.check_apart(all_there=False)
        self._rebuild.caretaker.tend()  # the table may have forgotten where slots have gone
        shards.table(anew=True)
        for name in shards.unnamed:
            log.warning("shard_unnamed", shard=name, error="it has hosts, and SHOAL_SHARDS does not name it")
        there: dict[str, ServerRebuild] = {}
        for name, server in self._rebuild.servers().items():
            try:
                if self._look_at(server):
                    there[name] = server
            except RedisUnavailable as exc:
                if trouble := self._rebuild.blame(name, exc):
                    log.warning("shard_away", shard=name, error=trouble.message)
                else:
                    log.warning("look_failed", error=str(exc))
        if claim := self._rebuild.claim_links():
            try:
                self._see_to_links(there, catch_up)
            finally:
                self._rebuild.unclaim_links(claim)

    def _see_to_links(self, there: Mapping[str, ServerRebuild], catch_up: Callable[[], None]) -> None:
        """What was lost is sent again, what is owed is paid, and what has arrived is forgotten; for a short while."""
        deadline = time.monotonic() + LINKS_S
        asked: dict[str, frozenset[int]] = {}
        for name, server in there.items():
            try:
                asked[name] = self._make_whole(server, catch_up, deadline)
            except RedisUnavailable as exc:
                log.warning("shard_not_whole", shard=name, error=str(exc))
        self._pay({name: there[name] for name in asked}, deadline)
        self._trim(asked, deadline)

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

    def _look_at(self, server: ServerRebuild) -> bool:
        """May it be worked with?"""
        run, before = server.server(), server.trusted()
        epochs = self._epochs.of(f"{self._epochs.frontier}.{server.name}")
        last = epochs.last()  # first: whoever looks at the same time only raises both
        epoch = server.next_epoch()
        lost = self._rebuild.adopt(server.lost_slots(), server.name) if epoch > last else server.marked()
        if lost and not self._begin_again(server, run, lost, max(last, epoch)):
            return False
        if epoch > last:
            epochs.note(epoch)
        elif not lost:
            server.raise_epoch(last)  # of another server that had this name
        if before and before != run:
            self._rebuild.cast_doubt(DOUBT)
            server.skip_leases(run, LATELY)
        server.disown()
        if before != run:
            self._bring_again(server.slots())  # before anything comes there again
            server.begin_asking(run, self._rebuild.fence())  # it may have forgotten that others have lost something
            server.trust(run)
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
        self._rebuild.jobs.list.forget_brought(list(lately.values()))

    def _make_whole(self, server: ServerRebuild, catch_up: Callable[[], None], deadline: float) -> frozenset[int]:
        """What it may have lost is made good, as far as others are there; slots that need not be asked again."""
        run = server.server()
        if not server.is_whole(run):
            asked = self._send_again(server, run, deadline)
            if len(asked) < SLOTS:
                return asked
            catch_up()
            server.note_whole(run)
        return EVERY

    def _begin_again(self, server: ServerRebuild, run: str, slots: Mapping[int, str], epoch: int) -> bool:
        """These slots have nothing, or nothing of today: jobs that have hosts there are rebuilt."""
        claim = self._rebuild.claim()
        if not claim:
            return False
        log.warning("shard_lost", shard=server.name, slots=len(slots))
        try:
            for job in self._rebuild.jobs_in(self._jobs.gone(self._rebuild.unended()), slots):
                self._rebuild.drop(job, claim)  # a cancelled one: it ends with the sums of its rows
            for job in self._rebuild.jobs_in(self._jobs.living(), slots):
                self._way.begin(job, claim=claim)
            self._epochs.note(self._rebuild.next_epoch())  # a list of jobs that loses their new lives is found out
            self._rebuild.cast_doubt(DOUBT)
            server.begin_slots(slots, run)
            server.raise_epoch(epoch)  # last: who is cut short before this is followed by another
        except Overtaken:
            return False
        finally:
            self._rebuild.unclaim(claim)
        return True

    # --- links ---------------------------------------------------------------------------------------------------

    def _send_again(self, server: ServerRebuild, run: str, deadline: float) -> frozenset[int]:
        """What went to this server lately, from any slot; those of which all was sent once more."""
        fence, places = server.asked(run)
        if not fence:
            server.begin_asking(run, fence := self._rebuild.fence())
        wanted = frozenset(server.slots())
        for slot in sorted(EVERY):
            place = places.get(slot, Place())
            try:
                while not place.ended and time.monotonic() < deadline:
                    lines, after = self._rebuild.lines("sent", slot, place, fence)
                    if not all(self._send(line, line.to & wanted) for line in lines if line.to & wanted):
                        break
                    place = after
                    server.note_asked(run, slot, place)
            except RedisUnavailable as exc:
                log.info("slot_not_asked", shard=server.name, slot=slot, error=str(exc))
            places[slot] = place
        return frozenset(slot for slot, place in places.items() if place.ended)

    def _send(self, line: Line, to: frozenset[int]) -> bool:
        """The links of these pages to these slots, once more; those of an earlier life are nobody's."""
        try:
            if mine := self._is_mine(line):
                self._way.send_links(line.job, line.pages, lambda host: slot_of(host) in to)
            self._rebuild.note_lines([line], again=mine)
        except ShoalError as exc:
            log.warning("links_not_sent", job=line.job, error=str(exc))
            return False
        return True

    def _is_mine(self, line: Line) -> bool:
        standing = self._rebuild.jobs.list.lives([line.job]).get(line.job)
        return standing is not None and standing.life == line.life and not standing.ended

    def _pay(self, there: Mapping[str, ServerRebuild], deadline: float) -> None:
        """Links that are owed to slots whose servers are back."""
        fences = {name: server.fence() for name, server in there.items()}  # before anything is sent
        table = self._rebuild.shards.table()
        for line in self._some_lines("owed", deadline):
            to = frozenset(slot for slot in line.to if table[slot] in there)
            if time.monotonic() >= deadline:
                return
            if to and table[line.slot] in fences:
                self._pay_line(line, to, fences[table[line.slot]])

    def _pay_line(self, line: Line, to: frozenset[int], fence: int) -> None:
        try:
            if mine := self._is_mine(line):
                self._way.send_links(line.job, line.pages, lambda host: slot_of(host) in to)
            self._rebuild.note_paid(line, to, fence, mine=mine)
        except ShoalError as exc:
            log.warning("links_not_sent", job=line.job, error=str(exc))

    def _trim(self, asked: Mapping[str, frozenset[int]], deadline: float) -> None:
        """What came a while ago to servers that have been there since is on their disks."""
        if time.monotonic() - self._trimmed_at < TRIM_EVERY_S:
            return
        self._trimmed_at = time.monotonic()
        table = self._rebuild.shards.table()
        brought = self._rebuild.jobs.list.brought(LATELY)
        self._rebuild.jobs.list.forget_brought([text for (_, slot), text in brought.items() if table[slot] in asked])
        arrived = [
            line
            for line in self._some_lines("sent", deadline, LATELY)
            if all(line.slot in asked.get(table[slot], frozenset()) for slot in line.to)
        ]
        self._rebuild.note_lines(arrived, again=False)

    def _some_lines(self, kind: str, deadline: float, ago: timedelta = timedelta()) -> Iterator[Line]:
        """Some of each slot that is there; the next time, those behind them, and of another slot first."""
        self._first_slot = (self._first_slot + 1) % SLOTS
        for slot in (*range(self._first_slot, SLOTS), *range(self._first_slot)):
            for _ in range(PAGES_AT_ONCE):
                if time.monotonic() >= deadline:
                    return
                place = Place(self._places.get((kind, slot), Place()).since)
                try:
                    lines, place = self._rebuild.lines(kind, slot, place, ago=ago)
                except RedisUnavailable:
                    break
                yield from lines
                self._places[kind, slot] = Place() if place.ended else place
                if place.ended:
                    break
