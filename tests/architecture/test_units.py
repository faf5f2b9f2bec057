"""deploy/systemd: units that start what there is, without rights, and stop it as it wants to be stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.deployed import PROGRAM, UNITS, unit, variables, wanted_units
from tests.conftest import lack

SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
each_unit = pytest.mark.parametrize("name", SERVICES)


def test_the_units_are_there_and_the_target_wants_them_all() -> None:
    assert SERVICES == ["shoal-api.service", "shoal-control.service", "shoal-worker@.service"]
    templates = {name.partition("@")[0] + "@.service" if "@" in name else name for name in wanted_units()}
    assert templates == set(SERVICES)


@each_unit
def test_a_unit_belongs_to_the_target_and_comes_back(name: str) -> None:
    options = unit(UNITS / name)
    assert options["PartOf"] == ["shoal.target"]
    assert options["WantedBy"] == ["multi-user.target"]  # also where the target itself is not enabled
    assert options["Restart"] == ["always"]
    assert int(options["LimitNOFILE"][0]) >= 65_536


@each_unit
def test_only_the_first_process_is_told_to_stop(name: str) -> None:
    """The others are told by it, in order."""
    options = unit(UNITS / name)
    assert options["KillMode"] == ["mixed"]
    assert "KillSignal" not in options  # SIGTERM


@each_unit
def test_a_unit_has_no_rights(name: str) -> None:
    options = unit(UNITS / name)
    assert options["User"] == options["Group"] == ["shoal"]
    assert options["CapabilityBoundingSet"] == [""]
    for wanted in ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "ProtectKernelModules"):
        assert options[wanted] == ["yes"], wanted
    assert options["ProtectSystem"] == ["strict"]


def test_a_worker_may_have_what_the_sandbox_of_a_browser_is_made_of() -> None:
    options = unit(UNITS / "shoal-worker@.service")
    assert options["RestrictNamespaces"] == ["user pid net"]
    assert "MemoryDenyWriteExecute" not in options  # a browser compiles
    (filtered,) = options["SystemCallFilter"]
    assert not {"@mount", "@privileged", "@sandbox", "@process"} & set(filtered.lstrip("~").split())


@each_unit
def test_what_is_written_is_the_units_own(name: str) -> None:
    options = unit(UNITS / name)
    (pairs,) = options["Environment"]
    given = dict(pair.split("=", 1) for pair in pairs.split())
    (folder,) = options["StateDirectory"]
    assert given["SHOAL_HOME"] == f"/var/lib/{folder}"
    assert given["SHOAL_ARCHIVE_DIR"].startswith(f"/var/lib/{folder}/")


@each_unit
def test_secrets_come_from_a_file(name: str) -> None:
    options = unit(UNITS / name)
    assert options["EnvironmentFile"][0] == "/etc/shoal/shoal.env"
    assert set(variables(UNITS / "shoal.env.example").values()) == {""}


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze") or lack("systemd-analyze is not on the PATH (systemd)")
    for path in (*UNITS.glob("*.service"), UNITS / "shoal.target"):
        text = path.read_text(encoding="utf-8").replace(PROGRAM, shutil.which("true") or "/bin/true")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    names = ["shoal.target", *wanted_units()]
    done = subprocess.run(
        [verify, "verify", "--man=no", *names],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert [line for line in done.stderr.splitlines() if "shoal" in line] == []
    if done.returncode:
        lack(f"systemd-analyze cannot tell here: {done.stderr}")
