"""Commands for who runs the machines. `up`, which runs all of them, has a module of its own."""

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
WithBeat = Annotated[
    bool | None,
    typer.Option("--beat/--no-beat", help="Bring the beat along. [env var: SHOAL_BEAT; default: no-beat]"),
]
LogLevel = Annotated[str, typer.Option(envvar="SHOAL_LOG_LEVEL", help="debug, info, warning or error.")]
Host = Annotated[
    str | None,
    typer.Option(help="Where to listen; beyond this machine it needs keys. [env var: SHOAL_API_HOST; "
                      "default: 127.0.0.1]"),
]  # fmt: skip
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="0 takes a free one and says which. [env var: SHOAL_API_PORT; default: 8000]"),
]
ApiWorkers = Annotated[
    int | None, typer.Option("--workers", min=1, max=64, help="Processes. [env var: SHOAL_API_WORKERS; default: 1]")
]
ApiThreads = Annotated[
    int | None,
    typer.Option("--threads", min=8, max=4096,
                 help="Requests at once in each process. [env var: SHOAL_API_THREADS; default: 256]"),
]  # fmt: skip


def worker(
    queues: Queues = None,
    concurrency: Concurrency = None,
    sockets: Sockets = None,
    beat: WithBeat = None,
    log_level: LogLevel = "info",
) -> None:
    """Join the work: serve queues of the Redis that SHOAL_REDIS_URL names (else of the embedded one).

    SHOAL_REDIS_URL=redis://10.0.0.5 shoal worker --queues http.high,http.batch --concurrency 2

    shoal worker --queues control --beat
    """
    from shoal.worker.serve import serve

    settings = read_settings(queues=queues, concurrency=concurrency, sockets=sockets, beat=beat)
    raise typer.Exit(serve(settings, log_level))


def beat(log_level: LogLevel = "info") -> None:
    """Call for the housekeeping every two seconds; a worker that serves `control` does it.

    One is enough for any number of machines; a second one changes nothing.
    """
    from shoal.worker.beat import serve_beat

    raise typer.Exit(serve_beat(read_settings(), log_level))


def api(
    host: Host = None,
    port: Port = None,
    workers: ApiWorkers = None,
    threads: ApiThreads = None,
    log_level: LogLevel = "info",
) -> None:
    """Serve the HTTP API, and nothing else: workers and the beat are for others to run.

    shoal api --port 8080
    """
    from shoal.api.serve import serve

    settings = read_settings(api_host=host, api_port=port, api_workers=workers, api_threads=threads)
    raise typer.Exit(serve(settings, log_level))
