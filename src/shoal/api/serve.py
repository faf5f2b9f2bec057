"""The API, from settings to exit code: what must be true before it listens, where it listens, and what it leaves."""

from __future__ import annotations

import errno
import ipaddress
import os
import shutil
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from shoal.errors import InputError, ShoalError
from shoal.home import prepare_home
from shoal.settings import Settings

BACKLOG = 2048
_ANY = ("", "0.0.0.0", "::")


def serve(settings: Settings, log_level: str = "info") -> int:
    """Serve the API until told to stop; returns the exit code."""
    prepare_home(settings.home)
    with _shared_metrics(settings):
        # Imported now: a metric declared before its folder is known would count for one process only.
        from shoal.api.server import Server
        from shoal.observe import set_up_served_logs
        from shoal.proxy_pools import pools_of
        from shoal.redis_risks import warn_of_risks
        from shoal.stdlog import adopt_library_logs
        from shoal.wiring import with_redis

        set_up_served_logs(settings, log_level)
        adopt_library_logs()
        check_exposure(settings)
        pools_of(settings.proxies_file).all()
        listener = _listen(settings.api_host, settings.api_port)
        with with_redis(settings) as chosen:
            if chosen.parent is None:  # else the command that brought it along has said so
                warn_of_risks(chosen)
            return Server(chosen, listener).serve()


def check_exposure(settings: Settings) -> None:
    """Beyond this machine nobody is let in without a key: then there must be one. Brings the database up to date."""
    from shoal.store.keys import KeyStore
    from shoal.upgrades import open_store

    engine = open_store(settings)
    try:
        if not _is_loopback(settings.api_host) and not KeyStore(engine).any_live():
            raise InputError(
                f"the API refuses to listen on {settings.api_host} without an API key; "
                "make one with: shoal keys create --scope submit,read,admin --label NAME"
            )
    finally:
        engine.dispose()


def check_port(settings: Settings) -> None:
    """Say now that the port is taken, before anything was started."""
    _listen(settings.api_host, settings.api_port).close()


def base_url(host: str, port: int) -> str:
    """Where a client on this machine finds what listens there."""
    if host in _ANY:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as exc:
        if exc.errno == errno.EADDRINUSE:
            raise ShoalError(f"port {port} on {host} is in use; choose another with --port") from exc
        raise ShoalError(f"cannot listen on {host} port {port}: {exc.strerror or exc}") from exc


@contextmanager
def _shared_metrics(settings: Settings) -> Generator[None]:
    """Several processes add up their metrics in a folder, which exists for as long as they do."""
    if settings.api_workers == 1:
        yield
        return
    owner = os.getpid()
    folder = _fresh_folder(settings.home / "run", owner)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    try:
        yield
    finally:
        if os.getpid() == owner:  # the processes that were forked come by here as well
            shutil.rmtree(folder, ignore_errors=True)


def _fresh_folder(run: Path, owner: int) -> Path:
    """A new folder for this process; those of processes that were killed are removed."""
    run.mkdir(parents=True, exist_ok=True)
    for old in run.glob("metrics-*"):
        if not _lives(old.name.removeprefix("metrics-")) or old.name == f"metrics-{owner}":
            shutil.rmtree(old, ignore_errors=True)
    folder = run / f"metrics-{owner}"
    folder.mkdir()
    return folder


def _lives(pid: str) -> bool:
    with suppress(ValueError, OSError):
        os.kill(int(pid), 0)
        return True
    return False
