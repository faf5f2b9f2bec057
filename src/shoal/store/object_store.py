"""Opens object stores: S3 and what speaks like it, Google Cloud Storage, Azure Blob Storage.

Credentials and endpoints come from the environment, as each store's own tools read them (AWS_*, GOOGLE_*, AZURE_*).
The library has threads of its own: a process that was forked from one that has used it can use it no more, and is told
so here, before it would wait for ever.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from shoal.core.output import Place
from shoal.core.redact import without_secrets

if TYPE_CHECKING:
    from obstore.store import ObjectStore

MULTIPART_BYTES = 8 * 1024 * 1024
AT_ONCE = 4
"""Parts of a file that are on their way at the same time: memory is this many times the size of one."""
REMOVED_AT_ONCE = 1_000
CONNECT_S, ANSWER_S, RETRY_S = 10, 120, 60
HASTE_S = 3
_MOST_SAID = 300
_users: set[int] = set()
"""Processes that have used the library: this one, or those that it was forked from."""


def open_object_store(place: Place, *, hasty: bool = False) -> ObjectStore:
    """The store of a place; nothing is asked yet. Who is `hasty` asks once, and waits for a few seconds only."""
    _users.add(os.getpid())
    if _users != {os.getpid()}:
        raise OSError("this process was forked from one that had used the object store")
    from shoal.store.obstore_whole import from_url

    return from_url(
        place.root,
        # An endpoint without TLS is the operator's word, in the environment: nobody else can name one.
        client_options={
            "connect_timeout": f"{HASTE_S if hasty else CONNECT_S}s",
            "timeout": f"{HASTE_S if hasty else ANSWER_S}s",
            "allow_http": True,
        },
        retry_config={"max_retries": 0 if hasty else 3, "retry_timeout": timedelta(seconds=RETRY_S)},
    )


def said(error: Exception) -> str:
    """What the store says is for people, in one line, without what may be a secret."""
    return without_secrets(str(error).strip().partition("\n")[0])[:_MOST_SAID]
