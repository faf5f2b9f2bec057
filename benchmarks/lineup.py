"""The contenders: how each is started, and how much of the work it is given."""

import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from benchmarks.launch import Contender, Ground, Launch, Stack, foreign

LONG = timedelta(minutes=5)
SHARE = 0.5
"""Of a core, for each worker with all that belongs to it, where two workers are held against one."""


def _raw(ground: Ground) -> Launch:
    return Launch([sys.executable, "-m", "benchmarks.raw", ground.url])


def _shoal(ground: Ground, *, workers: int, archive: bool) -> Launch:
    options = ["--workers", str(workers), "--rate", "unlimited", "--no-robots", "--quiet", "--json"]
    if not archive:
        options.append("--no-archive")
    frontier, broker = ground.redis
    env = {"SHOAL_HOME": str(ground.home), "SHOAL_REDIS_URL": frontier, "SHOAL_BROKER_URL": f"{broker}/0"}
    return Launch([sys.executable, "-m", "shoal", "crawl", ground.url, *options], env)


def _shoal_contender(workers: int, *, archive: bool = False, share: float | None = None) -> Contender:
    """`share`: of a core, for each worker."""
    # Frontier and broker have a server each, so that the doorbells' share of the calls can be read off.
    name = f"shoal-{workers}{'-archive' * archive}{'-shared' * (share is not None)}"
    launch, cores = partial(_shoal, workers=workers, archive=archive), share and share * workers
    return Contender(name, launch, servers=2, durable=True, cores=cores)


def _scrapy(script: str, *options: str) -> Callable[[Ground], Launch]:
    return lambda ground: foreign(Stack.SCRAPY, script, ground.url, *options)


def _scrapy_redis(ground: Ground, *, processes: int) -> Launch:
    return foreign(Stack.SCRAPY, "scrapy_redis_run.py", ground.url, ground.redis[0], str(processes))


def _scrapy_redis_contender(name: str, processes: int) -> Contender:
    launch = partial(_scrapy_redis, processes=processes)
    return Contender(name, launch, Stack.SCRAPY, pages=1_200, quick_pages=100, servers=1, timeout=LONG)


def _crawlee(ground: Ground) -> Launch:
    return foreign(Stack.CRAWLEE, "crawlee_parsel.py", ground.url)


def _tutorial(ground: Ground, *, pool: str) -> Launch:
    arguments = (ground.url, str(ground.pages), pool)
    return foreign(Stack.TUTORIAL, "tutorial_run.py", *arguments, env={"TUTORIAL_REDIS": ground.redis[0]})


def _tutorial_contender(name: str, pool: str) -> Contender:
    launch = partial(_tutorial, pool=pool)
    return Contender(name, launch, Stack.TUTORIAL, pages=600, quick_pages=40, servers=1, timeout=LONG)


CONTENDERS = (
    Contender("raw", _raw),
    _shoal_contender(1),
    _shoal_contender(1, archive=True),
    _shoal_contender(2),
    _shoal_contender(2, archive=True),
    _shoal_contender(1, share=SHARE),
    _shoal_contender(2, share=SHARE),
    Contender("scrapy", _scrapy("scrapy_plain.py"), Stack.SCRAPY, pages=2_000, quick_pages=100, timeout=LONG),
    Contender("scrapy-tuned", _scrapy("scrapy_tuned.py"), Stack.SCRAPY, pages=6_000, quick_pages=200, timeout=LONG),
    Contender("scrapy-shortcut", _scrapy("scrapy_tuned.py", "--shortcut"), Stack.SCRAPY, pages=6_000, quick_pages=400),
    _scrapy_redis_contender("scrapy-redis", 1),
    _scrapy_redis_contender("scrapy-redis-2", 2),
    Contender("crawlee", _crawlee, Stack.CRAWLEE, pages=2_000, quick_pages=100, timeout=LONG),
    _tutorial_contender("tutorial", "prefork"),
    _tutorial_contender("tutorial-gevent", "gevent"),
)
SIZED = ("raw", "shoal-1", "shoal-1-archive", "scrapy-tuned")
"""Those that crawl pages of other sizes as well."""
