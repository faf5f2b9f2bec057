"""The services of a fleet, in compose, on Kubernetes and under systemd, held against the source."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from typer._click.exceptions import UsageError

from shoal.api import server
from shoal.settings import SERVED_QUEUES, Settings
from shoal.worker.supervisor import PATIENCE_S
from tests.architecture.deployed import GUIDE, Service, all_services, commands_in, compose, flags, texts
from tests.documents import REPOSITORY, blocks

SPARE_S = 5
"""More than what a stop may take: whoever kills counts from the moment that it sends its signal."""
SERVICES = all_services()
WORKERS = [each for each in SERVICES if each.is_worker]
FAMILIES = ("compose", "kubernetes", "systemd")

each_service = pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.place)
each_worker = pytest.mark.parametrize("service", WORKERS, ids=lambda service: service.place)
each_family = pytest.mark.parametrize("family", FAMILIES)


def _of(family: str) -> list[Service]:
    return [each for each in SERVICES if each.place.startswith(f"{family}: ")]


@each_family
def test_the_parts_of_a_fleet_are_there(family: str) -> None:
    commands = {each.command[0] for each in _of(family)}
    assert {"api", "worker"} <= commands


@each_service
def test_every_command_and_its_variables_are_taken(service: Service) -> None:
    assert flags(service.command) is not None
    assert service.settings.archive_path.is_absolute()


def test_what_a_command_does_not_know_is_noticed() -> None:
    for wrong in (("worker", "--lanes", "http.high"), ("serve",), ("keys", "make"), ("api", "--port", "web")):
        with pytest.raises((UsageError, AssertionError)):
            flags(wrong)


def test_commands_within_scripts_and_the_guide_are_ours() -> None:
    scripts = [str(each["command"]) for each in compose()["services"].values() if "entrypoint" in each]
    shown = [block.text for block in blocks(GUIDE) if block.language == "sh"]
    found = [command for text in (*scripts, *shown) for command in commands_in(text)]
    assert ("keys", "create", "--label", "prometheus", "--scope", "admin") in found
    for command in found:
        flags(command)


def test_every_variable_of_ours_exists() -> None:
    known = {f"SHOAL_{name.upper()}" for name in Settings.model_fields}
    unknown: dict[str, set[str]] = defaultdict(set)
    for path, text in texts():
        for name in set(re.findall(r"\bSHOAL_[A-Z_]+", text)) - known:
            unknown[str(path.relative_to(REPOSITORY))].add(name)
    assert unknown == {}


@each_family
def test_every_queue_is_served_and_somebody_beats(family: str) -> None:
    workers = [each for each in _of(family) if each.is_worker]
    assert {queue for each in workers for queue in each.settings.queue_names} == set(SERVED_QUEUES)
    assert [each.settings.queues for each in workers if each.settings.beat] == ["control"]


@each_family
def test_render_workers_are_apart(family: str) -> None:
    for each in _of(family):
        if each.is_worker and each.settings.browser_queues:
            assert each.settings.browser_queues == each.settings.queue_names


@each_worker
def test_a_worker_may_end_before_it_is_killed(service: Service) -> None:
    assert service.stop_s >= service.settings.grace_seconds + PATIENCE_S + SPARE_S


@pytest.mark.parametrize(
    "service", [each for each in SERVICES if each.command[0] == "api"], ids=lambda each: each.place
)
def test_an_api_may_end_before_it_is_killed(service: Service) -> None:
    assert service.stop_s >= server.GRACE_S + SPARE_S


@each_worker
def test_a_worker_has_the_memory_that_its_settings_allow_it(service: Service) -> None:
    mine = service.settings
    megabytes = mine.recycle_megabytes + (mine.browser_megabytes if mine.browser_queues else 0)
    assert service.memory_bytes >= mine.processes * megabytes * 1_000_000


@each_service
def test_what_is_written_is_mounted(service: Service) -> None:
    if service.place.startswith("systemd: "):
        return
    assert {"/tmp", str(service.settings.home)} <= service.written
    assert service.command[0] == "flower" or "/srv/shoal/archive" in service.written
    assert str(service.settings.archive_path) == "/srv/shoal/archive"


# --- secrets --------------------------------------------------------------------------------------------------------

_LOGIN = re.compile(r"\w+://[^\s:/@'\"]*:([^\s@'\"]+)@")


def test_no_login_is_written_down() -> None:
    for path, text in texts():
        told = _LOGIN.findall(text.replace("is missing in compose.env", ""))
        assert [each for each in told if not re.fullmatch(r"\$\{\w+:\?\}|[A-Z]+", each)] == [], path


def test_no_key_of_ours_is_written_down() -> None:
    for path, text in texts():
        assert re.findall(r"\bshoal_[a-z0-9]{10}_\w+", text) == [], path


def test_files_with_secrets_are_ignored_by_git_and_not_part_of_images() -> None:
    ignored = (REPOSITORY / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"/deploy/compose.env", "/deploy/kubernetes/secret.env"} <= set(ignored)
    assert (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()[1] == "*"
