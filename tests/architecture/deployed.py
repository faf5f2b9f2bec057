"""What `deploy/` and the Dockerfile say, as data: services with their command, variables, stop time and memory."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from typer.core import TyperGroup
from typer.main import get_command

from shoal.cli.main import app
from shoal.settings import PREFIX, Settings
from tests.documents import REPOSITORY

DEPLOY = REPOSITORY / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
COMPOSE_ENV = DEPLOY / "compose.env.example"
BASE, KEDA = DEPLOY / "kubernetes" / "base", DEPLOY / "kubernetes" / "keda"
UNITS = DEPLOY / "systemd"
PROGRAM = "/opt/shoal/bin/shoal"
GUIDE = REPOSITORY / "docs" / "guides" / "deploy.md"

_UNITS_OF_TIME = {"": 1, "s": 1, "m": 60, "min": 60}
_UNITS_OF_MEMORY = {"m": 1 << 20, "g": 1 << 30, "M": 1 << 20, "G": 1 << 30, "Mi": 1 << 20, "Gi": 1 << 30}
_VARIABLE = re.compile(r"\$\{(\w+)(?::[-?]([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Service:
    """One of ours, wherever it is described."""

    place: str
    """compose: api"""
    command: tuple[str, ...]
    """After `shoal`."""
    variables: Mapping[str, str]
    stop_s: float
    """Then it is killed."""
    memory_bytes: float
    written: frozenset[str] = field(default_factory=frozenset[str])
    """Folders that it may write to, in a container."""

    @property
    def name(self) -> str:
        return self.place.partition(": ")[2]

    @property
    def is_worker(self) -> bool:
        return self.command[0] == "worker"

    @property
    def settings(self) -> Settings:
        """As the command would read them; raises what makes them invalid."""
        known = {name.removeprefix(PREFIX).lower(): text for name, text in self.variables.items() if PREFIX in name}
        mine = "api_" if self.command[0] == "api" else "flower_" if self.command[0] == "flower" else ""
        given = {mine + name: value for name, value in flags(self.command).items() if value is not None}
        given.pop("log_level", None)
        taken = {name: value for name, value in given.items() if name in Settings.model_fields}
        return Settings.model_validate({name: text for name, text in known.items() if text} | taken)


def flags(command: tuple[str, ...]) -> dict[str, Any]:
    """The options of a command of ours, parsed by itself; raises UsageError for what it does not know."""
    group = get_command(app)
    words = list(command)
    while isinstance(group, TyperGroup):
        found = group.get_command(None, words[0])  # pyright: ignore[reportArgumentType]
        assert found is not None, f"there is no `shoal {command[0]}` … {words[0]}"
        group, words = found, words[1:]
    return group.make_context(command[0], words).params


def commands_in(text: str) -> list[tuple[str, ...]]:
    """The commands of ours in a text for a shell."""
    found = re.findall(r"(?:^|[\s/])shoal ([a-z][^\n>|&;#}]*)", text, re.MULTILINE)
    return [tuple(shlex.split(each)) for each in found]


def seconds(text: object) -> float:
    """`40s`, `2m`, 30."""
    number, unit = re.fullmatch(r"([\d.]+)([a-z]*)", str(text)).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return float(number) * _UNITS_OF_TIME[unit]


def size(text: object) -> float:
    """`512Mi`, `2g`, in bytes."""
    number, unit = re.fullmatch(r"([\d.]+)([a-zA-Z]+)", str(text)).groups()  # pyright: ignore[reportOptionalMemberAccess]
    return float(number) * _UNITS_OF_MEMORY[unit]


# --- compose --------------------------------------------------------------------------------------------------------


@cache
def compose() -> Any:
    """The file as it stands, anchors resolved, variables not."""
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


def filled(text: str) -> str:
    """With variables as somebody might set them."""
    return _VARIABLE.sub(lambda found: found[2] if found[0].startswith(f"${{{found[1]}:-") else "secret", text)


def is_ours(service: Any) -> bool:
    return str(service["image"]).startswith("shoal:")


def compose_services() -> Iterator[Service]:
    for name, each in compose()["services"].items():
        if is_ours(each) and "entrypoint" not in each:
            yield Service(
                f"compose: {name}",
                tuple(each["command"]),
                image_variables(each) | {key: filled(str(value)) for key, value in each["environment"].items()},
                seconds(each.get("stop_grace_period", "10s")),
                size(each["deploy"]["resources"]["limits"]["memory"]),
                frozenset(mount.split(":")[-1] if ":" in mount else mount for mount in each["volumes"])
                | frozenset(mount.partition(":")[0] for mount in each["tmpfs"]),
            )


# --- Kubernetes -----------------------------------------------------------------------------------------------------


@cache
def manifests(*folders: Path) -> tuple[Any, ...]:
    """All documents of the folders, those of kustomize left out."""
    paths = [path for folder in folders for path in sorted(folder.glob("*.yaml")) if path.name != "kustomization.yaml"]
    return tuple(each for path in paths for each in yaml.safe_load_all(path.read_text(encoding="utf-8")))


def of_kind(kind: str, *folders: Path) -> list[Any]:
    return [each for each in manifests(*(folders or (BASE, KEDA))) if each["kind"] == kind]


def only_container(deployment: Any) -> Any:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return container


def kubernetes_services() -> Iterator[Service]:
    (config,), (secret,) = of_kind("ConfigMap"), of_kind("Secret")
    for each in of_kind("Deployment"):
        container = only_container(each)
        mounts = container["volumeMounts"]
        yield Service(
            f"kubernetes: {each['metadata']['name']}",
            tuple(container["args"]),
            image_variables(container) | secret["stringData"] | config["data"],
            each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"],
            size(container["resources"]["limits"]["memory"]),
            frozenset(mount["mountPath"] for mount in mounts if not mount.get("readOnly")),
        )


# --- systemd --------------------------------------------------------------------------------------------------------


def unit(path: Path) -> dict[str, list[str]]:
    """Option → its values in their order, whatever their section."""
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, is_option, value = line.partition("=")
        if is_option and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def wanted_units() -> list[str]:
    return [name for line in unit(UNITS / "shoal.target")["Wants"] for name in line.split()]


def unit_services() -> Iterator[Service]:
    """Those that the target brings along, with the names of their instances filled in."""
    for name in wanted_units():
        template, _, instance = name.removesuffix(".service").partition("@")
        options = unit(UNITS / (f"{template}@.service" if instance else name))
        (start,) = options["ExecStart"]
        words = start.replace("%I", instance.replace(r"\x2c", ",")).split()
        assert words[0] == PROGRAM
        pairs = (pair.partition("=") for line in options["Environment"] for pair in line.split())
        yield Service(
            f"systemd: {name}",
            tuple(words[1:]),
            {**variables(UNITS / "shoal.env.example"), **{key: value for key, _, value in pairs}},
            seconds(options["TimeoutStopSec"][0]),
            size(options["MemoryMax"][0]),
        )


def variables(path: Path) -> dict[str, str]:
    """Of a file for the environment."""
    lines = (line.partition("=") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: value for name, sign, value in lines if sign and not name.startswith("#")}


# --- images ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction of the Dockerfile."""

    word: str
    text: str

    @property
    def words(self) -> tuple[str, ...]:
        """Of the exec form; raises ValueError for one that a shell would run."""
        return tuple(json.loads(self.text))


def stages() -> dict[str, list[Step]]:
    """Stage → its steps, after those of the stages that it stands on."""
    text = re.sub(r"^\s*#.*\n", "", (REPOSITORY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    found: dict[str, list[Step]] = {}
    steps: list[Step] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            steps = found[name] = [*found.get(image, []), Step(word, image)]
        elif word:
            steps.append(Step(word, rest.strip()))
    return found


def image_variables(container: Any) -> dict[str, str]:
    """What its image sets."""
    steps = stages()[container["image"].removeprefix("shoal:")]
    pairs = (pair.partition("=") for step in steps if step.word == "ENV" for pair in step.text.split())
    return {name: value for name, _, value in pairs}


def all_services() -> list[Service]:
    return [*compose_services(), *kubernetes_services(), *unit_services()]


def texts() -> Iterator[tuple[Path, str]]:
    """Every file that is about running a fleet."""
    folders = (path for path in sorted(DEPLOY.rglob("*")) if path.is_file())
    for path in (*folders, REPOSITORY / "Dockerfile", REPOSITORY / ".dockerignore", GUIDE):
        yield path, path.read_text(encoding="utf-8")
