"""An object store as a place: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.

Credentials and endpoints come from the environment, as each store's own tools read them (AWS_*, GOOGLE_*, AZURE_*).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.core.output import Place
from shoal.core.redact import without_secrets
from shoal.errors import PlaceUnavailable
from shoal.output.publishing import is_of_run

if TYPE_CHECKING:
    from obstore.store import ObjectStore

MULTIPART_BYTES = 8 * 1024 * 1024
AT_ONCE = 4
"""Parts of a file that are on their way at the same time: memory is this many times the size of one."""
REMOVED_AT_ONCE = 1_000
CONNECT_S, ANSWER_S, RETRY_S = 10, 120, 60
_MOST_SAID = 300


class Bucket:
    """Objects below a prefix."""

    def __init__(self, place: Place) -> None:
        self._place = place
        with self._translated():
            self._store = _open(place)

    def put_file(self, name: str, file: Path) -> None:
        import obstore

        with self._translated():
            obstore.put(self._store, self._key(name), file, chunk_size=MULTIPART_BYTES, max_concurrency=AT_ONCE)

    def get(self, name: str) -> tuple[bytes, str] | None:
        import obstore

        with self._translated():
            try:
                found = obstore.get(self._store, self._key(name))
            except FileNotFoundError as exc:
                if "NoSuchBucket" in str(exc):
                    raise
                return None
            return bytes(found.bytes()), found.meta["e_tag"] or ""

    def size(self, name: str) -> int | None:
        import obstore

        with self._translated():
            try:
                return obstore.head(self._store, self._key(name))["size"]
            except FileNotFoundError:
                return None

    def swap(self, name: str, content: bytes, mark: str | None) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

        with self._translated():
            try:
                mode = "create" if mark is None else {"e_tag": mark}
                obstore.put(self._store, self._key(name), content, mode=mode)  # pyright: ignore[reportArgumentType]
            except (AlreadyExistsError, PreconditionError):
                return False
            except (NotSupportedError, NotImplementedError):  # a store that knows no conditions: the last one wins
                obstore.put(self._store, self._key(name), content)
            return True

    def remove_run(self, run: str) -> None:
        import obstore

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
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, ValueError) as exc:
            first = without_secrets(str(exc).strip().partition("\n")[0])[:_MOST_SAID]
            hint = "see that the bucket exists, and that the environment has credentials that may write to it"
            raise PlaceUnavailable(f"cannot use {self._place}: {first}; {hint}") from exc


def _open(place: Place) -> ObjectStore:
    from obstore.store import from_url

    return from_url(
        place.root,
        # An endpoint without TLS is the operator's word, in the environment: nobody else can name one.
        client_options={"connect_timeout": f"{CONNECT_S}s", "timeout": f"{ANSWER_S}s", "allow_http": True},
        retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=RETRY_S)},
    )
