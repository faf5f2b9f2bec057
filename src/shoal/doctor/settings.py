"""The settings: variables that nobody reads, values that are not valid, files that they name, what they ask of this
machine."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path

from shoal.doctor.finding import Area, Finding, Kind, Level, Words, well
from shoal.doctor.ground import Ground
from shoal.doctor.machine import memory_megabytes
from shoal.errors import InputError
from shoal.host_file import HostFile
from shoal.proxy_pools import ProxyPools
from shoal.redis_url import RedisUrls, redis_of
from shoal.settings import Settings, setting_variables
from shoal.spiders.finder import is_file, split_sources

SPARE_FILES = 200
"""Open files of a worker process besides its sockets."""
ENOUGH_FILES = 65_536

UNKNOWN = Kind(
    "unknown_variable", Area.SETTINGS, Level.WARNING,
    "Nothing reads this variable: what it should set has its default.",
    "unset {name}",
)  # fmt: skip
BAD_VALUE = Kind(
    "bad_value", Area.SETTINGS, Level.ERROR,
    "No command starts with this value.",
    "unset {name}",
)  # fmt: skip
BAD_URL = Kind(
    "bad_url", Area.SETTINGS, Level.ERROR,
    "No command starts: a URL is needed, with its password percent-encoded.",
    "export SHOAL_REDIS_URL=redis://HOST:6379",
)  # fmt: skip
SHARED_NUMBER = Kind(
    "shared_database", Area.SETTINGS, Level.ERROR,
    "Celery's messages lie among the frontier's keys, or among results: who empties one empties the other.",
    "unset SHOAL_BROKER_URL",
)  # fmt: skip
BAD_FILE = Kind(
    "bad_file", Area.SETTINGS, Level.ERROR,
    "No command that needs this file starts.",
    "{editor} {path}",
)  # fmt: skip
FEW_FILES = Kind(
    "few_open_files", Area.SETTINGS, Level.WARNING,
    "A worker that has all its sockets in use cannot open another file: fetches fail with 'Too many open files'.",
    "ulimit -n {enough}",
)  # fmt: skip
LITTLE_MEMORY = Kind(
    "little_memory", Area.SETTINGS, Level.WARNING,
    "The system kills what takes the last memory: Celery calls it WorkerLostError, signal 9 (SIGKILL).",
    "export SHOAL_CONCURRENCY={fits}",
)  # fmt: skip


def variables(ground: Ground) -> Iterator[Finding]:
    """Are all variables known, and valid?"""
    reading = ground.reading
    for name, flaw in sorted(reading.flaws.items()):
        default = setting_variables().get(name, "")
        mend = f"export {name}={default}" if default and name in reading.variables else ""
        yield BAD_VALUE.found(f"{name}: {flaw}", mend=mend, name=name)
    settings = setting_variables().keys()
    strange = reading.variables - settings
    unknown = sorted(strange - ground.flag_variables()) if strange else []
    for name in unknown:
        yield _unknown(name, settings)
    if not reading.flaws and not unknown:
        many = len(reading.variables)
        yield well(Area.SETTINGS, f"variables set: {many}, each known and valid" if many else "all are the defaults")


def _unknown(name: str, known: Iterable[str]) -> Finding:
    meant = get_close_matches(name, list(known), 1, 0.8)
    if not meant:
        return UNKNOWN.found(f"{name} is set, and there is no such setting", name=name)
    mend = f'export {meant[0]}="${name}"; unset {name}'
    return UNKNOWN.found(f"{name} is set, and there is no such setting: is {meant[0]} meant?", mend=mend)


def redis_urls(ground: Ground) -> Iterator[Finding]:
    """Can the URLs be read, and do they name three databases?"""
    settings = ground.settings
    try:
        urls = RedisUrls.of(settings.redis_url or "redis://127.0.0.1", settings.broker_url)
    except InputError as exc:
        name = "SHOAL_BROKER_URL" if "SHOAL_BROKER_URL" in str(exc) else "SHOAL_REDIS_URL"
        yield BAD_URL.found(str(exc), mend=f"export {name}=redis://HOST:6379")
        return
    broker = redis_of(urls.broker)
    taken = {redis_of(urls.results): "Celery's results", urls.frontier: "the frontier"}
    if settings.broker_url and settings.redis_url and broker and (other := _same(broker, taken)):
        yield SHARED_NUMBER.found(f"SHOAL_BROKER_URL names the database that {other} are in")


def _same(broker: str, taken: dict[str | None, str]) -> str:
    plain = {_without_options(url): whose for url, whose in taken.items() if url}
    return plain.get(_without_options(broker), "")


def _without_options(url: str) -> str:
    return url if url.startswith("unix:") else url.partition("?")[0].replace("://localhost", "://127.0.0.1")


def files(ground: Ground) -> Iterator[Finding]:
    """Can the files be read that the settings name?"""
    settings = ground.settings
    for path, read in ((settings.hosts_file, _read_hosts), (settings.proxies_file, _read_proxies)):
        try:
            read(path)
        except InputError as exc:
            yield BAD_FILE.found(" ".join(str(exc).split()), editor=Words("${EDITOR:-vi}"), path=path)
    for source in split_sources(settings.spiders):
        if is_file(source) and not Path(source).is_file():
            yield BAD_FILE.found(f"SHOAL_SPIDERS names {source}, which is no file", mend="shoal spiders")


def _read_hosts(path: Path | None) -> None:
    HostFile(path).check()


def _read_proxies(path: Path | None) -> None:
    ProxyPools(path)


def limits(ground: Ground) -> Iterator[Finding]:
    """Does this machine give a worker what the settings ask for?"""
    settings = ground.settings
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < settings.sockets + SPARE_FILES:
        what = f"a process may have {soft} files open, and SHOAL_SOCKETS is {settings.sockets}"
        yield FEW_FILES.found(what, enough=ENOUGH_FILES)
    yield from _memory(settings, memory_megabytes())


def _memory(settings: Settings, has: int) -> Iterator[Finding]:
    wants = settings.processes * settings.recycle_megabytes
    if wants <= has:
        return
    what = f"{settings.processes} processes may grow to {wants} MB together, and there are {has} MB"
    yield LITTLE_MEMORY.found(what, fits=max(1, has // settings.recycle_megabytes))


CHECKS = (variables, redis_urls, files, limits)
