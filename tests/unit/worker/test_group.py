"""A process group, as one can see its leader's end, and as one cannot (macOS before Python 3.13)."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, os, signal, sys
if sys.argv[1] == "without waitid":
    del os.waitid
from shoal.worker.group import Group
from tests.waiting import wait_until

def wait(group):
    wait_until(lambda: group.ended() is not None)
    return group.ended()

def lead(end, follower=False):
    pid = os.fork()
    if pid:
        return pid, Group(pid)
    os.setpgid(0, 0)
    if follower and not os.fork():
        os.write(tell, b"here")
        signal.pause()
    end()
    os._exit(1)

def number_is_taken(pid):
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True

hear, tell = os.pipe()
alone, left = lead(lambda: os._exit(7))
pid, killed = lead(signal.pause, follower=True)
os.read(hear, 4)
os.close(tell)
alive = killed.ended()
killed.tell(signal.SIGTERM)
told = wait(killed)
kept = number_is_taken(pid)
killed.kill()
end = os.read(hear, 4)
print(json.dumps({
    "code": wait(left), "again": left.ended(), "alive": alive, "told": told, "kept": kept,
    "follower": end.decode(), "kept_alone": number_is_taken(alone),
    "free": (left.bury(), killed.bury(), not number_is_taken(alone))[2],
}))
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    sys.exit(0)
sys.exit("somebody was left lying")
"""


@pytest.mark.parametrize("system", ["with waitid", "without waitid"])
def test_a_group_keeps_its_number_until_it_is_buried(system: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, system], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "code": 7,
        "again": 7,
        "alive": None,
        "told": -15,
        "kept": True,
        "follower": "",
        "kept_alone": True,
        "free": True,
    }
