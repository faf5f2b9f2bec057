"""Deliveries carried out: rows in parts to a place, and the pointer at the end. Safe to cut off at any moment, to
repeat, and to do twice at once.

A part is a range of rows. At the end each is held against its rows once more: those that were written again meanwhile,
or whose columns the later ones have widened, are delivered anew.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import structlog

from shoal.core.model import JobState
from shoal.core.output import Allowed, OutputSettings, Place, TablePlace
from shoal.core.redact import without_secrets
from shoal.core.spec import JobSpec, read_spec
from shoal.errors import Conflict, InputError, PlaceUnavailable, ShoalError
from shoal.output.columns import Shape
from shoal.output.formats import RowsDigest, write_file
from shoal.output.place import Store, open_store
from shoal.output.publishing import Run, columns_digest, manifest, part_name, publish
from shoal.output.source import Batch, Source, source_of
from shoal.output.table import Table
from shoal.store.deliveries import Deliveries, Delivery, DeliveryState, Part
from shoal.store.export import iso
from shoal.store.jobs import JobRow, JobStore
from shoal.store.pages import PageStore
from shoal.store.row_filter import RowFilter

log = structlog.get_logger()

PART_ROWS = 250_000
"""Rows of a part of a job that has ended; and of one that delivers early, at the most."""
OWNED = timedelta(minutes=2)
"""Who is not heard of for so long loses the delivery to others."""
RENEW_S = 20.0
LOOK_AGAIN = timedelta(seconds=10)
"""Between two looks for rows of a job that runs."""
MOST_TRIES = 50
LONGEST_PAUSE = timedelta(minutes=15)
MANY_PARTS = 1_000
"""After each so many parts, one that delivers early waits for twice as many rows: the list of parts has an end."""

MayPublish = Callable[[JobRow, str], str]
"""Why a job's set of a version may not be published; empty when it may."""


class Lost(Exception):
    """Another worker has taken the delivery over."""


def complete_only(job: JobRow, version: str) -> str:
    """A set that was given up on the way is not a set."""
    del version
    return "the job was cancelled: its set is not complete" if job.state is JobState.CANCELLED else ""


