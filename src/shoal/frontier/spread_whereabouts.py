"""Where a URL is in a frontier in slots: in the slot of its host."""

from __future__ import annotations

import redis

from shoal.core.url import Url
from shoal.frontier.job_list import JobList
from shoal.frontier.shards import Faces, Shards
from shoal.frontier.slots import list_prefix, slot_of
from shoal.frontier.tag import name_of
from shoal.frontier.whereabouts import Sighting, Whereabouts


class SpreadWhereabouts(Whereabouts):
    """Looks for URLs in a frontier in slots."""

    def __init__(self, control: redis.Redis, prefix: str, shards: Shards) -> None:
        super().__init__(control, list_prefix(prefix))
        self._list = JobList(control, prefix)
        self._shards = shards
        self._slots = Faces(shards, lambda client, prefix, _: Whereabouts(client, prefix))

    def close_connections(self) -> None:
        super().close_connections()
        self._shards.close()

    def look(self, job: str, url: Url, *, wait: bool = True) -> Sighting:
        """Of a URL that no slot has met, the control Redis knows the job."""
        standing = self._list.lives([job]).get(job)
        name = name_of(job, standing.life) if standing else job
        found = self._slots.on(slot_of(url.host), lambda slot: slot.look(name, url, wait=wait))
        return found if found.state else super().look(job, url, wait=wait)
