"""A real RabbitMQ in a folder of its own, on loopback alone, gone with the test run together with its port mapper."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from urllib.parse import quote

from amqp.exceptions import AMQPError

from shoal.guardian import die_with_parent
from shoal.rabbitmq import connected
from tests.waiting import wait_until

TOOLS = Path(__file__).parent.parent / ".venv" / "tools" / "rabbitmq"
STARTS_WITHIN = timedelta(seconds=90)
USER, PASSWORD = "shoal", "s3cret:/@%pass"
COOKIE = "shoaltests"
CALM = "+S 1:1 +SDcpu 1:1 +SDio 1 +sbwt none +sbwtdcpu none +sbwtdio none"
"""One scheduler, which sleeps when it has nothing to do."""
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Installed:
    """Where RabbitMQ and its Erlang are."""

    erlang: Path
    server: Path

    @classmethod
    def find(cls) -> Installed | None:
        """What `scripts/get-services` has unpacked, or what is installed."""
        for erlang, rabbitmq in (
            (TOOLS / "erlang", TOOLS / "rabbitmq"),
            (_installed_erlang(), Path("/usr/lib/rabbitmq")),
        ):
            servers = sorted(rabbitmq.glob("lib/*/sbin/rabbitmq-server"))
            if erlang and (erlang / "bin" / "erl").is_file() and servers:
                return cls(erlang, servers[-1])
        return None

    @property
    def port_mapper(self) -> Path:
        return next(self.erlang.glob("erts-*/bin/epmd"))

    @property
    def caller(self) -> Path:
        """That runs a line of Erlang in a server."""
        return next(self.erlang.glob("**/bin/erl_call"))


def _installed_erlang() -> Path | None:
    found = shutil.which("erl")
    return Path(found).resolve().parent.parent if found else None


@dataclass(slots=True)
class RabbitMQ:
    """A running server, of which each test takes a virtual host of its own."""

    installed: Installed
    folder: Path
    port: int
    tls_port: int = 0
    _ports: tuple[int, int] = (0, 0)
    """For Erlang's own traffic, and of the port mapper."""
    _process: subprocess.Popen[bytes] | None = None
    _mapper: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def new_url(self, *, user: str = USER, password: str = PASSWORD, tls: str = "") -> str:
        """Of a virtual host that nobody has used; with `tls`, an option that names its authority, over TLS."""
        name = f"v{next(_numbers)}"
        self.tell(f'rabbit_vhost:add(<<"{name}">>, <<"test">>)')
        self.permit(USER, name)
        return self.url(name, user=user, password=password, tls=tls)

    def url(self, name: str, *, user: str = USER, password: str = PASSWORD, tls: str = "") -> str:
        login = f"{user}:{quote(password, safe='')}"
        if tls:
            return f"amqps://{login}@127.0.0.1:{self.tls_port}/{name}?{tls}"
        return f"amqp://{login}@127.0.0.1:{self.port}/{name}"

    def permit(self, user: str, name: str, configure: str = ".*", write: str = ".*", read: str = ".*") -> None:
        """What a user may do in a virtual host."""
        rights = ", ".join(f"<<{json.dumps(each)}>>" for each in (user, name, configure, write, read, "test"))
        self.tell(f"rabbit_auth_backend_internal:set_permissions({rights})")

    def add_user(self, user: str, password: str) -> None:
        self.tell(f'rabbit_auth_backend_internal:add_user(<<"{user}">>, <<"{password}">>, <<"test">>)')

    def tell(self, erlang: str) -> str:
        """Have the server do this; its answer."""
        told = subprocess.run(
            [self.installed.caller, "-e", "-c", COOKIE, "-address", f"127.0.0.1:{self._ports[0]}", "-timeout", "30"],
            input=f"{erlang}.\n",
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert told.returncode == 0 and "{ok," in told.stdout, told.stdout + told.stderr
        return told.stdout

    def start(self) -> None:
        """And wait until it answers."""
        if self._mapper is None:
            command = [self.installed.port_mapper, "-address", "127.0.0.1", "-port", str(self._ports[1])]
            self._mapper = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.installed.server],
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        wait_until(self._answers, within=STARTS_WITHIN)

    def kill(self) -> None:
        """At once, as a power cut does."""
        if self._process:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        self.kill()
        if self._mapper:
            self._mapper.terminate()
            self._mapper.wait()

    def _answers(self) -> bool:
        assert self._process and self._process.poll() is None, (self.folder / "log").read_text(errors="replace")[-3000:]
        try:
            with connected(self.url("%2F")):
                return True
        except (AMQPError, OSError):
            return False

    @property
    def _environment(self) -> dict[str, str]:
        folder = self.folder
        own = {
            "PATH": f"{self.installed.erlang / 'bin'}:/usr/bin:/bin",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "ERLANG_HOME": str(self.installed.erlang),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._ports[1]),
            "RUNNING_UNDER_SYSTEMD": "true",  # no shell stays between it and us
            "RABBITMQ_NODENAME": f"shoal{os.getpid()}@localhost",
            "RABBITMQ_DIST_PORT": str(self._ports[0]),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "environment"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"{CALM} -kernel inet_dist_use_interface {{127,0,0,1}}",
        }
        return own | {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}


@contextmanager
def running_rabbitmq(installed: Installed, certificate: Path | None = None) -> Generator[RabbitMQ]:
    """A fresh server; with a folder that has `cert.pem` and `key.pem`, over TLS too."""
    with tempfile.TemporaryDirectory(prefix="shoal-rabbitmq-") as name:
        folder = Path(name)
        port, tls_port, own, mapper = _free_ports(4)
        _write(folder, port, tls_port, certificate)
        server = RabbitMQ(installed, folder, port, tls_port if certificate else 0, (own, mapper))
        try:
            server.start()
            yield server
        finally:
            server.end()


def _write(folder: Path, port: int, tls_port: int, certificate: Path | None) -> None:
    lines = [
        f"listeners.tcp.1 = 127.0.0.1:{port}",
        f"load_definitions = {folder / 'definitions.json'}",
        "log.console = true",
        "log.console.level = warning",
        "log.file = false",
        "disk_free_limit.absolute = 1MB",
    ]
    if certificate:
        files = {"cacertfile": "cert.pem", "certfile": "cert.pem", "keyfile": "key.pem"}
        lines += [f"listeners.ssl.1 = 127.0.0.1:{tls_port}", "ssl_options.verify = verify_none"]
        lines += [f"ssl_options.{option} = {certificate / file}" for option, file in files.items()]
    rights = {"user": USER, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    known = {
        "users": [{"name": USER, "password": PASSWORD, "tags": "administrator"}],
        "vhosts": [{"name": "/"}],
        "permissions": [rights],
    }
    (folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
    (folder / "definitions.json").write_text(json.dumps(known))
    (folder / "environment").write_text("")
    (folder / "plugins").write_text("[].\n")
    cookie = folder / ".erlang.cookie"
    cookie.write_text(COOKIE)
    cookie.chmod(0o400)


def _free_ports(many: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(many)]
    ports: list[int] = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    return ports
