"""Deliveries carried out: rows in parts to a place, and the pointer at the end. Safe to cut off at any moment, to
repeat, and to do twice at once.

A part is a range of rows. At the end each is held against its rows once more: those that were written again meanwhile,
or whose columns the later ones have widened, are delivered anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

import structlog

from shoal.core.model import JobState
from shoal.core.output import Allowed, Place, TablePlace
from shoal.core.redact import without_secrets
from shoal.core.spec import JobSpec
from shoal.core.versions import FIRST_VERSION
from shoal.errors import PlaceUnavailable, ShoalError
from shoal.output.files import Files
from shoal.output.owner import Lost, Owner
from shoal.output.place import open_store
from shoal.output.publishing import Order, Publication, Run
from shoal.output.source import Batch, Source, source_of
from shoal.output.table import Table
from shoal.store.deliveries import Deliveries, Delivery, DeliveryState, Part
from shoal.store.job_rows import JobRow
from shoal.store.jobs import JobStore
from shoal.store.pages import PageStore
from shoal.store.row_filter import RowFilter

log = structlog.get_logger()

PART_ROWS = 250_000
"""Rows of a part of a job that has ended; and of one that delivers early, at the most."""
LOOK_AGAIN = timedelta(seconds=5)
"""Between two looks for rows of a job that runs."""
MOST_TRIES = 50
LONGEST_PAUSE = timedelta(minutes=15)
MANY_PARTS = 1_000
"""After each so many parts, one that delivers early waits for twice as many rows: the list of parts has an end."""

MayPublish = Callable[[JobRow, str], str]
"""Why a job's set of a version may not be published; empty when it may."""
SpecOf = Callable[[JobRow, str], JobSpec]
"""What a version of a job takes from its pages."""


def complete_only(job: JobRow, version: str) -> str:
    """A set that was given up on the way is not a set."""
    del version
    return "the job was cancelled: its set is not complete" if job.state is JobState.CANCELLED else ""


def own_spec(job: JobRow, version: str) -> JobSpec:
    """Of a job that was never extracted again."""
    del version
    return job.spec


def contract_kept(pages: PageStore, spec_of: SpecOf) -> MayPublish:
    """Nor is one that breaks the job's contract; `spec_of` has the spec of a version."""

    def why_not(job: JobRow, version: str) -> str:
        contract = spec_of(job, version).contract
        broken = ""
        if contract:
            counts = (pages.count_items(job.id, version), pages.count_quarantine(job.id, version))
            broken = contract.is_kept(*counts)
        return complete_only(job, version) or broken

    return why_not


class Receiver(Protocol):
    """What takes parts: files and a pointer, or a table."""

    visible_at_once: bool
    """Do readers see rows before the set is complete?"""

    def put(self, number: int, after: int, until: int) -> Part:
        """Deliver the rows after one id and up to another; the same rows again change nothing."""
        ...

    def stands(self, part: Part) -> bool:
        """Is what was delivered still what the rows are?"""
        ...

    def prepare(self, *, last: bool) -> None:
        """Look at the rows, as far as that is needed; `last` when there will be no others."""
        ...

    def publish(self, delivery: Delivery) -> Publication:
        """All is there: let readers see it, unless they see something newer."""
        ...


