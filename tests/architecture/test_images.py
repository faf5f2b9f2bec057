"""The Dockerfile: what it copies, what it installs, as whom it runs, and how it is stopped."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from shoal.render.lookup import NAMES
from shoal.settings import Settings
from tests.architecture.deployed import Step, flags, image_variables, stages
from tests.documents import REPOSITORY

REQUIREMENTS = REPOSITORY / "requirements"
IMAGES = ("slim", "browser")
each_image = pytest.mark.parametrize("image", IMAGES)


def _last(image: str, word: str) -> Step:
    return [step for step in stages()[image] if step.word == word][-1]


def _pins(name: str) -> dict[str, str]:
    text = (REQUIREMENTS / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)(?:\[[\w,]+\])?==(\S+)", text, re.MULTILINE))


def _wanted(extra: str) -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = project["dependencies"] if not extra else project["optional-dependencies"][extra]
    return {re.split(r"[\[><=]", each)[0].strip() for each in needed}


def _extras() -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def test_the_last_stage_is_the_slim_one() -> None:
    assert list(stages())[-1] == "slim"
    assert set(IMAGES) <= set(stages())


@each_image
def test_an_image_runs_as_a_user_by_number(image: str) -> None:
    user, _, group = _last(image, "USER").text.partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert any(f"--uid {user} " in step.text for step in stages()[image] if step.word == "RUN")


@each_image
def test_an_image_is_stopped_by_a_signal_that_the_command_gets(image: str) -> None:
    assert _last(image, "STOPSIGNAL").text == "SIGTERM"
    assert _last(image, "ENTRYPOINT").words == ("shoal",)
    flags(_last(image, "CMD").words)


@each_image
def test_variables_of_an_image_are_settings(image: str) -> None:
    given = image_variables({"image": f"shoal:{image}"})
    ours = {name.removeprefix("SHOAL_").lower(): value for name, value in given.items() if name.startswith("SHOAL_")}
    settings = Settings.model_validate(ours)
    made = " ".join(step.text for step in stages()[image] if step.word == "RUN")
    assert f" {settings.home} " in made
    assert f" {settings.archive_path} " in made
    assert settings.api_host == "0.0.0.0"


def test_the_slim_image_asks_its_api_how_it_is() -> None:
    check = _last("slim", "HEALTHCHECK").text
    (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)/healthz", check)
    assert int(port) == Settings().api_port == int(_last("slim", "EXPOSE").text)
    assert not any(step.word == "HEALTHCHECK" for step in stages()["browser"])


def test_what_is_copied_exists_and_is_not_left_out() -> None:
    kept = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for steps in stages().values()
        for step in steps
        if step.word == "COPY" and not step.text.startswith("--from=")
        for source in step.text.split()[:-1]
    }
    assert copied == kept
    assert [each for each in copied if not (REPOSITORY / each).exists()] == []


def test_stages_are_copied_from_stages() -> None:
    copies = [step.text for steps in stages().values() for step in steps if step.word == "COPY"]
    sources = {source for text in copies for source in re.findall(r"--from=(\S+)", text)}
    assert sources == {"build", "build-browser"}
    assert sources <= set(stages())


def test_the_browser_is_one_that_is_looked_for() -> None:
    installed = [step.text for step in stages()["browser"] if step.word == "RUN" and "apt-get" in step.text]
    assert any(f" {NAMES[0]} " in text for text in installed)


def test_requirements_are_held_to_their_hashes_and_come_from_files_that_the_stages_name() -> None:
    for name, file in (("build", "fleet.txt"), ("build-browser", "browser.txt")):
        runs = [step.text for step in stages()[name] if step.word == "RUN"]
        (install,) = (text for text in runs if f"-r requirements/{file}" in text)
        assert "--require-hashes --no-deps" in install


@pytest.mark.parametrize("name", ["fleet", "browser"])
def test_an_image_has_what_the_tests_run_on(name: str) -> None:
    pins, tested = _pins(f"{name}.txt"), _pins("dev.txt")
    assert {each: pin for each, pin in pins.items() if tested.get(each) != pin} == {}
    assert {each for each in _pins("run.txt") if each not in pins} == set()


def test_images_have_every_extra() -> None:
    fleet, browser = set(_pins("fleet.txt")), set(_pins("browser.txt"))
    assert _wanted("") <= fleet
    for extra in _extras():
        assert _wanted(extra) <= (browser if extra == "browser" else fleet), extra


def test_requirements_name_no_registry() -> None:
    for path in REQUIREMENTS.glob("*.txt"):
        assert "://" not in path.read_text(encoding="utf-8"), path.name


def test_the_makefile_renews_all_requirements() -> None:
    (names,) = re.findall(r"for name in ([\w -]+); do", (REPOSITORY / "Makefile").read_text(encoding="utf-8"))
    assert set(names.split()) == {path.stem for path in REQUIREMENTS.glob("*.in")}


def test_hadolint_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, "Dockerfile"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
