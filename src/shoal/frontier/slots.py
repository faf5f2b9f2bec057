"""Slots: the fixed pieces into which hosts are divided when one Redis is not enough.

A host belongs to one slot for good, with all others of its registrable domain, so that they can share a bucket. A slot
is a frontier of its own, under a prefix of its own, on one of the servers; adding a server moves whole slots.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from shoal.core.domain import registrable_domain
from shoal.core.shards import MOST_SHARDS

SLOTS = MOST_SHARDS
"""Never changed while a frontier has hosts; and so the most servers that they can be spread over."""
DOMAIN, ADDRESS = "@", "#"
"""Before the name of a bucket that hosts share."""


@lru_cache(maxsize=200_000)
def slot_of(host: str) -> int:
    """The slot of a host, or of a domain's bucket."""
    domain = host[1:] if host.startswith(DOMAIN) else registrable_domain(host)
    return int.from_bytes(blake2b(domain.encode(), digest_size=8).digest()) % SLOTS


def list_prefix(prefix: str) -> str:
    """Of the list of jobs, in the control Redis: no frontier in a piece takes one of these for its own."""
    return f"{prefix}.jobs"


def server_prefix(prefix: str) -> str:
    """Of what is about a server that has slots."""
    return f"{prefix}.shard"


def slot_prefix(prefix: str, slot: int) -> str:
    """Of all keys of a slot."""
    return f"{prefix}.{slot:02d}"
