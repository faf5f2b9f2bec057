"""flower: Celery's web page on Shoal's workers, behind a password."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from shoal.cli import options as opt
from shoal.cli.talk import print_json, say
from shoal.settings import read_settings

Host = Annotated[
    str | None,
    typer.Option(help="Where to listen. [env var: SHOAL_FLOWER_HOST; default: 127.0.0.1]"),
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="0 takes a free one and says which. [env var: SHOAL_FLOWER_PORT; "
                                        "default: 5555]"),
]  # fmt: skip
WithControl = Annotated[
    bool,
    typer.Option("--control/--no-control", envvar="SHOAL_FLOWER_CONTROL",
                 help="Let Flower stop workers and change their pools, too."),
]  # fmt: skip


def flower(host: Host = None, port: Port = None, control: WithControl = False, json: opt.Json = False) -> None:
    """Show Celery's workers and slices in Flower, behind a password (SHOAL_FLOWER_PASSWORD, else made up and shown).

    shoal flower --port 5556
    """
    from shoal.stdlog import adopt_library_logs
    from shoal.wiring import with_redis
    from shoal.worker.flower import Flower, door_of

    settings = read_settings(flower_host=host, flower_port=port)
    door = door_of(settings)
    adopt_library_logs()
    with with_redis(settings, room=False) as chosen:
        served = Flower(chosen, door, control=control)
        say(f"Flower: {served.url}  user {door.user}")
        if door.generated:
            say(f"  password, made up for this time: {door.password}")
        say("Ctrl-C stops")
        if json:
            print_json({"url": served.url, "user": door.user, "password": door.password if door.generated else None})
        served.run()
    _leave()


def _leave() -> NoReturn:
    """At once: threads of Flower that wait for a broker which is away would be waited for in turn."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
