"""Runs processes of scrapy-redis on one queue, gives them the first URL, and adds up what they did.

Run as `python scrapy_redis_run.py URL REDIS PROCESSES`.
"""

# pyright: basic, reportMissingImports=false
import json
import signal
import subprocess
import sys
from pathlib import Path

import redis
from scrapy_redis_crawl import START

SCRIPT = Path(__file__).with_name("scrapy_redis_crawl.py")


def main(url: str, server: str, processes: int) -> None:
    """Crawl the site of the first argument."""
    with redis.Redis.from_url(server) as client:
        client.lpush(START, json.dumps({"url": url}))
    told = _run([sys.executable, str(SCRIPT), server], processes)
    worked = [one for one in told if one["pages"]]
    seconds = max(one["last"] for one in worked) - min(one["first"] for one in worked)
    print(json.dumps({"pages": sum(one["pages"] for one in told), "seconds": seconds}))


def _run(command: list[str], processes: int) -> list[dict]:
    """What each says in the end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through `finally`, so that the others end too
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    try:
        return [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]
    finally:
        for child in children:
            child.terminate()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
