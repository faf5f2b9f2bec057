"""What stored pages say: their texts and digests made anew from the archive, by whatever rules somebody asks for."""

from __future__ import annotations

from dataclasses import replace

from shoal.again.archived import Heavy, response_of
from shoal.core.frozen import frozen
from shoal.core.noise import NOTHING_SAID, Noise
from shoal.core.spec import EXTRACTION, JobSpec
from shoal.errors import FetchError
from shoal.extract.findings import find_light
from shoal.extract.listing import name_of
from shoal.extract.trail import UNHURRIED, Trail
from shoal.store.archive import ArchiveReader
from shoal.store.page_rows import PageRow


@frozen
class Said:
    """What a page says."""

    digest: int
    lines: tuple[str, ...] | None = None
    """None when nobody asked, or it is no text."""


class StoredTexts:
    """Reads stored pages of one job under one set of rules."""

    def __init__(self, spec: JobSpec, noise: Noise, archive: ArchiveReader, heavy: Heavy) -> None:
        nothing = {name: JobSpec.model_fields[name].get_default(call_default_factory=True) for name in EXTRACTION}
        bare = {**nothing, "follow": False, "next": "", "nofollow": False, "noindex": False, "contract": None}
        self._spec = spec.model_copy(update=bare)
        self._trail = Trail.of(self._spec)
        self._noise = noise.pack()
        self._archive = archive
        self._heavy = heavy

    def read(self, page: PageRow, lines: int = 0) -> Said:
        """With so many characters of its text; raises FetchError when the page is not there, or cannot be read."""
        response = response_of(self._archive, page)
        body = response.unpacked(self._spec.max_body)
        if not body:
            return Said(NOTHING_SAID, ())
        media_type = response.media_type
        asked = (response.url, page.depth, media_type, page.charset)
        wanted = self._trail.wanted(*asked, listing=name_of(body, media_type), noise=self._noise)
        assert wanted is not None
        wanted = replace(wanted, links=False, lines=lines)
        found = find_light(body, wanted, scale=UNHURRIED) or self._heavy(body, wanted)
        if found.digest is None:
            raise FetchError("too_complex", "its text could not be read")
        return Said(found.digest, found.lines)
