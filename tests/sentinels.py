"""A primary, a replica and three sentinels, each a process of its own on loopback, gone with the test run."""

# redis-py's hints leave gaps: what falls into them is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false
from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import redis
from redis.exceptions import RedisError

from shoal.frontier.scripts import connect
from shoal.frontier.sentinel import Sentinels
from shoal.guardian import die_with_parent
from tests.waiting import wait_until

SERVICE = "shoal main"
WITHIN = timedelta(seconds=60)
DOWN_AFTER_MS = 1000


@dataclass(frozen=True, slots=True)
class Access:
    """How servers and sentinels are spoken to; plainly, when nothing is said."""

    users: str = ""
    """An ACL file of the servers."""
    user: str = ""
    password: str = ""
    admin: str = ""
    """user:password of one who may do everything there."""
    sentinel_password: str = ""
    certificate: Path | None = None
    """A folder with `cert.pem` and `key.pem`: then everybody speaks TLS."""
    databases: int = 16
    durable: bool = False
    """With an append-only file."""

    @property
    def files(self) -> list[str]:
        if self.certificate is None:
            return []
        files = [("tls-cert-file", "cert.pem"), ("tls-key-file", "key.pem"), ("tls-ca-cert-file", "cert.pem")]
        named = [f"{option} {self.certificate / file}" for option, file in files]
        return [*named, "tls-auth-clients no", "tls-replication yes"]

    def ports(self, port: int) -> list[str]:
        return [f"port {port}"] if self.certificate is None else ["port 0", f"tls-port {port}"]

    @property
    def options(self) -> list[str]:
        trusted = [f"ssl_ca_certs={self.certificate / 'cert.pem'}"] if self.certificate else []
        return trusted + ([f"sentinel_password={quote(self.sentinel_password)}"] if self.sentinel_password else [])


