"""An object store as a place for results."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from shoal.core.output import Place
from shoal.errors import PlaceUnavailable
from shoal.output.publishing import is_of_run
from shoal.store.object_store import AT_ONCE, MULTIPART_BYTES, REMOVED_AT_ONCE, open_object_store, said


class Bucket:
    """Objects below a prefix."""

    def __init__(self, place: Place) -> None:
        self._place = place
        with self._translated():
            self._store = open_object_store(place)

    def put_file(self, name: str, file: Path) -> None:
        from shoal.store.obstore_whole import obstore

        with self._translated():
            obstore.put(self._store, self._key(name), file, chunk_size=MULTIPART_BYTES, max_concurrency=AT_ONCE)

    def get(self, name: str) -> tuple[bytes, str] | None:
        from shoal.store.obstore_whole import obstore

        with self._translated():
            try:
                found = obstore.get(self._store, self._key(name))
            except FileNotFoundError as exc:
                if "NoSuchBucket" in str(exc):
                    raise
                return None
            return bytes(found.bytes()), found.meta["e_tag"] or ""

    def size(self, name: str) -> int | None:
        from shoal.store.obstore_whole import obstore

        with self._translated():
            try:
                return obstore.head(self._store, self._key(name))["size"]
            except FileNotFoundError:
                return None

    def swap(self, name: str, content: bytes, mark: str | None) -> bool:
        from shoal.store.obstore_whole import exceptions, obstore

        with self._translated():
            try:
                mode = "create" if mark is None else {"e_tag": mark}
                obstore.put(self._store, self._key(name), content, mode=mode)  # pyright: ignore[reportArgumentType]
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                return False
            except (exceptions.NotSupportedError, NotImplementedError):  # it knows no conditions: the last one wins
                obstore.put(self._store, self._key(name), content)
            return True

    def remove_run(self, run: str) -> None:
        from shoal.store.obstore_whole import obstore

        prefix = self._key(run) + "/"
        with self._translated():
            for batch in obstore.list(self._store, prefix=prefix, chunk_size=REMOVED_AT_ONCE, return_arrow=False):  # pyright: ignore[reportUnknownMemberType]
                found = [each["path"] for each in batch if is_of_run(each["path"].removeprefix(prefix))]
                if found:
                    obstore.delete(self._store, found)

    def _key(self, name: str) -> str:
        return f"{self._place.path}/{name}" if self._place.path else name

    @contextmanager
    def _translated(self) -> Generator[None]:
        """What the store says is for people, in one line, without what may be a secret."""
        from shoal.store.obstore_whole import exceptions

        try:
            yield
        except (exceptions.BaseError, OSError, ValueError) as exc:
            hint = "see that the bucket exists, and that the environment has credentials that may write to it"
            raise PlaceUnavailable(f"cannot use {self._place}: {said(exc)}; {hint}") from exc
