"""Parts as files of one place, and the pointer to them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import structlog

from shoal.errors import PlaceUnavailable
from shoal.output.columns import Shape
from shoal.output.formats import RowsDigest, write_file
from shoal.output.place import Store
from shoal.output.publishing import Publication, Run, columns_digest, manifest, part_name, publish
from shoal.output.runs import TOUCH_S, BeingDelivered, note_complete, note_run, remove_old
from shoal.output.source import Source
from shoal.store.deliveries import Delivery, Part
from shoal.store.export import iso

log = structlog.get_logger()


class Files:
    """Takes parts as files."""

    visible_at_once = False

    def __init__(
        self,
        store: Store,
        source: Source,
        run: Run,
        kind: str,
        now_ms: Callable[[], int],
        being_delivered: BeingDelivered,
    ) -> None:
        self._store = store
        self._source = source
        self._run = run
        self._kind = kind
        self._now_ms = now_ms
        self._being_delivered = being_delivered
        self._noted_ms = 0
        self._shape: Shape | None = None

    def prepare(self, *, last: bool) -> None:
        """The columns of all parts of a set are the same: those of the last look."""
        self._note()
        self._shape = self._source.shape()
        for batch in self._source.batches() if last else ():
            for _, record in batch:
                self._shape.look(record)
        if not last:
            self._shape = None

    def put(self, number: int, after: int, until: int) -> Part:
        if self._now_ms() - self._noted_ms >= TOUCH_S * 1_000:
            self._note()
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
        """Not when it is gone, or of an earlier run: that has a folder of its own, which is removed as a whole."""
        if not part.name.startswith(f"{self._run.name}/"):
            return False
        if self._shape is not None and part.columns != columns_digest(self._shape.columns()):
            return False
        if self._store.size(part.name) != part.size:
            return False
        return part.digest == rows_digest(self._source, part)

    def publish(self, delivery: Delivery) -> Publication:
        columns = self._shape.columns() if self._shape else ()
        if any(part.columns != columns_digest(columns) for part in delivery.parts):
            raise PlaceUnavailable("rows were changed while they were delivered; they are delivered once more")
        self._check_files(delivery)
        note_complete(self._store, self._run)
        content = manifest(self._run, self._kind, delivery.parts, columns, iso(self._now_ms()))
        published = publish(self._store, self._run, content)
        if delivery.output.keep is None:
            return published
        try:
            removed = remove_old(self._store, delivery.output.keep, self._now_ms(), self._being_delivered)
        except PlaceUnavailable as exc:  # readers have the new set all the same
            log.warning("runs_not_removed", job=delivery.job, delivery=delivery.id, error=str(exc))
            return published.with_word(f"old runs could not be removed: {exc}")
        if removed:
            log.info("runs_removed", job=delivery.job, delivery=delivery.id, runs=removed)
        return published

    def _note(self) -> None:
        self._noted_ms = self._now_ms()
        note_run(self._store, self._run, self._noted_ms)

    def _check_files(self, delivery: Delivery) -> None:
        """A manifest lists what is there. What is not is found again at the next try, and delivered anew."""
        for part in delivery.parts:
            if self._store.size(part.name) != part.size:
                raise PlaceUnavailable(f"{part.name} is not there any more: somebody has removed it; delivered anew")


def rows_digest(source: Source, part: Part) -> str:
    """Of the rows of a part as they are now."""
    digest = RowsDigest()
    for batch in source.batches(part.after, part.last):
        digest.take(batch)
    return digest.text
