"""What all checks stand on: the settings as far as they are valid, and where the servers are that they name."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import redis
from redis import exceptions

from shoal.core.frozen import frozen
from shoal.core.trouble import gist
from shoal.doctor.environment import Reading
from shoal.doctor.finding import Words
from shoal.embedded import running_url
from shoal.errors import InputError, RedisUnavailable
from shoal.frontier.scripts import connect, server_url
from shoal.frontier.slots import list_prefix
from shoal.frontier.watch import Watch
from shoal.frontier.where import FrontierPlace
from shoal.redis_url import RedisUrls, is_amqp, redis_of
from shoal.settings import Settings

ASK_S = 3.0
"""So long a server may take for one answer."""


class NotLooked(Exception):
    """A check has nothing to look at; the text says why, and another check says what to do about it."""


@frozen
class Ground:
    """One installation, as this machine sees it."""

    reading: Reading
    urls: RedisUrls | None
    """None: no Redis is named or runs here, or what names it cannot be read."""
    flag_variables: Callable[[], frozenset[str]]
    """SHOAL_* variables that are twins of flags, not settings."""
    host: str = ""
    """A host that somebody wants to crawl; empty: any of the internet."""

    @classmethod
    def of(cls, reading: Reading, flag_variables: Callable[[], frozenset[str]], host: str = "") -> Ground:
        return cls(reading, _urls(reading.settings), flag_variables, host)

    @property
    def settings(self) -> Settings:
        return self.reading.settings

    @property
    def is_embedded(self) -> bool:
        return not self.settings.redis_url

    @property
    def has_rabbitmq(self) -> bool:
        """Is the broker a RabbitMQ? Then other checks look at it."""
        return is_amqp(self.settings.broker_url or "")

    @contextmanager
    def frontier(self) -> Generator[redis.Redis]:
        """A client of the frontier's database."""
        if self.urls is None:
            raise NotLooked("there is no Redis to ask")
        with asked(self.urls.frontier) as client:
            yield client

    @contextmanager
    def broker(self, *, texts: bool = True) -> Generator[redis.Redis]:
        """A client of the broker's database."""
        url = redis_of(self.urls.broker) if self.urls else None
        if url is None:
            raise NotLooked("the broker is no Redis" if self.urls else "there is no Redis to ask")
        with asked(url, texts=texts) as client:
            yield client

    @contextmanager
    def watch(self) -> Generator[Watch]:
        """The frontier as a whole."""
        if self.urls is None:
            raise NotLooked("there is no Redis to ask")
        watch = FrontierPlace(self.urls.frontier, self.settings.prefix, self.settings.shard_urls).watch(ASK_S)
        try:
            yield watch
        except (RedisUnavailable, exceptions.RedisError, OSError) as exc:
            raise NotLooked(f"Redis did not answer: {gist(exc)}") from exc
        finally:
            watch.close_connections()

    @property
    def jobs_prefix(self) -> str:
        """Of the keys of jobs in the frontier's database."""
        prefix = self.settings.prefix
        return list_prefix(prefix) if self.settings.shard_urls else prefix


@contextmanager
def asked(url: str, *, texts: bool = True) -> Generator[redis.Redis]:
    """A client for a few questions; a server that does not answer is the Redis check's to tell of."""
    client = connect(url, timeout_s=ASK_S, texts=texts)
    try:
        yield client
    except (exceptions.RedisError, OSError) as exc:
        raise NotLooked(f"Redis did not answer: {gist(exc)}") from exc
    finally:
        client.close()


def redis_cli(url: str, *, user: bool = True) -> Words:
    """How one talks to this server by hand. A password is asked for, never shown; without `user`, as somebody else."""
    parts = urlsplit(url)
    words = ["redis-cli"]
    if parts.scheme == "unix":
        words += ["-s", parts.path]
    else:
        words += ["-h", parts.hostname or "", "-p", str(parts.port or 6379)]
    if parts.scheme == "rediss":
        words.append("--tls")
    if parts.password:
        words += ["--user", parts.username, "--askpass"] if parts.username and user else ["--askpass"]
    return Words(shlex.join(words))


def placed_like(url: str, place: str) -> str:
    """A URL of another place, spoken to like this one; the login is for the reader to fill in."""
    parts = urlsplit(url)
    scheme = "redis" if parts.scheme == "unix" and not place.startswith("/") else parts.scheme
    return f"{scheme}://{'user:password@' if parts.password else ''}{place}"


def database_number(url: str) -> int:
    """Of a database's URL."""
    parts = urlsplit(url)
    text = parse_qs(parts.query).get("db", ["0"])[0] if parts.scheme == "unix" else parts.path.strip("/") or "0"
    return int(text) if text.isdigit() else 0


def _running(home: Path) -> str | None:
    """Of the embedded server; None also when the home's disk does not answer."""
    found: list[str | None] = []
    looking = threading.Thread(target=lambda: found.append(running_url(home)), daemon=True)
    looking.start()
    looking.join(ASK_S)
    return found[0] if found else None


def _urls(settings: Settings) -> RedisUrls | None:
    url = settings.redis_url or _running(settings.home)
    try:
        return _servers(RedisUrls.of(url, settings.broker_url)) if url else None
    except (InputError, exceptions.RedisError, OSError):  # the settings tell, or the sentinels
        return None


def _servers(urls: RedisUrls) -> RedisUrls:
    """The very servers: behind sentinels, those that are primaries now."""
    broker, results, frontier = (server_url(url, timeout_s=ASK_S) for url in (urls.broker, urls.results, urls.frontier))
    return RedisUrls(broker, results, frontier)