@dataclass(slots=True)
class Family:
    """Two servers, and who watches them."""

    binary: str
    folder: Path
    access: Access
    servers: list[int]
    sentinels: list[int]
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict[int, "subprocess.Popen[bytes]"])

    @property
    def url(self) -> str:
        """As Shoal is told of it."""
        access = self.access
        scheme = "rediss+sentinel" if access.certificate else "redis+sentinel"
        login = f"{access.user}:{quote(access.password, safe='')}@" if access.password else ""
        places = ",".join(f"127.0.0.1:{port}" for port in self.sentinels)
        options = "&".join(access.options)
        return f"{scheme}://{login}{places}/{quote(SERVICE)}{'?' if options else ''}{options}"

    def server(self, port: int) -> redis.Redis:
        """One of the servers, as somebody who may do everything there."""
        scheme = "rediss" if self.access.certificate else "redis"
        login = f"{self.access.admin}@" if self.access.admin else ""
        options = f"?ssl_ca_certs={self.access.certificate / 'cert.pem'}" if self.access.certificate else ""
        return connect(f"{scheme}://{login}127.0.0.1:{port}{options}", timeout_s=3)

    def primary(self) -> int:
        """The port of the server that the sentinels name; 0 when they name none."""
        try:
            url = Sentinels.of(self.url).primary(timeout_s=2)
        except (RedisError, OSError):
            return 0
        return urlsplit(url).port or 0

    def start(self, port: int, *, of: int = 0) -> None:
        """A server: the primary, or a replica of one."""
        access = self.access
        lines = [*access.ports(port), "bind 127.0.0.1", 'save ""', "maxmemory-policy noeviction"]
        lines += [f"databases {access.databases}", f"appendonly {'yes' if access.durable else 'no'}"]
        lines += [*access.files, "repl-diskless-sync yes", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1"]
        if access.users:
            lines.append(f"aclfile {self._own(port) / 'users.acl'}")
            (self._own(port) / "users.acl").write_text(access.users)
            user, _, password = access.admin.partition(":")
            lines += [f"masteruser {user}", f"masterauth {password}"]
        if of:
            lines.append(f"replicaof 127.0.0.1 {of}")
        self._run(port, lines)

    def watch(self, port: int) -> None:
        """A sentinel."""
        name, access = f'"{SERVICE}"', self.access
        lines = [*access.ports(port), "bind 127.0.0.1", *access.files]
        lines += [f"sentinel monitor {name} 127.0.0.1 {self.servers[0]} 2"]
        lines += [f"sentinel down-after-milliseconds {name} {DOWN_AFTER_MS}", f"sentinel failover-timeout {name} 4000"]
        if access.admin:
            user, _, password = access.admin.partition(":")
            lines += [f"sentinel auth-user {name} {user}", f"sentinel auth-pass {name} {password}"]
        if access.sentinel_password:
            word = access.sentinel_password
            lines += [f"requirepass {word}", f"sentinel sentinel-pass {word}"]
        self._run(port, lines, "--sentinel")

    def kill(self, port: int) -> None:
        """As a power cut does."""
        process = self.processes.pop(port)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()

    def send(self, port: int, number: signal.Signals) -> None:
        self.processes[port].send_signal(number)

    def wait_until_watched(self) -> None:
        """Each sentinel knows both servers and the others."""
        wait_until(lambda: all(self._knows_all(port) for port in self.sentinels), within=WITHIN)

    def monitor(self, primary: int) -> None:
        """Let all sentinels name this one from now on."""
        for port in self.sentinels:
            with self._sentinel(port) as client:
                client.sentinel_remove(SERVICE)
                client.sentinel_monitor(SERVICE, "127.0.0.1", primary, 2)

    def _sentinel(self, port: int) -> redis.Redis:
        scheme = "rediss" if self.access.certificate else "redis"
        login = f":{quote(self.access.sentinel_password)}@" if self.access.sentinel_password else ""
        options = f"?ssl_ca_certs={self.access.certificate / 'cert.pem'}" if self.access.certificate else ""
        return connect(f"{scheme}://{login}127.0.0.1:{port}{options}", timeout_s=2)

    def _knows_all(self, port: int) -> bool:
        client = self._sentinel(port)
        try:
            (state,) = cast("dict[str, dict[str, Any]]", client.sentinel_masters()).values()
            replicas = client.sentinel_slaves(SERVICE)
        except (RedisError, OSError):
            return False
        finally:
            client.close()
        others, healthy = state["num-other-sentinels"], not (state["is_sdown"] or state["is_odown"])
        linked = [each for each in replicas if each["master-link-status"] == "ok" and not each["is_sdown"]]
        return healthy and others == len(self.sentinels) - 1 and len(linked) == len(self.servers) - 1

    def end(self) -> None:
        for port in list(self.processes):
            self.kill(port)

    def _own(self, port: int) -> Path:
        folder = self.folder / str(port)
        folder.mkdir(exist_ok=True)
        return folder

    def _run(self, port: int, lines: Sequence[str], *more: str) -> None:
        folder = self._own(port)
        conf = folder / "server.conf"
        conf.write_text("\n".join([f"dir {folder}", *lines]) + "\n")
        with (folder / "log").open("ab") as log:
            self.processes[port] = subprocess.Popen(
                [self.binary, str(conf), *more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )


@contextmanager
def running_sentinels(binary: str, access: Access | None = None) -> Generator[Family]:
    """A fresh family, which knows itself."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
    ports: list[int] = [each.getsockname()[1] for each in taken]
    for each in taken:
        each.close()
    with tempfile.TemporaryDirectory(prefix="shoal-sentinels-") as name:
        family = Family(binary, Path(name), access or Access(), ports[:2], ports[2:])
        try:
            family.start(ports[0])
            family.start(ports[1], of=ports[0])
            for port in family.sentinels:
                family.watch(port)
            family.wait_until_watched()
            yield family
        finally:
            family.end()
