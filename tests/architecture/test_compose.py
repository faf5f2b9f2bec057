"""deploy/compose.yaml: who waits for whom, what is published, what is mounted, and what holds the stores."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from shoal.settings import Settings
from tests.architecture.deployed import (
    COMPOSE,
    COMPOSE_ENV,
    DEPLOY,
    compose,
    compose_services,
    filled,
    is_ours,
    stages,
    variables,
)
from tests.conftest import lack
from tests.documents import REPOSITORY

SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|_AUTH$")
PARTS = {"api", "control", "flower", "valkey", "postgres", "object-store", "prometheus", "grafana"}


OLD_COMPOSE = REPOSITORY / ".venv" / "tools" / "compose"
NEWER = (r"^name: .*\n", r", pids: \d+")
"""What docker-compose 1.29 does not know yet: the project's name, and a limit on processes."""


def _services() -> dict[str, Any]:
    return compose()["services"]


def _ours() -> Iterator[tuple[str, Any]]:
    return ((name, each) for name, each in _services().items() if is_ours(each))


def _mounts() -> Iterator[tuple[str, str, str]]:
    """(service, source, target) of everything that has a source."""
    for name, each in _services().items():
        for mount in each.get("volumes", []):
            source, colon, rest = mount.partition(":")
            if colon:
                yield name, source, rest.partition(":")[0]


def test_everything_that_a_fleet_needs_is_there() -> None:
    assert set(_services()) >= PARTS
    assert {name for name in _services() if name.startswith("worker-")} == {
        "worker-high",
        "worker-batch",
        "worker-slow",
        "worker-browser",
    }


def test_ports_are_published_on_loopback_alone_and_lead_to_who_listens() -> None:
    listening = {"api": Settings().api_port, "flower": Settings().flower_port, "prometheus": 9090, "grafana": 3000}
    published = {name: each["ports"] for name, each in _services().items() if "ports" in each}
    assert set(published) == set(listening)
    for name, (port,) in published.items():
        assert filled(port) == f"127.0.0.1:{listening[name]}:{listening[name]}"
    assert variables(COMPOSE_ENV)["BIND_ADDRESS"] == "127.0.0.1"


def test_ports_in_commands_are_those_that_are_published() -> None:
    found = {each.name: each.settings for each in compose_services()}
    assert (found["api"].api_host, found["api"].api_port) == ("0.0.0.0", 8000)
    assert (found["flower"].flower_host, found["flower"].flower_port) == ("0.0.0.0", 5555)
    for name in ("flower", "prometheus", "grafana"):
        assert _services()[name]["ports"][0].rpartition(":")[2] in str(_services()[name]["healthcheck"]["test"])


def test_whoever_waits_waits_for_somebody_who_can_tell() -> None:
    for name, each in _services().items():
        for other, wanted in each.get("depends_on", {}).items():
            if wanted["condition"] == "service_healthy":
                assert _services()[other].get("healthcheck", {}).get("test"), (name, other)
            else:
                assert wanted["condition"] == "service_completed_successfully"
                assert _services()[other]["restart"] == "no", (name, other)


def test_every_variable_can_be_set_and_no_secret_has_a_value() -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    offered = variables(COMPOSE_ENV)
    assert set(re.findall(r"(?<!\$)\$\{(\w+)", text)) == set(offered)
    assert {name: value for name, value in offered.items() if SECRET.search(name) and value} == {}
    for name in filter(SECRET.search, offered):
        assert re.findall(rf"\$\{{{name}(?!:\?)", text) == []  # compose refuses to start without it


def test_secrets_of_services_come_from_the_file() -> None:
    for name, each in _services().items():
        for variable, value in each.get("environment", {}).items():
            if SECRET.search(variable):
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", str(value)), (name, variable)


def test_our_containers_have_no_rights() -> None:
    users = {step.text for image in ("slim", "browser") for step in stages()[image] if step.word == "USER"}
    for name, each in _ours():
        assert {each["user"]} == users, name
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert each["init"] is True
    for name, each in _services().items():
        assert "no-new-privileges:true" in each["security_opt"], name
        assert "privileged" not in each, name
        assert each["cap_drop"] == ["ALL"], name


def test_services_come_back_and_have_limits() -> None:
    for name, each in _services().items():
        if each["restart"] == "no":
            assert name in ("upgrade", "first-key", "bucket")
            continue
        assert each["restart"] == "unless-stopped"
        assert set(each["deploy"]["resources"]["limits"]) >= {"cpus", "memory"}, name
        assert name == "api" or each["healthcheck"], name  # that of the API is its image's
        assert not is_ours(each) or each["ulimits"]["nofile"]["soft"] >= 65_536


def test_workers_are_not_asked_for_the_health_of_an_api() -> None:
    for name, each in _ours():
        if name != "api":
            assert each["healthcheck"].get("disable") or "8000" not in str(each["healthcheck"]["test"]), name


