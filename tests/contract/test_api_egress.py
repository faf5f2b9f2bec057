"""Over the API nobody reaches this machine or its network, unless the operator has allowed it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from shoal.api.schemas import ONLY_HERE
from shoal.core.spec import JobSpec
from tests.contract.api import Desk, a_desk, told

FORBIDDEN = [
    "http://127.0.0.1:6379/",
    "http://localhost/",
    "http://[::1]/",
    "http://10.0.0.1/",
    "http://169.254.169.254/",
]


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    with a_desk(valkey_url, tmp_path / "home") as found:
        yield found


@pytest.mark.parametrize("url", FORBIDDEN)
def test_a_forbidden_address_is_a_problem_with_its_place(url: str, desk: Desk) -> None:
    answer = desk.post("jobs", {"urls": ["https://books.example/", url]})
    assert answer.status_code == 422
    (problem,) = answer.get_json()["errors"]
    assert "is not on the internet" in problem["detail"]
    assert "urls" in str(problem) and "1" in str(problem)


@pytest.mark.parametrize("url", FORBIDDEN)
def test_nor_is_it_scraped(url: str, desk: Desk) -> None:
    answer = desk.post("scrape", {"url": url})
    assert answer.status_code == 422
    assert "is not on the internet" in answer.get_data(as_text=True)


def test_nobody_can_say_that_he_is_at_this_machine(desk: Desk) -> None:
    answer = desk.post("jobs", {"urls": ["http://127.0.0.1/"], "local": ["127.0.0.1"]})
    assert answer.status_code == 422
    assert "only on the command line" in answer.get_data(as_text=True)


def test_a_forbidden_line_of_a_stream_is_named_and_the_others_are_taken(desk: Desk) -> None:
    job = told(desk.post("jobs", {"open": True, "follow": False}), 202)["id"]
    lines = "https://books.example/1\nhttp://10.0.0.1/\nhttps://books.example/2\n"
    answer = told(desk.send(job, lines))
    assert (answer["accepted"], answer["invalid"]) == (2, 1)
    assert "10.0.0.1 is not on the internet" in str(answer)


def test_a_job_of_the_command_line_is_no_way_to_this_machine(desk: Desk) -> None:
    spec = JobSpec(open=True, follow=False, local=("127.0.0.1:6379",))
    job = desk.platform.intake.submit(spec).job
    answer = told(desk.send(job, "http://127.0.0.1:6379/\n"))
    assert (answer["accepted"], answer["invalid"]) == (0, 1)


def test_what_the_operator_has_allowed_is_taken(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path / "home", egress_allow="10.0.0.0/8,localhost") as desk:
        for url, status in (("http://10.0.0.1/", 202), ("http://localhost/", 202), ("http://127.0.0.1/", 422)):
            assert desk.post("jobs", {"urls": [url]}).status_code == status, url


def test_what_is_no_url_and_what_is_forbidden_are_named_together(desk: Desk) -> None:
    answer = desk.post("jobs", {"urls": ["nonsense", "https://books.example/", "http://10.0.0.1/"]})
    assert answer.status_code == 422
    assert [problem["field"] for problem in answer.get_json()["errors"]] == ["urls.0", "urls.2"]


def test_nobody_is_told_to_say_elsewhere_that_he_is_at_this_machine(desk: Desk) -> None:
    job = desk.submit("https://books.example/")
    body = {"local": ["127.0.0.1"]}
    for answer in (desk.post("scrape", {"url": "https://books.example/", **body}), desk.patch(f"jobs/{job}", body)):
        assert answer.status_code == 422
        (problem,) = answer.get_json()["errors"]
        assert (problem["field"], problem["detail"]) == ("local", ONLY_HERE)
