"""Submitting jobs: what is accepted is under way, what is refused is explained and leaves nothing behind."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from shoal.api.app import make_api
from shoal.core.model import JobState
from shoal.errors import RedisUnavailable
from shoal.frontier.scripts import connect
from shoal.settings import Settings
from shoal.wiring import serving_platform
from tests.contract.api import Client, Desk, a_desk, flaws, refused, told

URL = "http://shop.example/"
SPEC = {"urls": [URL], "follow": False, "rate": "unlimited"}


def _with_key(client: Client, key: str, spec: dict[str, Any] | None = None, **options: Any) -> Any:
    headers = {"Idempotency-Key": key, **options.pop("headers", {})}
    return client.post("jobs", spec or SPEC, headers=headers, **options)


def _jobs(desk: Desk) -> list[str]:
    return [job["id"] for job in desk.rows("jobs")]


# --- accepted --------------------------------------------------------------------------------------------------------


def test_a_job_is_answered_with_its_id_place_and_links(each: Desk) -> None:
    answer = each.post("jobs", {**SPEC, "urls": [URL, URL + "2", URL], "name": "books"})
    accepted = told(answer, 202)
    assert (accepted["accepted"], accepted["seen"], accepted["filtered"]) == (2, 1, 0)
    assert (accepted["state"], accepted["repeated"]) == ("running", False)
    assert answer.headers["Location"] == f"/api/v1/jobs/{accepted['id']}" == accepted["links"]["self"]
    for name, link in accepted["links"].items():
        if name not in ("urls", "events"):
            assert each.get(link).status_code == 200, name
    shown = each.job(accepted["id"])
    assert (shown["name"], shown["state"], shown["open"], shown["pending"]) == ("books", "running", False, 2)


def test_what_was_accepted_is_durable_in_the_frontier_and_rung_for(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(12_000)), lane="high")
    platform = each.platform
    assert [len(batch) for batch in platform.jobs.submissions.urls(job)] == [5_000, 5_000, 2_000]
    assert list(platform.jobs.submissions.waiting(job)) == []
    status = platform.frontier.status(job)
    assert status is not None
    assert (status.counters.queued, status.open) == (12_000, False)
    assert [queue for queue, _ in each.rings] == ["http.high"]


def test_a_job_runs_to_its_end_and_its_counters_reconcile(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(50)))
    assert len(each.work()) == 50
    shown = each.job(job)
    assert (shown["state"], shown["pages"], shown["pending"], shown["reconciles"]) == ("finished", 50, 0, True)
    assert shown["counters"]["admitted"] == shown["counters"]["done"] == 50
    assert shown["ended_at"] >= shown["created_at"]


def test_a_broker_that_is_away_costs_no_submission(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(queue: str, request_id: str = "") -> None:
        raise RedisUnavailable("the bell is broken")

    monkeypatch.setattr(desk.platform.intake, "_ring", silent)
    assert desk.state(desk.submit(URL)) is JobState.RUNNING


def test_an_open_job_needs_no_urls(desk: Desk) -> None:
    job = told(desk.post("jobs", {"open": True, "follow": False}), 202)
    assert (job["accepted"], desk.job(job["id"])["open"]) == (0, True)
    refused(desk.post("jobs", {"open": True}), 422)  # where to stay, when it follows links?
    told(desk.post("jobs", {"open": True, "hosts": ["shop.example"]}), 202)


# --- request ids -----------------------------------------------------------------------------------------------------


def test_a_clients_request_id_goes_with_the_job(each: Desk) -> None:
    answer = each.post("jobs", SPEC, headers={"X-Request-ID": "nightly:2026-11-16.7"})
    assert answer.headers["X-Request-ID"] == told(answer, 202)["request_id"] == "nightly:2026-11-16.7"
    assert each.job(told(answer, 202)["id"])["request_id"] == "nightly:2026-11-16.7"
    assert each.rings == [("http.batch", "nightly:2026-11-16.7")]


def test_without_one_a_request_id_is_made(desk: Desk) -> None:
    answers = [desk.post("jobs", SPEC), desk.post("jobs", SPEC), desk.get("/healthz"), desk.get("/nothing")]
    made = [answer.headers["X-Request-ID"] for answer in answers]
    assert len(set(made)) == 4
    assert all(len(name) >= 16 for name in made)


@pytest.mark.parametrize("bad", ["", "a b", "x" * 101, "é", "<script>", "a;b", "../x", '"', "a=b"])
def test_a_request_id_that_could_do_harm_is_replaced(desk: Desk, bad: str) -> None:
    answer = desk.post("jobs", SPEC, headers={"X-Request-ID": bad})
    assert answer.headers["X-Request-ID"] == told(answer, 202)["request_id"] != bad


def test_the_request_id_travels_in_the_headers_of_the_doorbell(valkey_url: str, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, redis_url=valkey_url, prefix=f"bell-{tmp_path.name}")
    platform = serving_platform(settings)
    broker = cast(Any, connect(valkey_url))  # the first database
    client = Client(make_api(platform).test_client())
    try:
        told(client.post("jobs", {**SPEC, "lane": "slow"}, headers={"X-Request-ID": "trace-me-7"}), 202)
        messages: list[str] = broker.lrange("http.slow", 0, -1)
        assert any('"request_id": "trace-me-7"' in message for message in messages)
        broker.delete("http.slow")
    finally:
        broker.close()
        platform.close()


# --- once is enough --------------------------------------------------------------------------------------------------


def test_the_same_submission_with_the_same_key_makes_one_job(each: Desk) -> None:
    first = _with_key(each, "order-1")
    again = _with_key(each, "order-1")
    assert told(again, 202)["id"] == told(first, 202)["id"]
    assert (again.headers["Idempotent-Replayed"], told(again, 202)["repeated"]) == ("true", True)
    assert again.headers["Location"] == first.headers["Location"]
    assert "Idempotent-Replayed" not in first.headers
    assert len(_jobs(each)) == 1
    assert told(_with_key(each, "order-2"), 202)["id"] != told(first, 202)["id"]


def test_the_order_of_settings_makes_no_other_submission(each: Desk) -> None:
    first = told(_with_key(each, "order-1", {"urls": [URL], "name": "x", "follow": False}), 202)
    again = told(_with_key(each, "order-1", {"follow": False, "name": "x", "urls": [URL]}), 202)
    assert (again["id"], again["accepted"], again["repeated"]) == (first["id"], first["accepted"], True)
    refused(each.post("scrape", {"url": URL}, headers={"Idempotency-Key": "order-1"}), 409)


def test_one_page_may_be_asked_for_twice_and_comes_once(each: Desk) -> None:
    answers = [each.post("scrape", {"url": URL}, headers={"Idempotency-Key": "page-1"}) for _ in range(2)]
    assert told(answers[0], 202)["id"] == told(answers[1], 202)["id"]
    assert each.work() == [URL]
    done = told(each.post("scrape?wait=1", {"url": URL}, headers={"Idempotency-Key": "page-1"}))
    assert done["page"]["url"] == URL
    assert len(_jobs(each)) == 1


def test_a_repeated_submission_tells_the_job_as_it_is_now(each: Desk) -> None:
    job = told(_with_key(each, "order-1", headers={"X-Request-ID": "first"}), 202)["id"]
    each.work()
    again = told(_with_key(each, "order-1", headers={"X-Request-ID": "second"}), 202)
    assert (again["id"], again["state"], again["request_id"]) == (job, "finished", "first")
    assert each.work() == []


def test_the_same_key_for_another_submission_is_a_conflict(each: Desk) -> None:
    job = told(_with_key(each, "order-1"), 202)["id"]
    problem = refused(_with_key(each, "order-1", {**SPEC, "name": "other"}), 409)
    assert job in problem["detail"]
    assert _jobs(each) == [job]


def test_keys_of_other_tenants_are_other_keys(each: Desk) -> None:
    _, red = each.make_key(tenant="red")
    _, blue = each.make_key(tenant="blue")
    assert told(_with_key(red, "order-1"), 202)["id"] != told(_with_key(blue, "order-1"), 202)["id"]
    told(_with_key(blue, "order-2", {**SPEC, "name": "x"}), 202)
    assert len(list(red.rows("jobs"))) == 1
    told(_with_key(red, "order-2"), 202)


def test_many_at_once_with_one_key_make_one_job(each: Desk) -> None:
    clients = [each.client() for _ in range(8)]
    start = threading.Barrier(8)

    def submit(client: Client) -> tuple[str, bool]:
        start.wait(10)
        accepted = told(_with_key(client, "order-1", {**SPEC, "urls": [f"{URL}{n}" for n in range(300)]}), 202)
        return accepted["id"], accepted["repeated"]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(submit, clients))
    assert len({job for job, _ in answers}) == 1
    assert sorted(repeated for _, repeated in answers) == [False] + [True] * 7
    assert len(each.work()) == 300
    assert each.state(answers[0][0]) is JobState.FINISHED


def test_a_retry_completes_what_was_cut_short_before_the_frontier(each: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> bool:
        raise RedisUnavailable("gone")

    monkeypatch.setattr(each.platform.frontier, "create", away)
    answer = _with_key(each, "order-1")
    problem = refused(answer, 503)
    assert int(answer.headers["Retry-After"]) > 0
    monkeypatch.undo()
    again = told(_with_key(each, "order-1"), 202)
    assert (again["id"], again["repeated"]) == (problem["job"], True)
    assert each.work() == [URL]
    assert each.state(again["id"]) is JobState.FINISHED


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "ü", "tab\there"])
def test_an_idempotency_key_that_is_none_is_named(desk: Desk, key: str) -> None:
    assert list(flaws(_with_key(desk, key))) == ["Idempotency-Key"]
    assert _jobs(desk) == []


def test_the_key_of_a_deleted_job_makes_a_new_one(desk: Desk) -> None:
    job = told(_with_key(desk, "order-1"), 202)["id"]
    desk.delete(f"jobs/{job}")
    assert told(_with_key(desk, "order-1"), 202)["id"] != job


# --- refused ---------------------------------------------------------------------------------------------------------


def test_everything_that_is_wrong_is_told_at_once_with_its_place(each: Desk) -> None:
    found = flaws(
        each.post(
            "jobs",
            {
                "urls": [URL, "shop.example/2", URL + "3", "ftp://shop.example/", "http://u:p@shop.example/", 7],
                "follw": True,
                "retires": 3,
                "wholly unknown": 1,
                "rate": "fast",
                "parallel": 0,
                "depth": -1,
                "lane": "slowest",
                "labels": ["fine", "not fine"],
                "deny": ["("],
                "fields": {"title": "h1[["},
                "headers": {"X": "a\nb"},
                "hosts": ["a/b"],
            },
        )
    )
    assert set(found) == {
        *("urls.1", "urls.3", "urls.4", "urls.5", "follw", "retires", "wholly unknown", "rate", "parallel"),
        *("depth", "lane", "labels.1", "deny", "fields.title", "headers", "hosts"),
    }
    assert found["follw"] == "there is no such setting; did you mean 'follow'?"
    assert found["retires"] == "there is no such setting; did you mean 'retries'?"
    assert found["wholly unknown"] == "there is no such setting"
    assert "did you mean 'https://shop.example/2'?" in found["urls.1"]
    assert "'ftp'" in found["urls.3"]
    assert "password" in found["urls.4"]
    assert "u:p" not in str(found)
    assert _jobs(each) == []


def test_bad_urls_alone_are_told_with_their_index(desk: Desk) -> None:
    urls = [f"{URL}{n}" for n in range(500)]
    urls[3], urls[499] = "nonsense", "http://"
    answer = desk.post("jobs", {**SPEC, "urls": urls})
    assert list(flaws(answer)) == ["urls.3", "urls.499"]
    assert "1 more" in refused(answer, 422)["detail"]


def test_a_thousand_mistakes_are_told_as_far_as_a_reader_goes(desk: Desk) -> None:
    problem = refused(desk.post("jobs", {**SPEC, "urls": ["x"] * 1_000}), 422)
    assert len(problem["errors"]) == 100
    assert "999 more" in problem["detail"]


def test_a_url_that_is_too_long_is_named(desk: Desk) -> None:
    assert "2000" in flaws(desk.post("jobs", {**SPEC, "urls": [URL, URL + "x" * 2_000]}))["urls.1"]


def test_no_urls_at_all_are_too_few(desk: Desk) -> None:
    assert "no URLs" in flaws(desk.post("jobs", {"urls": []}))["urls"]
    assert list(flaws(desk.post("jobs", {"open": True}))) == ["hosts"]


@pytest.mark.parametrize("body", ["", "null", "[]", '"text"', '"{}"', "7", "true"])
def test_a_body_that_is_no_object_is_refused(desk: Desk, body: str) -> None:
    assert "object is needed" in refused(desk.post("jobs", data=body, content_type="application/json"), 422)["detail"]


@pytest.mark.parametrize("body", ["{", '{"urls": [}', "\ufeff{}", "{'urls': []}", '{"a": NaN}', "[" * 100_000])
def test_what_is_not_json_is_told_so(desk: Desk, body: str) -> None:
    answer = desk.post("jobs", data=body.encode(), content_type="application/json")
    assert refused(answer, 400)["detail"].startswith("the body is not JSON: ")


def test_a_body_in_no_known_coding_is_not_json(desk: Desk) -> None:
    refused(desk.post("jobs", data=b'{"name": "\xff\xfe"}', content_type="application/json"), 400)
    refused(desk.post("jobs", data=b'{"name": "\\ud800"}', content_type="application/json"), 400)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", None])
def test_another_kind_of_body_is_refused(desk: Desk, kind: str | None) -> None:
    assert "application/json" in refused(desk.post("jobs", data=b'{"urls": []}', content_type=kind), 415)["detail"]


def test_a_packed_body_is_refused_and_not_guessed_at(desk: Desk) -> None:
    body = gzip.compress(orjson.dumps(SPEC))
    headers = {"Content-Encoding": "gzip"}
    refused(desk.post("jobs", data=body, content_type="application/json", headers=headers), 415)
    job = desk.submit(open=True)
    refused(desk.post(f"jobs/{job}/urls", data=body, content_type="text/plain", headers=headers), 415)


def test_a_json_body_may_name_its_charset_or_be_a_kind_of_json(desk: Desk) -> None:
    for kind in ("application/json; charset=utf-8", "application/vnd.shoal+json"):
        told(desk.post("jobs", data=b'{"urls": ["http://a.example/"]}', content_type=kind), 202)


def test_too_many_urls_are_refused_with_the_way_out(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, api_urls=10) as desk:
        desk.submit(*(f"{URL}{n}" for n in range(10)))
        found = flaws(desk.post("jobs", {**SPEC, "urls": [f"{URL}{n}" for n in range(11)]}))
        assert "at most 10 URLs" in found["urls"]
        assert "/urls" in found["urls"]
        assert len(_jobs(desk)) == 1


def test_too_large_a_body_is_refused(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, api_body_megabytes=1) as desk:
        large = b'{"urls": ["http://a.example/' + b"x" * 1_000_000 + b'"]}'
        refused(desk.post("jobs", data=large, content_type="application/json"), 413)
        fits = {**SPEC, "urls": [f"{URL}{'x' * 100}{n}" for n in range(6_000)]}
        told(desk.post("jobs", fits), 202)


def test_what_a_database_cannot_keep_is_refused_like_any_bad_value(each: Desk) -> None:
    assert list(flaws(each.post("jobs", {**SPEC, "name": "a\0b"}))) == ["name"]
    job = each.submit(URL, name="größer 📚 '; DROP TABLE jobs; --", fields={"title": "h1"}, headers={"X": "ü"})
    assert each.job(job)["name"] == "größer 📚 '; DROP TABLE jobs; --"
    assert list(flaws(each.patch(f"jobs/{job}", {"name": "a\0b"}))) == ["name"]
    for query in ("host=a%00b", "reason=a%00b"):
        assert len(flaws(each.get(f"jobs/{job}/dead?{query}"))) == 1


def test_numbers_beyond_what_json_readers_agree_on_are_refused(desk: Desk) -> None:
    found = flaws(desk.post("jobs", {**SPEC, "pages": 2**53, "depth": 2**63}))
    assert set(found) == {"pages", "depth"}
    huge = b'{"urls": ["http://a.example/"], "pages": 1' + b"0" * 40 + b"}"
    assert list(flaws(desk.post("jobs", data=huge, content_type="application/json"))) == ["pages"]


# --- a full house ----------------------------------------------------------------------------------------------------


def test_above_the_frontiers_cap_a_submission_is_put_off_whole(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, frontier_urls=10) as desk:
        first = desk.submit(*(f"{URL}{n}" for n in range(8)))
        answer = desk.post("jobs", {**SPEC, "urls": [f"{URL}{n}" for n in range(3)]})
        assert "8 URLs of at most 10" in refused(answer, 429)["detail"]
        assert int(answer.headers["Retry-After"]) > 0
        assert _jobs(desk) == [first]
        assert desk.platform.frontier.known_jobs() == [first]
        second = desk.submit(URL, URL + "x")
        refused(desk.post("scrape", {"url": URL}), 429)
        assert len(desk.work()) == 10
        told(desk.post("scrape", {"url": URL}), 202)
        assert {desk.state(job) for job in (first, second)} == {JobState.FINISHED}


def test_a_put_off_submission_uses_up_no_idempotency_key(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, frontier_urls=1) as desk:
        desk.submit(URL)
        refused(_with_key(desk, "order-1"), 429)
        desk.work()
        assert told(_with_key(desk, "order-1"), 202)["repeated"] is False


def test_above_the_memory_cap_submissions_are_put_off(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, frontier_megabytes=1) as desk:  # Redis alone takes more
        answer = desk.post("jobs", SPEC)
        assert "MB of at most 1 MB" in refused(answer, 429)["detail"]
        assert int(answer.headers["Retry-After"]) > 0
        assert _jobs(desk) == []


def test_redis_own_limit_counts_as_well(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    load = desk.platform.watch.load()
    near = replace(load, memory_limit=load.memory)
    monkeypatch.setattr(desk.platform.watch, "load", lambda: near)
    refused(desk.post("jobs", SPEC), 429)
    roomy = replace(load, memory_limit=load.memory * 2)
    monkeypatch.setattr(desk.platform.watch, "load", lambda: roomy)
    told(desk.post("jobs", SPEC), 202)


def test_a_job_that_asks_for_larger_bodies_than_the_operator_allows_is_refused(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, max_body=2_000_000) as desk:
        assert "SHOAL_MAX_BODY" in flaws(desk.post("jobs", {**SPEC, "max_body": 2_000_001}))["max_body"]
        assert _jobs(desk) == []
        job = told(desk.post("jobs", SPEC), 202)["id"]
        assert desk.platform.control.job(job).spec.max_body == 2_000_000
        told(desk.post("jobs", {**SPEC, "max_body": 2_000_000}), 202)
