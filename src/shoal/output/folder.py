"""A folder as a place: files come by rename, after they are on the disk."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from shoal.errors import PlaceUnavailable
from shoal.output.publishing import is_of_run

LOCK = ".shoal-lock"
_COPY_BYTES = 1 << 20
_UNFINISHED = re.compile(r"\.shoal-.*\.part")
"""What somebody wrote who was killed."""


class Folder:
    """Files below a folder."""

    def __init__(self, path: Path, root: Path | None = None) -> None:
        self._path = path
        self._root = root

    def put_file(self, name: str, file: Path) -> None:
        with _translated(self._path), self._new(name) as new, file.open("rb") as content:
            shutil.copyfileobj(content, new, _COPY_BYTES)

    def get(self, name: str) -> tuple[bytes, str] | None:
        with _translated(self._path):
            try:
                content = self._inside(self._path / name).read_bytes()
            except FileNotFoundError:
                return None
            return content, _mark(content)

    def size(self, name: str) -> int | None:
        with _translated(self._path):
            try:
                return self._inside(self._path / name).stat().st_size
            except (FileNotFoundError, NotADirectoryError):
                return None

    def swap(self, name: str, content: bytes, mark: str | None) -> bool:
        with _translated(self._path), self._locked():
            found = self.get(name)
            if (found[1] if found else None) != mark:
                return False
            with self._new(name) as new:
                new.write(content)
            return True

    def remove_run(self, run: str) -> None:
        folder = self._path / run
        with _translated(self._path):
            if folder.is_symlink() or not self._inside(folder).is_dir():
                return
            for file in list(folder.iterdir()):
                if is_of_run(file.name) or _UNFINISHED.fullmatch(file.name):
                    file.unlink(missing_ok=True)
            if not any(folder.iterdir()):
                folder.rmdir()

    @contextmanager
    def _new(self, name: str) -> Generator[tempfile._TemporaryFileWrapper[bytes]]:  # pyright: ignore[reportPrivateUsage]
        """A file that gets its name when it is complete and on the disk."""
        target = self._inside(self._path / name)
        target.parent.mkdir(parents=True, exist_ok=True)
        self._inside(target)
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".shoal-", suffix=".part", delete=False) as new:
            try:
                yield new
                new.flush()
                os.fsync(new.fileno())
                os.chmod(new.name, 0o644 & ~_umask())  # noqa: PTH101 - what others may do is for the umask to say
                os.replace(new.name, target)  # noqa: PTH105 - the file's own name is a text
            except BaseException:
                Path(new.name).unlink(missing_ok=True)
                raise
        _sync_folder(target.parent)

    @contextmanager
    def _locked(self) -> Generator[None]:
        self._inside(self._path).mkdir(parents=True, exist_ok=True)
        handle = os.open(self._inside(self._path / LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _inside(self, path: Path) -> Path:
        """Links may lead out of what the operator has allowed."""
        if self._root is not None:
            root, real = self._root.resolve(), path.resolve()
            if real != root and root not in real.parents:
                raise PlaceUnavailable(
                    f"{path} leads out of {self._root}, which is all that is allowed: a link does so"
                )
        return path


def _mark(content: bytes) -> str:
    return sha256(content).hexdigest()


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _translated(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as exc:
        what = exc.strerror or str(exc)
        raise PlaceUnavailable(
            f"cannot write to {path}: {what}; see that the folder is there and may be written"
        ) from exc
