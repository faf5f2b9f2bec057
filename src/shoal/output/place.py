"""Places where files are put, each in one step: a reader sees a file as a whole, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from shoal.core.output import Place


class Store(Protocol):
    """A folder or an object store. What fails is a PlaceUnavailable."""

    def put_file(self, name: str, file: Path) -> None:
        """Put a file there under this name, in one step; one of this name is replaced."""
        ...

    def get(self, name: str) -> tuple[bytes, str] | None:
        """A small file and a mark of its state; None when there is none."""
        ...

    def size(self, name: str) -> int | None:
        """Bytes of a file; None when there is none."""
        ...

    def swap(self, name: str, content: bytes, mark: str | None) -> bool:
        """Replace a small file in one step; False when it is not any more what the mark was taken from.

        None is for a file that is not there yet.
        """
        ...

    def remove_run(self, run: str) -> None:
        """Remove the files of ours in a folder, and the folder, if nothing else is in it."""
        ...


def open_store(place: Place, root: Place | None = None) -> Store:
    """The store of a place; what leads out of the `root` that the operator has allowed is refused."""
    if place.scheme == "file":
        from shoal.output.folder import Folder

        return Folder(Path(place.path), Path(root.path) if root else None)
    from shoal.output.bucket import Bucket

    return Bucket(place)
