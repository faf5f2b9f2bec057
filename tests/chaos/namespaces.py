"""Hosts on a network of their own: each has its own address, processes, name, and list of the others' names.

A host is a set of Linux namespaces, and its first process does nothing but wait. When that is killed the kernel ends
everything on the host and takes its network away, and it is killed when the test's process dies: nothing is left,
however a test ends. Cables end in a switch, which is a namespace too, so this machine's own network never sees any of
it, and runs beside each other share nothing. No host has a way to anywhere else.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

import psutil

from shoal.guardian import die_with_parent
from tests.conftest import lack
from tests.waiting import wait_until

NETWORK = "10.83.0.0/24"
TOOLS = ("ip", "unshare", "nsenter", "mount", "hostname")
BRIDGE = "bridge"
_NAMESPACES = ("--net", "--pid", "--uts", "--mount", "--ipc")
_UNSHARE = ("unshare", *_NAMESPACES, "--mount-proc", "--fork", "--kill-child")
_PROBE = f"ip link add {BRIDGE} type bridge && ip link add one type veth peer name two"
_FIRST_PROCESS = (
    'hostname "$1" && mount --bind "$2" /etc/hosts && ip link set lo up && echo up && trap "" CHLD && '
    "exec sleep infinity"
)
"""Who ignores the end of children leaves none of them behind as a zombie, also not of those that lost their parent."""
SOON = timedelta(seconds=30)

Answer = TypeVar("Answer")
Child = subprocess.Popen[bytes]


def need_namespaces() -> None:
    """They and the tools are there, and somebody who may use them."""
    if os.geteuid():
        lack("root, who alone may make namespaces with networks of their own")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        lack(f"missing from the PATH: {', '.join(missing)} (apt install iproute2 util-linux)")
    tried = subprocess.run([*_UNSHARE, "sh", "-c", _PROBE], capture_output=True, text=True, timeout=30, check=False)
    if tried.returncode:
        lack(f"namespaces with bridges and cables (the kernel's veth and bridge): {tried.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class _Box:
    """Namespaces, and who keeps them there."""

    holder: Child
    first: int
    """The process id of the first process in it, as it is outside."""

    @classmethod
    def make(cls, name: str, names: Path) -> _Box:
        holder = subprocess.Popen(
            [*_UNSHARE, "sh", "-c", _FIRST_PROCESS, "sh", name, str(names)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            preexec_fn=partial(die_with_parent, None, signal.SIGKILL),
        )
        assert holder.stdout
        assert holder.stdout.readline() == b"up\n", f"the host {name} does not start"
        (first,) = psutil.Process(holder.pid).children()
        return cls(holder, first.pid)

    def end(self) -> None:
        """With all that runs in it; once is enough."""
        if self.holder.poll() is None:
            self.holder.kill()
            self.holder.communicate()
            wait_until(self._has_ended, within=SOON)

    def _has_ended(self) -> bool:
        """The first process is the last to end; who takes notice of that, outside, may take seconds to do so."""
        try:
            return psutil.Process(self.first).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    def ip(self, *lines: str) -> None:
        """Commands of `ip` on its network."""
        command = ["nsenter", f"--target={self.first}", "--net", "ip", "-batch", "-"]
        subprocess.run(command, input="\n".join(lines), text=True, timeout=30, check=True)


@dataclass(frozen=True, slots=True)
class Host:
    """A machine, as far as its processes can tell."""

    name: str
    address: str
    _box: _Box
    _switch: _Box
    _folder: Path
    _children: list[Child]

    def start(self, *command: str, variables: Mapping[str, str], user: pwd.struct_passwd | None = None) -> Child:
        """In the background; what it says is in a file with the name of the host."""
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                [*self._enter(user), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(variables)
            )
        self._children.append(child)
        return child

    def run(self, *command: str, variables: Mapping[str, str], user: pwd.struct_passwd | None = None) -> str:
        """To its end; what it printed."""
        done = subprocess.run(
            [*self._enter(user), *command],
            env=dict(variables),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _enter(self, user: pwd.struct_passwd | None) -> list[str]:
        as_user = [f"--setuid={user.pw_uid}", f"--setgid={user.pw_gid}"] if user else []
        return ["nsenter", f"--target={self._box.first}", *_NAMESPACES, *as_user, f"--wd={self._folder}", "--"]

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Ask from here: sockets that are opened meanwhile are on this host's network. Names are not its own."""

        def ask() -> Answer:
            self._enter_network()
            return question()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(ask).result()

    def _enter_network(self) -> None:
        """The calling thread alone."""
        with Path(f"/proc/{self._box.first}/ns/net").open("rb") as network:
            if ctypes.CDLL(None, use_errno=True).setns(network.fileno(), 0):
                raise OSError(ctypes.get_errno(), "setns")

    def cut_off(self) -> None:
        """From everybody. The cable hangs on a switch that passes nothing on: nothing arrives, and nobody is told."""
        self._switch.ip(f"link set {self.name} nomaster")

    def join(self) -> None:
        self._switch.ip(f"link set {self.name} master {BRIDGE}")

    @contextmanager
    def without(self, other: Host) -> Generator[None]:
        """One other host hears nothing of it, and is not told so."""
        self._box.ip(f"route add blackhole {other.address}/32")
        try:
            yield
        finally:
            self._box.ip(f"route del blackhole {other.address}/32")

    def lose(self) -> None:
        """Its power fails: no connection is closed, all processes are gone, and so is the host."""
        self.cut_off()
        self._box.end()


class Network:
    """A switch, and hosts that are plugged in when they are needed."""

    def __init__(self, folder: Path, names: Sequence[str], aliases: Mapping[str, Sequence[str]]) -> None:
        self._folder = folder
        self._addresses = {name: f"10.83.0.{number}" for number, name in enumerate(names, 1)}
        self._names = folder / "hosts"
        lines = ["127.0.0.1 localhost"]
        for name, address in self._addresses.items():
            lines += [f"{address} {also}" for also in (name, *aliases.get(name, ()))]
        self._names.write_text("\n".join(lines) + "\n")
        self._hosts = ExitStack()
        self._children: list[Child] = []
        """They end with their hosts; somebody has to take notice."""
        self._switch = self._make_box("switch")
        self._switch.ip(f"link add {BRIDGE} type bridge", f"link set {BRIDGE} up")

    def address(self, name: str) -> str:
        return self._addresses[name]

    def plug_in(self, name: str) -> Host:
        """A new host."""
        box = self._make_box(name)
        self._switch.ip(
            f"link add {name} type veth peer name eth0 netns {box.first}", f"link set {name} master {BRIDGE} up"
        )
        box.ip(f"address add {self._addresses[name]}/24 dev eth0", "link set eth0 up")
        return Host(name, self._addresses[name], box, self._switch, self._folder, self._children)

    def _make_box(self, name: str) -> _Box:
        box = _Box.make(name, self._names)
        self._hosts.callback(box.end)
        return box

    def end(self) -> None:
        """All hosts at once."""
        self._hosts.close()
        for child in self._children:
            child.wait(SOON.total_seconds())


@contextmanager
def a_network(folder: Path, names: Sequence[str], aliases: Mapping[str, Sequence[str]]) -> Generator[Network]:
    """Names of hosts that may come, and further names of each; everything ends with the block."""
    need_namespaces()
    network = Network(folder, names, aliases)
    try:
        yield network
    finally:
        network.end()
