"""Objects below a prefix of an object store, as the archive uses them. What fails is an ArchiveUnavailable."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from shoal.core.frozen import frozen
from shoal.core.output import Place
from shoal.errors import ArchiveUnavailable
from shoal.store.object_store import AT_ONCE, MULTIPART_BYTES, REMOVED_AT_ONCE, open_object_store, said

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_OUT_OF_RANGE = ("status code: 416", "<Code>InvalidRange</Code>")
_NO_BUCKET = ("<Code>NoSuchBucket</Code>", "<Code>ContainerNotFound</Code>")
_HINT = "see that the bucket exists, and that the environment has credentials that may write to it"


@frozen
class Found:
    """One object of a list."""

    name: str
    """Below the prefix."""
    size: int
    written: datetime


class Objects:
    """Names here are below the place's prefix."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def put(self, name: str, content: bytes | Iterable[bytes]) -> None:
        """Write an object in one step; what comes piece by piece is sent in parts."""
        from shoal.store.obstore_whole import obstore

        with self._translated():
            if isinstance(content, bytes):
                obstore.put(self._store, self._key(name), content, use_multipart=False)
            else:
                obstore.put(self._store, self._key(name), content, chunk_size=MULTIPART_BYTES, max_concurrency=AT_ONCE)

    def put_file(self, name: str, file: Path) -> None:
        """Likewise, from a file: a large one in parts."""
        from shoal.store.obstore_whole import obstore

        with self._translated():
            obstore.put(self._store, self._key(name), file, chunk_size=MULTIPART_BYTES, max_concurrency=AT_ONCE)

    def get(self, name: str, start: int, end: int) -> bytes | None:
        """Bytes from `start` to before `end`, as far as the object goes; None when there is none."""
        from shoal.store.obstore_whole import exceptions, obstore

        with self._translated():
            try:
                found = obstore.get(self._store, self._key(name), options={"range": (start, end)})
            except FileNotFoundError as exc:
                if any(word in str(exc) for word in _NO_BUCKET):
                    raise
                return None
            except exceptions.GenericError as exc:
                if any(word in str(exc) for word in _OUT_OF_RANGE):
                    return b""
                raise
            return bytes(found.bytes())

    def look(self, name: str) -> Found | None:
        """Size and time of an object; None when there is none."""
        from shoal.store.obstore_whole import obstore

        with self._translated():
            try:
                found = obstore.head(self._store, self._key(name))
            except FileNotFoundError:
                return None
            return Found(name, found["size"], found["last_modified"])

    def listed(self, folder: str, after: str = "") -> Iterator[Found]:
        """Objects of a folder and of those in it, by name; from behind the name `after` on."""
        from shoal.store.obstore_whole import obstore

        offset = self._key(after) if after else None
        with self._translated():
            listing = cast(Any, obstore).list(
                self._store,
                prefix=self._key(folder) or None,
                offset=offset,
                chunk_size=REMOVED_AT_ONCE,
                return_arrow=False,
            )
            for batch in listing:
                for each in batch:
                    yield Found(self._name(each["path"]), each["size"], each["last_modified"])

    def folders(self, folder: str) -> list[str]:
        """Names of the folders in a folder."""
        from shoal.store.obstore_whole import obstore

        with self._translated():
            found = cast(Any, obstore).list_with_delimiter(self._store, prefix=self._key(folder) or None)
            return [path.rstrip("/").rpartition("/")[2] for path in found["common_prefixes"]]

    def remove(self, names: Sequence[str]) -> None:
        """Delete objects, many with one call; one that is gone is no trouble."""
        from shoal.store.obstore_whole import obstore

        with self._translated():
            for start in range(0, len(names), REMOVED_AT_ONCE):
                obstore.delete(self._store, [self._key(name) for name in names[start : start + REMOVED_AT_ONCE]])

    def remove_folder(self, folder: str) -> None:
        """Delete all objects of a folder."""
        batch: list[str] = []
        for found in self.listed(folder):
            batch.append(found.name)
            if len(batch) == REMOVED_AT_ONCE:
                self.remove(batch)
                batch.clear()
        self.remove(batch)

    def ping(self) -> None:
        """Raises ArchiveUnavailable when the store cannot be asked, within a few seconds."""
        from shoal.store.obstore_whole import obstore

        with self._translated():
            try:
                obstore.get(self._hasty_store, self._key(".probe"))
            except FileNotFoundError as exc:
                if any(word in str(exc) for word in _NO_BUCKET):
                    raise

    def try_out(self) -> None:
        """Write an object, read it back, remove it; raises ArchiveUnavailable when one of these cannot be done."""
        name, content = f".probe-{secrets.token_hex(8)}", b"probe"
        self.put(name, content)
        try:
            if self.get(name, 0, len(content)) != content:
                raise ArchiveUnavailable(f"what was written to {self.place} cannot be read back")
        finally:
            self.remove([name])

    def is_empty(self) -> bool:
        """Is there nothing?"""
        return next(self.listed(""), None) is None

    @cached_property
    def _store(self) -> ObjectStore:
        """Opened when it is first used: by then the process has been forked."""
        return open_object_store(self.place)

    @cached_property
    def _hasty_store(self) -> ObjectStore:
        return open_object_store(self.place, hasty=True)

    def _key(self, name: str) -> str:
        return "/".join(filter(None, (self.place.path, name)))

    def _name(self, key: str) -> str:
        return key.removeprefix(f"{self.place.path}/") if self.place.path else key

    @contextmanager
    def _translated(self) -> Generator[None]:
        from shoal.store.obstore_whole import exceptions

        try:
            yield
        except (exceptions.BaseError, OSError, ValueError) as exc:
            raise ArchiveUnavailable(f"cannot use the archive at {self.place}: {said(exc)}; {_HINT}") from exc