class Deliverer:
    """Does what is due. Its clock is Redis'."""

    def __init__(
        self,
        jobs: JobStore,
        pages: PageStore,
        deliveries: Deliveries,
        now_ms: Callable[[], int],
        allowed: Allowed,
        may_publish: MayPublish = complete_only,
        spec_of: SpecOf = own_spec,
    ) -> None:
        self._jobs = jobs
        self._pages = pages
        self._deliveries = deliveries
        self._now_ms = now_ms
        self._allowed = allowed
        self._may_publish = may_publish
        self._spec_of = spec_of
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin with what is due, in a thread of its own: no store, however slow, holds anybody up."""
        if (self._thread is None or not self._thread.is_alive()) and self._deliveries.due(self._now_ms()):
            self._thread = threading.Thread(target=self._work_in_thread, name="deliveries", daemon=True)
            self._thread.start()

    def work(self) -> int:
        """Do all that is due; returns how many were worked on."""
        done = 0
        for number in self._deliveries.due(self._now_ms()):
            done += self.deliver(number)
        return done

    def deliver(self, number: int) -> bool:
        """Work on one; False when another one does. What fails is written down, and tried again later."""
        owner = Owner(self._deliveries, number, self._now_ms)
        delivery = owner.claim()
        job = self._jobs.get(delivery.job) if delivery else None
        if delivery is None or job is None:
            return False
        with owner.working():
            try:
                self._carry_out(delivery, job, owner)
            except Lost:
                log.warning("delivery_lost", job=job.id, delivery=number)
            except ShoalError as exc:
                self._put_off(self._deliveries.get(number) or delivery, job, owner, exc)
            except Exception as exc:  # a fault of ours or of a library must not stand before the other deliveries
                log.exception("output_failed", job=job.id, delivery=number)
                self._put_off(self._deliveries.get(number) or delivery, job, owner, exc)
        return True

    def _work_in_thread(self) -> None:
        try:
            while self.work():
                pass
        except ShoalError as exc:
            log.warning("deliveries_failed", error=str(exc))

    def _carry_out(self, delivery: Delivery, job: JobRow, owner: Owner) -> None:
        last = job.state.ended
        receiver = self._receiver(delivery, job, owner)
        source = self._source(delivery, job, owner)
        if not last and not _is_due(delivery, source, owner.now_ms()):
            owner.look_again(owner.now_ms() + LOOK_AGAIN // timedelta(milliseconds=1))
            return
        if last and receiver.visible_at_once and self._withhold(delivery, job, owner):
            return
        receiver.prepare(last=last)
        if last:
            delivery = _mended(delivery, receiver, owner)
        for until in _cuts(source, delivery.last_id, PART_ROWS):
            part = receiver.put(len(delivery.parts), delivery.last_id, until)
            delivery = owner.keep(replace(delivery, parts=(*delivery.parts, part), error="", tries=0))
            log.info("part_delivered", job=job.id, delivery=delivery.id, part=len(delivery.parts), rows=part.rows)
        if last:
            self._end(delivery, job, receiver, owner)

    def _end(self, delivery: Delivery, job: JobRow, receiver: Receiver, owner: Owner) -> None:
        if self._withhold(delivery, job, owner):
            return
        owner.check()
        published = receiver.publish(delivery)
        state = DeliveryState.DELIVERED if published.seen else DeliveryState.SUPERSEDED
        owner.keep(replace(delivery, state=state, error=published.word, tries=0))
        log.info(
            "delivered",
            job=job.id,
            delivery=delivery.id,
            rows=delivery.rows,
            to=str(delivery.output.place),
            state=state,
        )

    def _withhold(self, delivery: Delivery, job: JobRow, owner: Owner) -> bool:
        """May its set not be published? Then that is written down."""
        why = self._may_publish(job, delivery.version)
        if why:
            owner.keep(replace(delivery, state=DeliveryState.WITHHELD, error=why))
            log.warning("delivery_withheld", job=job.id, delivery=delivery.id, why=why)
        return bool(why)

    def _put_off(self, delivery: Delivery, job: JobRow, owner: Owner, exc: Exception) -> None:
        tries = delivery.tries + 1
        pause = min(LONGEST_PAUSE, timedelta(seconds=2 ** min(tries, 12)))
        state = DeliveryState.FAILED if tries >= MOST_TRIES else DeliveryState.RETRYING
        error = without_secrets(str(exc))
        due = owner.now_ms() + pause // timedelta(milliseconds=1)
        with suppress(Lost):
            owner.keep(replace(delivery, state=state, tries=tries, error=error, due_ms=due))
        log.warning("output_failed", job=job.id, delivery=delivery.id, tries=tries, error=error)

    def _source(self, delivery: Delivery, job: JobRow, owner: Owner) -> Source:
        """The rows, whose reading is a sign of life."""
        wanted = RowFilter(version=delivery.version)
        numbered = isinstance(delivery.output.place, TablePlace)
        spec = self._spec_of(job, delivery.version)
        source = source_of(self._pages, job.id, spec, None, wanted, numbered=numbered)

        def read(after: int, limit: int) -> Batch:
            owner.goes_on()
            return source.read(after, limit)

        return replace(source, read=read)

    def _receiver(self, delivery: Delivery, job: JobRow, owner: Owner) -> Receiver:
        place, root = delivery.output.place, None
        if delivery.allowed:
            root = self._allowed.root_of(place)
            if root is None:
                raise PlaceUnavailable("the operator does not allow this place any more (SHOAL_OUTPUTS)")
        source = self._source(delivery, job, owner)
        if isinstance(place, TablePlace):
            if isinstance(root, TablePlace):  # how the fleet connects is the operator's word
                place = replace(place, ssl_mode=root.ssl_mode)
            return Table(place, source, delivery.output.key)
        store = open_store(place, root if isinstance(root, Place) else None)
        run, kind = _run(delivery, job), delivery.output.format
        return Files(store, source, run, kind, self._now_ms, self._being_delivered)

    def _being_delivered(self, orders: Collection[Order]) -> set[Order]:
        """Those of this database: a job's deliveries are told apart by their rounds."""
        alive = self._deliveries.open_rounds({job for _, job, _ in orders})
        return {order for order in orders if order[1:] in alive}


def _run(delivery: Delivery, job: JobRow) -> Run:
    """What is asked for once more is a run of its own: no file of another set is in its folder."""
    first = delivery.version == FIRST_VERSION and not delivery.round
    name = job.id if first else f"{job.id}-{delivery.round}-{delivery.version}"
    return Run(name, job.id, job.name, delivery.version, (job.created_ms, job.id, delivery.round))


def _mended(delivery: Delivery, receiver: Receiver, owner: Owner) -> Delivery:
    """With every part that is not any more what its rows are delivered anew."""
    for number, part in enumerate(delivery.parts):
        if not receiver.stands(part):
            new = receiver.put(number, part.after, part.last)
            parts = (*delivery.parts[:number], new, *delivery.parts[number + 1 :])
            delivery = owner.keep(replace(delivery, parts=parts))
    return delivery


def _cuts(source: Source, after: int, most: int) -> Iterator[int]:
    """The ids at which parts end: after so many rows, and with the last row that there is."""
    rows, last = 0, after
    ends: list[int] = []
    for batch in source.batches(after):
        rows, last = rows + len(batch), batch[-1][0]
        if rows >= most:
            ends.append(last)
            rows = 0
    return iter([*ends, last] if rows else ends)


def _is_due(delivery: Delivery, source: Source, now_ms: int) -> bool:
    """Are there rows enough for a part of a job that runs, or has it waited for long enough?"""
    factor = 2 ** (len(delivery.parts) // MANY_PARTS)
    seconds, wanted = delivery.output.every_seconds, delivery.output.every_rows
    if seconds is not None and now_ms - delivery.updated_ms < seconds * factor * 1000:
        return False
    rows = 0
    for batch in source.batches(delivery.last_id):
        rows += len(batch)
        if seconds is not None or (wanted is not None and rows >= wanted * factor):
            return True
    return False
