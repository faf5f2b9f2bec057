"""The library for object stores, when several threads come first."""

from __future__ import annotations

import subprocess
import sys

FIRST = """
import threading
together = threading.Barrier(3)
def look(use):
    together.wait()
    try:
        use()
    except BaseException as exc:
        print(type(exc).__name__, exc)
def calls():
    from shoal.store.obstore_whole import obstore
    obstore.put
def errors():
    from shoal.store.obstore_whole import exceptions
    exceptions.BaseError
def stores():
    from shoal.store.obstore_whole import from_url
    from_url.__call__
threads = [threading.Thread(target=look, args=(use,)) for use in (calls, errors, stores)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_that_come_at_once_find_all_of_it() -> None:
    for _ in range(5):
        told = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, timeout=60, check=True)
        assert told.stdout + told.stderr == ""