def test_images_are_built_from_stages_that_there_are() -> None:
    for name, each in _ours():
        assert (COMPOSE.parent / each["build"]["context"]).resolve() == REPOSITORY, name
        assert each["build"]["target"] in stages()
        assert each["image"] == f"shoal:{each['build']['target']}"
        renders = "browser." in str(each["command"])
        assert (each["build"]["target"] == "browser") == renders


def test_other_images_are_pinned() -> None:
    for name, each in _services().items():
        tag = each["image"].partition(":")[2]
        assert tag, name
        assert tag != "latest", name


def test_what_is_mounted_exists() -> None:
    for name, source, _ in _mounts():
        if source.startswith("."):
            assert (DEPLOY / source).exists(), (name, source)
        else:
            assert source in compose()["volumes"], (name, source)
    for name, each in _services().items():
        assert set(each["networks"]) <= set(compose()["networks"]), name


def test_the_archive_is_one_for_all_who_read_or_write_it() -> None:
    shared = {name for name, source, target in _mounts() if (source, target) == ("archive", "/srv/shoal/archive")}
    assert shared == {name for name, _ in _ours()} - {"first-key", "flower"}


def test_the_archive_has_a_bucket_apart_from_results() -> None:
    for name, each in _ours():
        if name not in ("first-key", "flower"):
            assert each["environment"]["SHOAL_ARCHIVE_URL"] == "s3://shoal-archive/"
            assert each["environment"]["SHOAL_OUTPUTS"] == "s3://shoal/"
    assert "store/shoal-archive store/shoal" in str(_services()["bucket"]["command"])


def test_stores_have_no_way_to_the_web() -> None:
    assert compose()["networks"]["stores"]["internal"] is True
    for name in ("valkey", "postgres", "object-store"):
        assert _services()[name]["networks"] == ["stores"]
        assert "ports" not in _services()[name]


def test_valkey_keeps_what_it_has() -> None:
    command = str(_services()["valkey"]["command"])
    for wanted in ("--appendonly yes", "--maxmemory-policy noeviction", "--requirepass", "--dir /data"):
        assert wanted in command
    assert ("valkey", "valkey", "/data") in set(_mounts())


def test_prometheus_asks_the_api_with_the_key_that_is_made_for_it() -> None:
    (scrape,) = yaml.safe_load((DEPLOY / "compose" / "prometheus.yml").read_text())["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": [f"api:{Settings().api_port}"]}]
    assert scrape["metrics_path"] == "/metrics"
    mounts = {(name, source): target for name, source, target in _mounts()}
    made = mounts["first-key", "keys"] + "/prometheus.key"
    read = scrape["authorization"]["credentials_file"]
    assert made in str(_services()["first-key"]["command"])
    assert read == mounts["prometheus", "keys"] + "/prometheus.key"
    (group,) = _services()["prometheus"]["group_add"]
    assert _services()["first-key"]["user"].endswith(f":{group}")


def test_grafana_asks_prometheus_by_its_name() -> None:
    (source,) = yaml.safe_load((DEPLOY / "compose" / "datasource.yml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/shoal.yml").read_text())["providers"]
    targets = {target for name, _, target in _mounts() if name == "grafana"}
    assert f"{provider['options']['path']}/shoal.json" in targets


def test_the_browsers_container_forbids_what_its_sandbox_does_not_need() -> None:
    (option,) = (each for each in _services()["worker-browser"]["security_opt"] if each.startswith("seccomp:"))
    profile = json.loads((DEPLOY / option.removeprefix("seccomp:")).read_text())
    (rule,) = profile["syscalls"]
    assert (profile["defaultAction"], rule["action"]) == ("SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO")
    assert {"mount", "ptrace", "bpf", "keyctl", "init_module", "kexec_load"} <= set(rule["names"])
    assert not {"clone", "clone3", "unshare", "chroot", "seccomp", "execve"} & set(rule["names"])


def test_compose_takes_the_file(tmp_path: Path) -> None:
    compose, text = _compose(), COMPOSE.read_text(encoding="utf-8")
    for newer in NEWER if compose[-1] != "compose" else ():
        text, found = re.subn(newer, "", text, flags=re.MULTILINE)
        assert found
    for path in COMPOSE.parent.iterdir():
        if path.name != COMPOSE.name:
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / COMPOSE.name).write_text(text, encoding="utf-8")
    env = tmp_path / "compose.env"
    env.write_text("".join(f"{name}={value or 'x'}\n" for name, value in variables(COMPOSE_ENV).items()))
    command = [*compose, "-f", COMPOSE.name, "--env-file", str(env), "config", "--quiet"]
    given = {**os.environ, "PYTHONPATH": str(OLD_COMPOSE)}
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def _compose() -> list[str]:
    """Docker's own, or the last one that was written in Python, which Debian has."""
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0:
        return [docker, "compose"]
    if not (OLD_COMPOSE / "compose").is_dir():
        lack("neither Docker's compose nor Debian's docker-compose is here (scripts/get-services gets that one)")
    return [sys.executable, "-c", "from compose.cli.main import main; main()"]
