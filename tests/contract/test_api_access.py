"""Who may do what: keys in every form, tenants who do not see each other, limits, an open API that stays at home."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import structlog

from shoal.api import auth
from shoal.api.app import STOP_STREAMS
from shoal.core.access import Permission
from shoal.errors import RedisUnavailable
from shoal.store.keys import KeyStore, prefix_of
from tests.contract.api import Client, Desk, a_desk, dead, flaws, page, refused, told
from tests.waiting import wait_until

URL = "http://shop.example/"
SPEC = {"urls": [URL], "follow": False, "rate": "unlimited"}


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are looked up each time."""
    monkeypatch.setattr(auth, "REMEMBER_S", 0.0)


def _basic(password: str, user: str = "any") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_key_can_be_sent_in_three_ways(desk: Desk) -> None:
    key, _ = desk.make_key(Permission.READ)
    for headers in (
        {"Authorization": f"Bearer {key}"},
        {"Authorization": f"bearer   {key} "},
        {"X-API-Key": key},
        {"x-api-key": f" {key} "},
        {"Authorization": _basic(key)},
        {"Authorization": _basic(key, "")},
    ):
        told(desk.get("jobs", headers=headers))


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Basic",
        "Basic %%%",
        "Basic " + base64.b64encode(b"\xff\xfe").decode(),
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Digest username=x",
        "nonsense",
        "Bearer " + "x" * 5_000,
        "Bearer é",
    ],
)
def test_what_is_no_key_opens_nothing(desk: Desk, header: str) -> None:
    desk.make_key()
    answer = desk.get("jobs", headers={"Authorization": header})
    refused(answer, 401)
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_wrong_key_opens_nothing_even_where_none_is_needed(desk: Desk) -> None:
    refused(desk.get("jobs", headers={"Authorization": "Bearer shoal_abcdefghi0_" + "x" * 43}), 401)
    told(desk.get("jobs"))


def test_a_browser_is_asked_for_a_password(desk: Desk) -> None:
    key, _ = desk.make_key()
    answer = desk.get("/openapi/", headers={"Accept": "text/html,*/*"})
    assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
    refused(answer, 401)
    with desk.get("/openapi/", headers={"Accept": "text/html", "Authorization": _basic(key)}) as shown:
        assert shown.status_code == 200


def test_a_revoked_key_opens_nothing_and_the_api_does_not_open_by_that(each: Desk, forgetful: None) -> None:
    key, client = each.make_key()
    told(client.get("jobs"))
    prefix = prefix_of(key)
    assert prefix
    KeyStore(each.platform.engine).revoke(prefix, 2)
    refused(client.get("jobs"), 401)
    refused(each.get("jobs"), 401)


