"""One worker, from settings to exit code: a supervisor, and the Celery process that it keeps alive.

What is large is imported in the Celery process only, and by it alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NoReturn

from shoal.guardian import die_with_parent
from shoal.worker.supervisor import Handover, Life, Supervisor, flush_streams

if TYPE_CHECKING:
    from shoal.settings import Settings


def serve(settings: Settings, log_level: str = "info", become: Callable[[Handover], None] | None = None) -> int:
    """Serve queues until told to stop. `become`: the supervisor's program, where this one is too large for it."""

    def tell(worker: str, code: int, pause_s: float) -> None:
        _tell(settings, log_level, worker, code, pause_s)

    grace_s, speaks = settings.grace_seconds, settings.parent is None
    return Supervisor(grace_s, settings.hung_seconds, tell, speaks=speaks, become=become).run(
        lambda life: _work(settings, log_level, life)
    )


def supervise(before: Handover) -> int:
    """Go on as the supervisor of a worker that serves already; settings are read when they are needed."""

    def work(life: Life) -> NoReturn:
        settings = _settings()
        _work(settings, settings.log_level, life)

    def tell(worker: str, code: int, pause_s: float) -> None:
        settings = _settings()
        _tell(settings, settings.log_level, worker, code, pause_s)

    if not before.speaks:
        die_with_parent(os.getppid())  # once more: some systems forget it with the program
    return Supervisor(before.grace_s, before.hung_s, tell, speaks=bool(before.speaks), before=before).run(work)


def _settings() -> Settings:
    from shoal.settings import read_settings

    return read_settings()


def _work(settings: Settings, log_level: str, life: Life) -> NoReturn:
    """In the Celery process."""
    from shoal.log_names import name_process
    from shoal.observe import flush_logs, set_up_served_logs
    from shoal.proxy_pools import pools_of
    from shoal.redis_risks import warn_of_risks
    from shoal.wiring import sync_hosts, with_redis
    from shoal.worker.arrival import patiently
    from shoal.worker.tasks import Worker

    set_up_served_logs(settings, log_level)
    name_process(worker=life.worker)
    pools_of(settings.proxies_file).all()
    with ExitStack() as stack:
        stack.callback(flush_logs)
        chosen = patiently(settings, lambda: stack.enter_context(with_redis(settings)))
        patiently(chosen, lambda: sync_hosts(chosen))
        if chosen.parent is None:  # else the command that brought it along has said so
            warn_of_risks(chosen)
        chosen = _servable(chosen)
        _announce(chosen)
        code = Worker(chosen, life).run()
    flush_streams()
    os._exit(code)  # all is closed; Python's own end would wait for threads and processes that wait themselves


def _servable(settings: Settings) -> Settings:
    """Without the queues of the browser, where there is none; raises InputError when nothing is left."""
    from shoal.errors import InputError
    from shoal.render.lookup import find_browser

    if not settings.browser_queues:
        return settings
    try:
        find_browser(settings.browser)
    except InputError as exc:
        left = [name for name in settings.queue_names if name not in settings.browser_queues]
        if not left:
            raise
        import structlog

        log = structlog.get_logger()
        log.info("browser_missing", hint=str(exc).partition("\n")[0], served=",".join(left))
        return settings.model_copy(update={"queues": ",".join(left)})
    return settings


def _tell(settings: Settings, log_level: str, worker: str, code: int, pause_s: float) -> None:
    """In the supervisor, which needs no logs otherwise."""
    import structlog

    from shoal.log_names import name_process
    from shoal.observe import set_up_served_logs

    set_up_served_logs(settings, log_level)
    name_process(worker=worker)
    log = structlog.get_logger()
    log.error("worker_died", code=code, again_in_s=pause_s)


def _announce(settings: Settings) -> None:
    import structlog

    from shoal.redis_url import redacted

    log = structlog.get_logger()
    where = redacted(settings.redis_url or "")
    if settings.parent is None:
        with suppress(OSError):  # nobody may be there to read it
            os.write(2, f"worker: {settings.processes} × {settings.queues} on {where}; Ctrl-C stops\n".encode())
    else:
        log.info("worker_started", processes=settings.processes, queues=settings.queues, redis=where)
