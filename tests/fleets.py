"""The fleets that Shoal is tested on: database, archive, Redis and broker. Servers start when they are first wanted.

`make fleet FLEET=rabbitmq` runs the acceptance tests on another one than the embedded server; tests that
name their own services keep them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from urllib.parse import quote

from shoal.frontier.scripts import answers
from shoal.guardian import die_with_parent
from tests.documents import blocks
from tests.postgres import Postgres, running_postgres
from tests.rabbitmq import Installed, RabbitMQ, running_rabbitmq
from tests.s3 import S3, running_s3
from tests.sentinels import Access, Family, running_sentinels
from tests.servers import redis as redis_server
from tests.waiting import wait_until

REPOSITORY = Path(__file__).parent.parent
NAMES = ("embedded", "postgres", "sentinel", "rabbitmq")
CHOSEN = os.environ.get("SHOAL_TEST_FLEET", "embedded")
PASSWORD = "s3cret:/@%pass"
HOMES = 200
"""As many have databases of their own; then they are used again."""
SOON = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Fleet:
    """One home's share of the services."""

    name: str
    variables: Mapping[str, str]
    restart: Callable[[], None] | None = None
    """The broker dies, and comes back; None: it is the home's own."""


class Lacking(Exception):
    """A service is not installed; the text says which."""


class GuardedRedis:
    """A redis-server with TLS, the user of the guide and an append-only file, which can be killed and started again."""

    def __init__(self, binary: str, folder: Path, port: int) -> None:
        self._binary, self._folder, self._port = binary, folder, port
        self._process: subprocess.Popen[bytes] | None = None
        _certificate(folder)
        (folder / "users.acl").write_text(_users())

    def url(self, database: int) -> str:
        trusted = f"ssl_ca_certs={self._folder / 'cert.pem'}"
        return f"rediss://shoal:{quote(PASSWORD, safe='')}@127.0.0.1:{self._port}/{database}?{trusted}"

    def start(self) -> None:
        files = {"cert-file": "cert.pem", "key-file": "key.pem", "ca-cert-file": "cert.pem"}
        options = {
            **{f"tls-{option}": str(self._folder / file) for option, file in files.items()},
            "port": "0",
            "tls-port": str(self._port),
            "bind": "127.0.0.1",
            "tls-auth-clients": "no",
            "aclfile": str(self._folder / "users.acl"),
            "databases": str(3 * HOMES),
            "dir": str(self._folder),
            "appendonly": "yes",
            "save": "",
        }
        command = [self._binary, *(word for name, value in options.items() for word in (f"--{name}", value))]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        wait_until(lambda: answers(self.url(0)), within=SOON)

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()


class Services:
    """Every server of a test run, each started once."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._numbers = count()

    def end(self) -> None:
        self._stack.close()

    def fleet(self, name: str) -> Fleet:
        """A share for another home."""
        database = 3 * (next(self._numbers) % HOMES)
        if name == "postgres":
            variables = {
                "SHOAL_DATABASE_URL": self.postgres.new_database(),
                "SHOAL_REDIS_URL": self.redis.url(database),
                "SHOAL_ARCHIVE_URL": f"s3://{self.s3.new_bucket()}/archive",
                **self.s3.environment,
            }
            return Fleet(name, variables, self.redis.restart)
        if name == "sentinel":
            url, question, options = self.family.url.partition("?")
            return Fleet(name, {"SHOAL_REDIS_URL": f"{url}/{database}{question}{options}"}, self._fail_over)
        if name == "rabbitmq":
            return Fleet(name, {"SHOAL_BROKER_URL": self.rabbitmq.new_url()}, self._restart_rabbitmq)
        return Fleet(name, {})

    def _fail_over(self) -> None:
        """The other server takes over, and the dead one comes back as its replica."""
        before = self.family.primary()
        (other,) = (port for port in self.family.servers if port != before)
        self.family.kill(before)
        wait_until(lambda: self.family.primary() == other, within=SOON)
        self.family.start(before, of=other)
        self.family.wait_until_watched()

    def _restart_rabbitmq(self) -> None:
        self.rabbitmq.kill()
        self.rabbitmq.start()

    @cached_property
    def postgres(self) -> Postgres:
        server = self._stack.enter_context(running_postgres())
        server.hurry()
        return server

    @cached_property
    def s3(self) -> S3:
        return self._stack.enter_context(running_s3())

    @cached_property
    def redis(self) -> GuardedRedis:
        server = GuardedRedis(_redis_binary(), self._folder(), _free_port())
        self._stack.callback(server.kill)
        server.start()
        return server

    @cached_property
    def family(self) -> Family:
        return self._stack.enter_context(running_sentinels(_redis_binary(), Access(databases=3 * HOMES, durable=True)))

    @cached_property
    def rabbitmq(self) -> RabbitMQ:
        installed = Installed.find()
        if installed is None:
            raise Lacking("there is no RabbitMQ (scripts/get-services, or apt install rabbitmq-server)")
        return self._stack.enter_context(running_rabbitmq(installed))

    def _folder(self) -> Path:
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-fleet-")))


@cache
def services() -> Services:
    """Those of this test run."""
    return Services()


@cache
def chosen_variables(home: Path) -> Mapping[str, str]:
    """What `SHOAL_TEST_FLEET` gives to this home; what leads to its object store, to this process as well."""
    variables = services().fleet(CHOSEN).variables
    os.environ.update({name: value for name, value in variables.items() if name.startswith("AWS_")})
    return variables


def _redis_binary() -> str:
    binary = redis_server()
    if binary is None:
        raise Lacking("redis-server 7.0 or newer is not on the PATH (apt install redis-server)")
    return binary


def _users() -> str:
    """The user of the guide, for the databases of every home: the channels are named after them."""
    guide = REPOSITORY / "docs" / "guides" / "redis.md"
    (rules,) = (block.text for block in blocks(guide) if block.text.startswith("user default off"))
    channels = "&/0.celery.pidbox &/0.celeryev/*"
    assert channels in rules
    every = " ".join(channels.replace("/0.", f"/{3 * number}.") for number in range(HOMES))
    return rules.replace(channels, every).replace(">change-me", f">{PASSWORD}")


def _certificate(folder: Path) -> None:
    from tests.proxies import Identity

    Identity.make(folder)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