def test_a_revoked_key_is_remembered_for_seconds_only(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert auth.REMEMBER_S <= 5
    monkeypatch.setattr(auth, "REMEMBER_S", 0.3)
    key, client = desk.make_key()
    told(client.get("jobs"))
    KeyStore(desk.platform.engine).revoke(str(prefix_of(key)), 2)
    wait_until(lambda: client.get("jobs").status_code == 401)


def test_the_first_key_closes_the_api_for_all_others(desk: Desk, forgetful: None) -> None:
    told(desk.get("jobs"))
    _, client = desk.make_key()
    refused(desk.get("jobs"), 401)
    told(client.get("jobs"))


def test_a_key_that_was_looked_up_is_not_looked_up_each_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    principal = KeyStore.principal

    def counted(store: KeyStore, key: str) -> Any:
        asked.append(key)
        return principal(store, key)

    monkeypatch.setattr(KeyStore, "principal", counted)
    _, client = desk.make_key()
    for _ in range(5):
        told(client.get("jobs"))
    for n in range(3):
        refused(desk.get("jobs", headers={"X-API-Key": f"wrong-{n}"}), 401)
    assert len(asked) == 4


def test_what_is_remembered_of_keys_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_REMEMBERED", 5)
    _, client = desk.make_key()
    for n in range(20):
        desk.get("jobs", headers={"X-API-Key": f"wrong-{n}"})
    told(client.get("jobs"))


# --- tenants ---------------------------------------------------------------------------------------------------------


def _doors(client: Client, job: str, page_id: int) -> list[Any]:
    """Everything that can be asked about a job."""
    reads = ("", "/pages", "/items", "/errors", "/dead", "/export", "/events")
    actions = ("pause", "resume", "cancel", "close")
    return [
        *(client.get(f"jobs/{job}{path}") for path in reads),
        *(client.post(f"jobs/{job}/{action}") for action in actions),
        client.get(f"pages/{page_id}/body"),
        client.patch(f"jobs/{job}", {"name": "mine"}),
        client.send(job, URL + "more"),
        client.post(f"jobs/{job}/dead/replay", {}),
        client.delete(f"jobs/{job}"),
    ]


def test_another_tenants_job_does_not_exist(each: Desk) -> None:
    _, red = each.make_key(tenant="red")
    _, blue = each.make_key(tenant="blue")
    job = red.submit(URL, URL + "2", open=True)
    each.work(lambda lease: dead(lease) if lease.request.url.target == "/2" else page(lease))
    page_id = next(iter(red.rows(f"jobs/{job}/pages")))["id"]
    for answer in _doors(blue, job, page_id):
        problem = refused(answer, 404)
        assert "red" not in str(problem)
    missing = [refused(answer, 404)["detail"] for answer in _doors(blue, "nothing", 999)]
    hidden = [refused(answer, 404)["detail"] for answer in _doors(blue, job, page_id)]
    assert [text.replace("nothing", job).replace("999", str(page_id)) for text in missing] == hidden
    shown = red.job(job)
    assert (shown["state"], shown["name"], shown["errors"]) == ("running", "", {"http_404": 1})


def test_lists_and_sums_show_only_ones_own(each: Desk) -> None:
    _, red = each.make_key(tenant="red")
    _, blue = each.make_key(tenant="blue")
    mine = [red.submit(URL) for _ in range(3)]
    blue.submit(URL)
    assert sorted(job["id"] for job in red.rows("jobs")) == sorted(mine)
    assert len(list(blue.rows("jobs"))) == 1
    assert told(red.get("stats"))["jobs"] == {"running": 3}
    cursor = told(red.get("jobs?limit=1"))["cursor"]
    assert {job["id"] for job in told(blue.get(f"jobs?cursor={cursor}"))["data"]}.isdisjoint(mine)


FLEET = ("queues", "stats", "overview", "stats/history")
OPERATORS = ("hosts", "hosts/shop.example", "hosts/shop.example/audit", "proxies", "workers", "/metrics")


def test_a_tenants_key_is_told_nothing_of_the_others_work(desk: Desk) -> None:
    _, blue = desk.make_key(tenant="blue")
    blue.submit(URL)
    _, red = desk.make_key(Permission.SUBMIT, Permission.READ, tenant="red")
    for path in FLEET:
        assert "its own tenant only" in refused(red.get(path), 403)["detail"], path
    for path in OPERATORS:
        assert "'admin'" in refused(red.get(path), 403)["detail"], path
    assert told(red.get("session"))["fleet"] is False


def test_who_runs_the_fleet_sees_it(desk: Desk) -> None:
    desk.make_key(tenant="blue")[1].submit(URL)
    own = desk.make_key(Permission.READ)[1]
    chief = desk.make_key(Permission.ADMIN, tenant="red")[1]
    for path in FLEET:
        assert told(own.get(path)) and told(chief.get(path)), path
    for path in OPERATORS:
        refused(own.get(path), 403)
        assert chief.get(path).status_code in (200, 404), path  # the host was not asked for yet
    assert [told(each.get("session"))["fleet"] for each in (own, chief)] == [True, True]
    refused(desk.make_key(Permission.SUBMIT)[1].get("stats"), 403)


def test_sums_of_the_fleet_name_nobodys_hosts_and_jobs(desk: Desk) -> None:
    job = desk.make_key(tenant="blue")[1].submit(URL)
    desk.work(page)
    desk.platform.housekeeper.sampler.sample()
    own = desk.make_key(Permission.READ)[1]
    for path in FLEET:
        text = own.get(path).get_data(as_text=True)
        assert job not in text and "shop.example" not in text and "blue" not in text, path


def test_keys_of_one_tenant_share_their_jobs(each: Desk) -> None:
    _, submitter = each.make_key(Permission.SUBMIT, tenant="red")
    _, reader = each.make_key(Permission.READ, tenant="red")
    job = submitter.submit(URL)
    assert reader.job(job)["id"] == job
    refused(submitter.get(f"jobs/{job}"), 403)
    refused(reader.post(f"jobs/{job}/cancel"), 403)


def test_what_was_submitted_without_keys_belongs_to_the_default_tenant(desk: Desk, forgetful: None) -> None:
    job = desk.submit(URL)
    _, client = desk.make_key()
    _, other = desk.make_key(tenant="other")
    assert client.job(job)["id"] == job
    refused(other.get(f"jobs/{job}"), 404)


# --- limits of a key -------------------------------------------------------------------------------------------------


def test_one_request_too_many_is_put_off_and_other_keys_do_not_notice(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "BURST_S", 300.0)  # three at once, and then one in a hundred seconds
    _, slow = desk.make_key(rate=0.01)
    _, other = desk.make_key(rate=0.01)
    _, free = desk.make_key()
    answers = [slow.get("queues") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert 1 <= int(answers[3].headers["Retry-After"]) <= 100
    assert "0.01 times a second" in refused(answers[3], 429)["detail"]
    assert [other.get("queues").status_code for _ in range(3)] == [200, 200, 200]
    assert [free.get("queues").status_code for _ in range(20)] == [200] * 20


def test_who_waits_as_told_is_served(desk: Desk) -> None:
    _, slow = desk.make_key(rate=2)
    wait_until(lambda: slow.get("queues").status_code == 429)
    answer = slow.get("queues")
    assert answer.status_code == 200 or answer.headers["Retry-After"] == "1"
    wait_until(lambda: slow.get("queues").status_code == 200)


def test_a_put_off_submission_has_not_happened(desk: Desk) -> None:
    _, slow = desk.make_key(rate=0.01)
    _, free = desk.make_key()
    told(slow.post("jobs", SPEC), 202)
    answer = slow.post("jobs", SPEC)
    refused(answer, 429)
    assert 90 <= int(answer.headers["Retry-After"]) <= 100
    assert len(list(free.rows("jobs"))) == 1


def test_a_limit_holds_over_all_processes_of_the_api(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path) as one:
        key, client = one.make_key(rate=0.01)
        told(client.get("queues"))
        with a_desk(valkey_url, tmp_path, prefix=one.platform.settings.prefix) as two:
            refused(two.client(key).get("queues"), 429)


def test_without_redis_a_limit_is_no_reason_to_refuse(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> Any:
        raise RedisUnavailable("gone")

    _, slow = desk.make_key(rate=0.01)
    monkeypatch.setattr(desk.platform.frontier, "throttle", away)
    for _ in range(3):
        told(slow.get("jobs"))


# --- without keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "127.9.9.9", "[::1]:8000"])
def test_an_open_api_answers_to_its_own_machine(desk: Desk, host: str) -> None:
    told(desk.get("jobs", headers={"Host": host}))
    told(desk.get("jobs", headers={"Host": host, "Origin": f"http://{host}"}))


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.0.7", "0.0.0.0", "[", "a b", "@"],
)
def test_an_open_api_does_not_answer_to_other_names(desk: Desk, host: str) -> None:
    """A name of somebody else's that points here: DNS rebinding."""
    answer = desk.post("jobs", SPEC, headers={"Host": host})
    assert answer.status_code in (400, 403)
    refused(answer, answer.status_code)
    assert list(desk.rows("jobs")) == []


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:9999", "http://[", "", "nonsense"]
)
def test_an_open_api_takes_nothing_from_other_sites_pages(desk: Desk, origin: str) -> None:
    for path, kind in (("jobs", "application/json"), ("jobs", "text/plain"), ("scrape", "application/json")):
        answer = desk.post(path, data=b'{"urls": ["http://a.example/"]}', content_type=kind, headers={"Origin": origin})
        refused(answer, 403)
    assert list(desk.rows("jobs")) == []


def test_an_open_api_serves_nobody_from_elsewhere(desk: Desk) -> None:
    for address in ("192.168.0.7", "10.0.0.1", "2001:db8::1", "nonsense"):
        refused(desk.get("jobs", environ_overrides={"REMOTE_ADDR": address}), 401)
    for address in ("127.0.0.1", "::1", "127.5.5.5", ""):  # the last is a Unix socket
        told(desk.get("jobs", environ_overrides={"REMOTE_ADDR": address}))


def test_with_a_key_any_name_and_origin_will_do(desk: Desk) -> None:
    _, client = desk.make_key()
    told(client.get("jobs", headers={"Host": "shoal.example", "Origin": "https://dashboard.example"}))
    told(client.get("jobs", environ_overrides={"REMOTE_ADDR": "192.168.0.7"}))


def test_no_answer_invites_other_sites(desk: Desk) -> None:
    for answer in (desk.get("jobs"), desk.ask("OPTIONS", "jobs", headers={"Access-Control-Request-Method": "POST"})):
        assert not [name for name, _ in answer.headers if name.lower().startswith("access-control-")]


# --- secrets ---------------------------------------------------------------------------------------------------------

SECRETS = {"Authorization": "Bearer hunter2", "cookie": "session=hunter2", "X-Anything": "hunter2"}


def test_secret_headers_of_a_job_are_never_shown(each: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    job = each.submit(URL, headers={**SECRETS, "Accept-Language": "de"})
    answers = [
        each.get(f"jobs/{job}"),
        each.get("jobs"),
        each.patch(f"jobs/{job}", {"name": "renamed"}),
        each.post(f"jobs/{job}/pause"),
        each.get(f"jobs/{job}/events"),
        each.post("jobs", {**SPEC, "headers": {"Authorization": "hunter2\n"}, "rate": "x"}),
        each.post("jobs", {**SPEC, "headers": {"Authorization": ["hunter2"]}}),
        each.post("jobs", {**SPEC, "headers": "hunter2"}),
        each.post("scrape", {"url": URL, "headers": SECRETS}),
    ]
    each.app.extensions[STOP_STREAMS]()
    for answer in answers:
        with answer:
            assert "hunter2" not in answer.get_data(as_text=True)
    shown = each.job(job)["spec"]["headers"]
    assert shown == {**dict.fromkeys(SECRETS, "***"), "Accept-Language": "de"}
    again = flaws(each.post("jobs", {**SPEC, "headers": shown}))
    assert again == {"headers": "*** stands for the value of 'Authorization', which is not shown; write it"}
    assert "hunter2" not in "".join(capfd.readouterr())
    row = each.platform.jobs.get(job)
    assert row is not None
    assert row.spec.headers == {**SECRETS, "Accept-Language": "de"}  # workers need them


def test_keys_are_never_shown_or_logged(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    with structlog.testing.capture_logs() as logs:
        key, client = desk.make_key(Permission.READ, rate=0.01)
        wrong = key[:-4] + "AAAA"
        answers = [
            client.get("jobs"),
            client.get("jobs"),
            client.post("jobs", SPEC),
            client.get("/nothing"),
            desk.get("jobs", headers={"X-API-Key": wrong}),
            desk.get("jobs", headers={"Authorization": _basic(wrong)}),
        ]
    assert [answer.status_code for answer in answers] == [200, 429, 403, 404, 401, 401]
    said = str(logs) + "".join(capfd.readouterr())
    for answer in answers:
        said += answer.get_data(as_text=True) + str(answer.headers)
    secret = key.split("_", 2)[2]
    assert secret not in said
    assert secret[:-4] not in said
    assert prefix_of(key) in [entry.get("key") for entry in logs]


def test_passwords_in_urls_are_neither_taken_nor_told(desk: Desk, capfd: pytest.CaptureFixture[str]) -> None:
    url = "http://user:hunter2@shop.example/"
    job = desk.submit(open=True)
    answers = [
        desk.post("jobs", {**SPEC, "urls": [url]}),
        desk.post("scrape", {"url": url}),
        desk.send(job, f"{url}\nhttp://user:a/hunter2@shop.example/"),
        desk.post("jobs", {**SPEC, "hosts": ["user:hunter2@shop.example"]}),
    ]
    for answer in (*answers[:2], answers[3]):
        refused(answer, 422)
    assert told(answers[2])["invalid"] == 2
    said = "".join(answer.get_data(as_text=True) for answer in answers) + "".join(capfd.readouterr())
    assert "hunter2" not in said


@pytest.mark.parametrize("path", ["/%0d%0aevil", "/\u2028evil", "/%1b[31mevil"])
def test_a_log_line_stays_one_line(desk: Desk, path: str) -> None:
    with structlog.testing.capture_logs() as logs:
        refused(desk.get(path), 404)
    (entry,) = [entry for entry in logs if entry["event"] == "request"]
    line = structlog.processors.JSONRenderer()(None, "info", dict(entry))
    assert "\n" not in str(line)
    assert "\r" not in str(line)
    assert "\x1b" not in str(line)


# --- what browsers and parsers get -----------------------------------------------------------------------------------


def test_no_answer_can_be_framed_sniffed_cached_or_run(desk: Desk) -> None:
    job = desk.submit(URL)
    for path in ("/healthz", "/nothing", "jobs", f"jobs/{job}", f"jobs/{job}/export", "jobs?limit=x", "/metrics"):
        headers = desk.get(path).headers
        assert headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'", path
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"


def test_the_documents_pages_run_their_own_scripts_only(desk: Desk) -> None:
    policy = desk.get("/openapi/swagger").headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in policy


@pytest.mark.parametrize("depth", [200, 990, 1_000, 1_020, 1_100, 100_000])
@pytest.mark.parametrize("shape", ["[{}]", '{{"urls": {}}}', '{{"headers": {}}}', '{{"x": {}}}', '{{"url": {}}}'])
def test_json_of_any_depth_is_the_clients_mistake(desk: Desk, shape: str, depth: int) -> None:
    body = shape.format("[" * depth + "]" * depth)
    deep = shape.format('{"a":' * depth + "1" + "}" * depth)
    for path in ("jobs", "scrape"):
        for data in (body, deep):
            assert desk.post(path, data=data, content_type="application/json").status_code in (400, 422)
    job = desk.submit(open=True)
    for data in (body, deep):
        answer = desk.ask("PATCH", f"jobs/{job}", data=data, content_type="application/json")
        assert answer.status_code in (400, 422)
        assert desk.send(job, data, "application/x-ndjson").status_code in (200, 400, 422)


def test_a_name_of_any_length_is_the_clients_mistake(desk: Desk) -> None:
    name = "x" * 1_000_000
    assert desk.post("jobs", {**SPEC, name: 1}).status_code == 422
    assert desk.post("jobs", {**SPEC, "headers": {name: [1]}}).status_code == 422
