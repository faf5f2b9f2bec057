"""The one place that knows concrete adapters: settings in, a working platform out."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from redis.exceptions import RedisError
from sqlalchemy.engine import Engine

from shoal.control import Control
from shoal.embedded import hold_embedded
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.scripts import connect, server_version
from shoal.home import prepare_home
from shoal.redis_url import RedisUrls, redacted
from shoal.settings import Settings
from shoal.store.archive import ArchiveReader
from shoal.store.database import open_database
from shoal.store.jobs import JobStore
from shoal.store.pages import PageStore

OLDEST_REDIS = (7, 0)


@dataclass(frozen=True, slots=True)
class Platform:
    """Stores, frontier and control of one process."""

    settings: Settings
    engine: Engine
    frontier: Frontier
    jobs: JobStore
    pages: PageStore
    archive: ArchiveReader
    control: Control

    @classmethod
    def open(cls, settings: Settings, frontier: Frontier, ring: Callable[[str], None]) -> Platform:
        """Open the stores around a frontier."""
        engine = open_database(settings.sql_url)
        jobs, pages = JobStore(engine), PageStore(engine)
        control = Control(frontier, jobs, pages, ring)
        return cls(settings, engine, frontier, jobs, pages, ArchiveReader(settings.archive_path), control)

    def close(self) -> None:
        self.frontier.close_connections()
        self.engine.dispose()


@contextmanager
def with_redis(settings: Settings) -> Generator[Settings]:
    """Settings that name a Redis which answers: the configured one, or the embedded one for as long as this lasts."""
    prepare_home(settings.home)
    if settings.redis_url:
        _check_redis(settings)
        yield settings
        return
    hold = hold_embedded(settings.home)
    try:
        yield settings.model_copy(update={"redis_url": hold.url})
    finally:
        hold.release()


def lazy_ring(settings: Settings, frontier: Frontier) -> Callable[[str], None]:
    """A doorbell for commands that may never ring: Celery takes a while to import."""

    def ring(queue: str) -> None:
        from shoal.worker.app import make_app
        from shoal.worker.doorbell import Doorbell

        Doorbell(make_app(redis_urls(settings)), frontier).ring(queue)

    return ring


def no_ring(queue: str) -> None:
    """For who has just started workers: they look by themselves."""
    del queue


@contextmanager
def open_platform(settings: Settings, *, rings: bool = True) -> Generator[Platform]:
    """Everything that a command needs, for as long as it runs."""
    with with_redis(settings) as chosen:
        frontier = Frontier.at(redis_urls(chosen).frontier, chosen.prefix)
        platform = Platform.open(chosen, frontier, lazy_ring(chosen, frontier) if rings else no_ring)
        try:
            yield platform
        finally:
            platform.close()


def redis_urls(settings: Settings) -> RedisUrls:
    if not settings.redis_url:
        raise RedisUnavailable("no Redis was chosen")
    return RedisUrls.of(settings.redis_url, settings.broker_url)


def _check_redis(settings: Settings) -> None:
    url = redis_urls(settings).frontier
    shown = redacted(settings.redis_url or "")
    client = connect(url, timeout_s=3)
    try:
        version = server_version(client)
    except (RedisError, OSError) as exc:
        raise RedisUnavailable(
            f"cannot reach Redis at {shown}: {exc}\n"
            "Start it, correct SHOAL_REDIS_URL, or unset it to use the embedded one."
        ) from exc
    finally:
        client.close()
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_REDIS:
        raise RedisUnavailable(f"Redis {version} at {shown} is too old: Shoal needs 7.0 or newer, or Valkey")