def contract_kept(pages: PageStore, spec_of: Callable[[JobRow, str], JobSpec]) -> MayPublish:
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

    def publish(self, delivery: Delivery) -> str:
        """All is there: let readers see it. Returns a word on it for people, or nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Owner:
    """Who works on a delivery, and how it says that it still does."""

    deliveries: Deliveries
    name: str
    now_ms: Callable[[], int]

    def keep(self, delivery: Delivery) -> Delivery:
        if not self.deliveries.save(delivery, self.name, self.now_ms()):
            raise Lost
        return delivery

    def look_again(self, number: int, due_ms: int) -> None:
        """Nothing was done; how long it has waited goes on to count."""
        if not self.deliveries.put_off(number, self.name, due_ms):
            raise Lost

    def renew(self, number: int) -> None:
        if self.deliveries.claim(number, self.name, self.now_ms(), OWNED) is None:
            raise Lost


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
    ) -> None:
        self._jobs = jobs
        self._pages = pages
        self._deliveries = deliveries
        self._now_ms = now_ms
        self._allowed = allowed
        self._may_publish = may_publish
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
        owner = Owner(self._deliveries, uuid4().hex, self._now_ms)
        delivery = self._deliveries.claim(number, owner.name, self._now_ms(), OWNED)
        job = self._jobs.get(delivery.job) if delivery else None
        if delivery is None or job is None:
            return False
        try:
            self._carry_out(delivery, job, owner)
        except Lost:
            log.warning("delivery_lost", job=job.id, delivery=number)
        except ShoalError as exc:
            self._put_off(self._deliveries.get(number) or delivery, job, owner, exc)
        except Exception as exc:  # a fault of ours or of a library must not stand before the other deliveries
            log.exception("output_failed", job=job.id, delivery=number)
            self._put_off(self._deliveries.get(number) or delivery, job, owner, exc)
        finally:
            self._deliveries.release(number, owner.name)
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
            owner.look_again(delivery.id, owner.now_ms() + LOOK_AGAIN // timedelta(milliseconds=1))
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
        owner.renew(delivery.id)
        word = receiver.publish(delivery)
        done = replace(delivery, state=DeliveryState.DELIVERED, error=word, round=delivery.round + 1, tries=0)
        owner.keep(done)
        log.info("delivered", job=job.id, delivery=delivery.id, rows=delivery.rows, to=str(delivery.output.place))

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
        self._deliveries.save(
            replace(delivery, state=state, tries=tries, error=error, due_ms=due), owner.name, owner.now_ms()
        )
        log.warning("output_failed", job=job.id, delivery=delivery.id, tries=tries, error=error)

    def _source(self, delivery: Delivery, job: JobRow, owner: Owner) -> Source:
        """The rows, whose reading is a sign of life."""
        wanted = RowFilter(version=delivery.version)
        numbered = isinstance(delivery.output.place, TablePlace)
        source = source_of(self._pages, job.id, job.spec, None, wanted, numbered=numbered)
        heard = time.monotonic()

        def read(after: int, limit: int) -> Batch:
            nonlocal heard
            if time.monotonic() - heard > RENEW_S:
                owner.renew(delivery.id)
                heard = time.monotonic()
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
            return Table(place, source, delivery.output.key)
        store = open_store(place, root if isinstance(root, Place) else None)
        return Files(store, source, _run(delivery, job), delivery.output.format, self._now_ms)


class Files:
    """Parts as files of one place."""

    visible_at_once = False

    def __init__(self, store: Store, source: Source, run: Run, kind: str, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._source = source
        self._run = run
        self._kind = kind
        self._now_ms = now_ms
        self._shape: Shape | None = None

    def prepare(self, *, last: bool) -> None:
        """The columns of all parts of a set are the same: those of the last look."""
        self._shape = self._source.shape()
        for batch in self._source.batches() if last else ():
            for _, record in batch:
                self._shape.look(record)
        if not last:
            self._shape = None

    def put(self, number: int, after: int, until: int) -> Part:
        with tempfile.TemporaryDirectory(prefix="shoal-part-") as folder:
            file = Path(folder) / f"part.{self._kind}"
            written = write_file(
                self._source, self._kind, file, after=after, until=until, shape=self._shape, digest=True
            )
            name = part_name(self._run, number, self._kind, file)
            self._store.put_file(name, file)
            size = file.stat().st_size
        return Part(name, after, until, written.rows, size, written.digest, columns_digest(written.columns))

    def stands(self, part: Part) -> bool:
        if self._shape is not None and part.columns != columns_digest(self._shape.columns()):
            return False
        return part.digest == rows_digest(self._source, part)

    def publish(self, delivery: Delivery) -> str:
        columns = self._shape.columns() if self._shape else ()
        if any(part.columns != columns_digest(columns) for part in delivery.parts):
            raise PlaceUnavailable("rows were changed while they were delivered; they are delivered once more")
        content = manifest(self._run, self._kind, delivery.parts, columns, iso(self._now_ms()))
        return "" if publish(self._store, self._run, content) else "a newer run was published before this one"


def rows_digest(source: Source, part: Part) -> str:
    """Of the rows of a part as they are now."""
    digest = RowsDigest()
    for batch in source.batches(part.after, part.last):
        digest.take(batch)
    return digest.text


def ask_again(
    deliveries: Deliveries, job: JobRow, to: str | None, kind: str | None, version: str, now_ms: int
) -> list[int]:
    """Deliver a job that has ended once more, or to somewhere else; returns the deliveries."""
    if not job.state.ended:
        raise Conflict(f"job {job.id} is {job.state.value}: what it finds is delivered when it has ended")
    if to is not None:
        given = {"to": to, "format": kind or OutputSettings.model_fields["format"].default}
        wanted = read_spec({"output": given}, "the delivery").output
        assert wanted is not None
        return [deliveries.add(job.id, version, wanted, now_ms)]
    found = deliveries.of_job(job.id)
    if not found:
        raise InputError(f"job {job.id} has no output: name one with --to, such as s3://bucket/prefix/")
    return [deliveries.add(each.job, each.version, each.output, now_ms) for each in found]


def _run(delivery: Delivery, job: JobRow) -> Run:
    name = job.id if delivery.version == "v1" else f"{job.id}-{delivery.version}"
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
