"""Commands for who runs the machines."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.settings import read_settings

Queues = Annotated[
    str | None,
    typer.Option(help="Queues to serve, comma-separated; the high lane always goes first. [env var: SHOAL_QUEUES]"),
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, max=256, help="Processes. [env var: SHOAL_CONCURRENCY; default: 1]")
]
Sockets = Annotated[
    int | None,
    typer.Option(min=1, max=4096, help="Fetches at once in each process. [env var: SHOAL_SOCKETS; default: 128]"),
]
LogLevel = Annotated[str, typer.Option(envvar="SHOAL_LOG_LEVEL", help="debug, info, warning or error.")]


def worker(
    queues: Queues = None,
    concurrency: Concurrency = None,
    sockets: Sockets = None,
    log_level: LogLevel = "info",
) -> None:
    """Join the work: serve queues of the Redis that SHOAL_REDIS_URL names (else of the embedded one).

    SHOAL_REDIS_URL=redis://10.0.0.5 shoal worker --queues http.high,http.batch --concurrency 2
    """
    from shoal.worker.serve import serve

    settings = read_settings(queues=queues, concurrency=concurrency, sockets=sockets)
    raise typer.Exit(serve(settings, log_level))
