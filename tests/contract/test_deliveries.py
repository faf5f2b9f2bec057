"""Deliveries: parts and a pointer in a folder and in an object store, rows in a table of PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import sqlalchemy as sa

from shoal.core.output import TablePlace
from shoal.errors import PlaceUnavailable
from shoal.output import delivery as delivering
from shoal.output.delivery import Deliverer
from shoal.store.deliveries import Delivery, DeliveryState
from shoal.store.items import ItemRow
from tests.contract.api import Desk, a_desk, flaws, page, told
from tests.contract.places import FIELDS, URL, Target, a_job, rows, take, the_delivery
from tests.postgres import Postgres
from tests.waiting import wait_until


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path) -> Generator[Desk]:
    """One whose operator allows every place of these tests."""
    allowed = f"file://{tmp_path}/,{','.join(f's3://bucket-{number}/' for number in range(1, 200))}"
    with a_desk(valkey_url, tmp_path, outputs=allowed) as desk:
        yield desk


def test_a_set_is_published_when_the_job_has_ended(desk: Desk, target: Target, tmp_path: Path) -> None:
    job = a_job(desk, {"to": target.url, "format": "parquet"})
    assert desk.platform.deliverer.work() == 0
    assert target.names() == []
    desk.work(take)
    assert desk.platform.deliverer.work() == 1
    assert the_delivery(desk, job).state is DeliveryState.DELIVERED
    assert sorted(row["price"] for row in rows(target, tmp_path)) == [0.0, 0.5, 1.0, 1.5, 2.0]
    latest = target.latest()
    assert (latest["run"], latest["rows"], latest["format"]) == (job, 5, "parquet")
    assert {"name": "price", "type": "number"} in latest["columns"]
    assert json.loads(target.read(f"{job}/manifest.json")) == latest
    assert desk.platform.deliverer.work() == 0
    (shown,) = told(desk.get(f"jobs/{job}/deliveries"))["data"]
    assert (shown["state"], shown["rows"], shown["message"]) == ("delivered", 5, "")


def test_parts_come_while_the_job_runs_and_the_pointer_at_its_end(
    desk: Desk, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "LOOK_AGAIN", timedelta(0))
    job = a_job(desk, {"to": target.url, "format": "parquet", "every": 100}, 250)
    desk.work(take, at_most=120)
    desk.platform.deliverer.work()
    assert [part.rows for part in the_delivery(desk, job).parts] == [120]
    assert "latest.json" not in target.names()
    first = the_delivery(desk, job).parts[0].name
    with desk.platform.engine.begin() as connection:  # a page that is fetched again, with a price that is no number
        connection.execute(
            sa.text("UPDATE items SET data = :data WHERE url = :url"),
            {"data": '{"title": "Book 3", "price": "dear"}', "url": f"{URL}3"},
        )
    desk.work(take)
    desk.platform.deliverer.work()
    found = the_delivery(desk, job)
    assert [part.rows for part in found.parts] == [120, 130]
    assert found.parts[0].name != first
    read = rows(target, tmp_path)
    assert len(read) == 250
    assert {row["title"]: row["price"] for row in read}["Book 3"] == "dear"


def test_what_a_job_finds_after_its_end_is_published_too(desk: Desk, target: Target, tmp_path: Path) -> None:
    job = a_job(desk, {"to": target.url, "format": "parquet"})
    desk.work(take)
    desk.platform.deliverer.work()
    row = desk.platform.jobs.get(job)
    assert row is not None
    assert row.status is not None
    assert row.status.ended_ms is not None
    desk.platform.pages.write([], [ItemRow(job, 77, 0, f"{URL}77", {"title": "Late", "price": 1})], [])
    desk.platform.jobs.reopen(row.status, row.status.ended_ms)
    desk.platform.deliverer.work()
    assert "Late" in {row["title"] for row in rows(target, tmp_path)}
    assert target.latest()["order"][2] == the_delivery(desk, job).round == 1


def test_the_pointer_never_goes_back(desk: Desk, target: Target) -> None:
    older = a_job(desk, target.url)
    newer = a_job(desk, target.url)
    desk.work(take)
    desk.platform.deliverer.deliver(the_delivery(desk, newer).id)
    desk.platform.deliverer.deliver(the_delivery(desk, older).id)
    assert target.latest()["run"] == newer
    found = the_delivery(desk, older)
    assert (found.state, "newer run" in found.error) == (DeliveryState.SUPERSEDED, True)


def test_parts_come_by_the_clock_however_often_it_is_looked_in_between(
    desk: Desk, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivering, "LOOK_AGAIN", timedelta())
    job = a_job(desk, {"to": target.url, "every": "10s"}, 6)
    desk.work(take, at_most=3)
    now, allowed = desk.platform.frontier.audit.now_ms(), desk.platform.settings.allowed_outputs
    for seconds in (1, 4, 7, 9, 11):
        clock = Deliverer(
            desk.platform.jobs,
            desk.platform.pages,
            desk.platform.deliveries,
            lambda at=now + seconds * 1_000: at,
            allowed,
        )
        clock.work()
        assert len(the_delivery(desk, job).parts) == (seconds > 10)


def test_a_fault_of_ours_is_written_down_and_other_deliveries_go_on(
    desk: Desk, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = a_job(desk, f"{target.url}a/"), a_job(desk, f"{target.url}b/")
    desk.work(take)
    carry_out = cast(Any, Deliverer)._carry_out

    def breaks(self: Deliverer, delivery: Delivery, *rest: Any) -> None:
        if delivery.job == first:
            raise ZeroDivisionError("made for a test")
        carry_out(self, delivery, *rest)

    monkeypatch.setattr(Deliverer, "_carry_out", breaks)
    desk.platform.deliverer.work()
    assert the_delivery(desk, first).state is DeliveryState.RETRYING
    assert the_delivery(desk, second).state is DeliveryState.DELIVERED


def test_a_set_that_breaks_its_contract_is_withheld_and_readers_keep_the_last_one(desk: Desk, target: Target) -> None:
    contract = {"schema": {"required": ["price"]}, "items": 3}
    kept = a_job(desk, target.url, contract=contract)
    desk.work(take)
    desk.platform.deliverer.work()
    few = a_job(desk, target.url, 2, contract=contract)
    desk.work(take)
    desk.platform.deliverer.work()
    found = the_delivery(desk, few)
    assert (found.state, found.error) == (DeliveryState.WITHHELD, "2 items; the contract wants at least 3")
    assert target.latest()["run"] == kept


def test_a_set_that_may_not_be_published_is_withheld(desk: Desk, target: Target) -> None:
    job = a_job(desk, target.url)
    desk.work(take, at_most=2)
    desk.platform.control.cancel(job)
    desk.platform.deliverer.work()
    assert the_delivery(desk, job).state is DeliveryState.WITHHELD
    assert "cancelled" in the_delivery(desk, job).error
    assert "latest.json" not in target.names()


def test_one_owner_works_on_a_delivery(desk: Desk, target: Target) -> None:
    job = a_job(desk, target.url)
    desk.work(take)
    number, now = the_delivery(desk, job).id, desk.platform.frontier.audit.now_ms()
    assert desk.platform.deliveries.claim(number, "another", now, timedelta(minutes=1))
    assert not desk.platform.deliverer.deliver(number)
    assert desk.platform.deliverer.work() == 0
    assert target.names() == []
    assert desk.platform.deliveries.claim(number, "late", now + 61_000, timedelta(0))
    assert not desk.platform.deliveries.save(the_delivery(desk, job), "another", now)


def test_what_fails_is_told_and_tried_again(desk: Desk, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    job = a_job(desk, f"file://{blocked}/x/")
    desk.work(take)
    desk.platform.deliverer.work()
    found = the_delivery(desk, job)
    assert (found.state, found.tries) == (DeliveryState.RETRYING, 1)
    assert "cannot write" in found.error
    assert found.due_ms > desk.platform.frontier.audit.now_ms()
    blocked.unlink()
    assert desk.platform.deliveries.add(job, "v1", found.output, 0) == found.id
    desk.platform.deliverer.work()
    assert the_delivery(desk, job).state is DeliveryState.DELIVERED


def test_the_housekeeper_delivers_without_waiting(desk: Desk, target: Target) -> None:
    job = a_job(desk, target.url)
    desk.work(take)
    desk.platform.housekeeper.tick()
    wait_until(lambda: the_delivery(desk, job).state is DeliveryState.DELIVERED, within=timedelta(seconds=30))
    assert target.latest()["rows"] == 5


# --- who may -------------------------------------------------------------------------------------------------------


def test_over_the_api_only_what_the_operator_allows(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, outputs=f"file://{tmp_path}/ok/") as desk:
        for output in ("s3://any/x/", f"file://{tmp_path}/", "file:///etc/", "postgresql://me:hunter2@10.0.0.1/a/b"):
            answer = desk.post("jobs", {"urls": [URL], "output": output})
            assert "SHOAL_OUTPUTS" in flaws(answer)["output.to"]
            assert "hunter2" not in answer.get_data(as_text=True)
        assert desk.submit(URL, output=f"file://{tmp_path}/ok/here/")


def test_a_link_does_not_lead_out_of_what_is_allowed(valkey_url: str, tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "ok"
    outside.mkdir()
    root.mkdir()
    (root / "link").symlink_to(outside)
    with a_desk(valkey_url, tmp_path / "home", outputs=f"file://{root}/") as desk:
        job = a_job(desk, f"file://{root}/link/x/")
        desk.work(take)
        desk.platform.deliverer.work()
        assert "leads out of" in the_delivery(desk, job).error
    assert list(outside.iterdir()) == []


def test_credentials_are_not_shown(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, outputs="postgresql://127.0.0.1:1/a") as desk:
        job = a_job(desk, "postgresql://me:hunter2@127.0.0.1:1/a/b")
        desk.work(take)
        desk.platform.deliverer.work()
        shown = desk.get(f"jobs/{job}").get_data(as_text=True) + desk.get(f"jobs/{job}/deliveries").get_data(
            as_text=True
        )
        assert "hunter2" not in shown
        assert "127.0.0.1:1/a/b" in shown
        assert the_delivery(desk, job).state is DeliveryState.RETRYING


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.fixture
def database(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> str:
    """Its server is on a socket, which the environment names."""
    url = sa.make_url(postgres.new_database())
    host = url.host or url.query.get("host")
    assert isinstance(host, str)
    monkeypatch.setenv("PGHOST", host)
    if url.port:
        monkeypatch.setenv("PGPORT", str(url.port))
    return f"postgresql://{url.username}@/{url.database}"


OPTIONS = (
    *("sslkey=/etc/key", "sslcert=/etc/cert", "sslrootcert=/etc/passwd", "sslcrl=/etc/crl", "passfile=/etc/shadow"),
    *("service=prod", "servicefile=/etc/services", "options=-c%20search_path=x", "hostaddr=10.0.0.1", "host=/tmp"),
    *("krbsrvname=x", "gsslib=x", "sslpassword=x", "requirepeer=x", "sslkeylogfile=/tmp/keys"),
)


class Broken:
    """A table that is not there."""

    visible_at_once = True

    def prepare(self, *, last: bool) -> None:
        raise PlaceUnavailable("not there")


def table_desk(valkey_url: str, tmp_path: Path) -> AbstractContextManager[Desk]:
    return a_desk(valkey_url, tmp_path)


def submit_here(desk: Desk, output: Any, count: int = 5) -> str:
    """As the command line does: any place may be named."""
    from shoal.core.spec import read_spec

    urls = [f"{URL}{number}" for number in range(count)]
    values = {"urls": urls, "follow": False, "rate": "unlimited", "fields": FIELDS, "output": output}
    return desk.platform.intake.submit(read_spec(values)).job


def selected(database: str, text: str) -> list[Any]:
    with psycopg.connect(database) as connection:
        return cast(Any, connection).execute(text).fetchall()


def test_rows_are_put_into_a_table_that_is_made_for_them(valkey_url: str, tmp_path: Path, database: str) -> None:
    with table_desk(valkey_url, tmp_path) as desk:
        for _ in range(2):  # the second run updates the rows of the first
            job = submit_here(desk, f"{database}/public.books")
            desk.work(take)
            desk.platform.deliverer.work()
            assert the_delivery(desk, job).state is DeliveryState.DELIVERED, the_delivery(desk, job).error
    found = selected(database, "SELECT url, number, title, price FROM books ORDER BY price")
    assert found == [(f"{URL}{n}", 0, f"Book {n}", n / 2) for n in range(5)]
    types = selected(database, "SELECT column_name, data_type FROM information_schema.columns WHERE table_name='books'")
    assert {"price": "double precision", "number": "bigint", "title": "text"}.items() <= dict(types).items()


def test_a_table_that_cannot_take_the_rows_says_why(valkey_url: str, tmp_path: Path, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE books (url text PRIMARY KEY, number bigint, price text)")
    with table_desk(valkey_url, tmp_path) as desk:
        job = submit_here(desk, {"to": f"{database}/books", "key": ["url"]})
        desk.work(take)
        desk.platform.deliverer.work()
        error = the_delivery(desk, job).error
        assert "no column title text" in error
        assert "price is text, and the rows have number" in error
        with psycopg.connect(database) as connection:
            connection.execute("ALTER TABLE books ADD title text, ALTER price TYPE float8 USING price::float8")
        desk.platform.deliveries.add(job, "v1", the_delivery(desk, job).output, 0)
        desk.platform.deliverer.work()
        assert the_delivery(desk, job).state is DeliveryState.DELIVERED
    assert selected(database, "SELECT count(*) FROM books") == [(5,)]


def test_a_table_without_an_index_on_the_key_says_so(valkey_url: str, tmp_path: Path, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE books (url text, number bigint, title text, price float8)")
    with table_desk(valkey_url, tmp_path) as desk:
        job = submit_here(desk, f"{database}/books")
        desk.work(take)
        desk.platform.deliverer.work()
        assert "no unique index on url, number" in the_delivery(desk, job).error


def test_names_that_differ_in_case_only_are_told_before_a_table_is_made(
    valkey_url: str, tmp_path: Path, database: str
) -> None:
    """A spider or JSON-LD names its parts as it likes: what cannot be told at submission is told before the table."""
    with table_desk(valkey_url, tmp_path) as desk:
        job = submit_here(desk, f"{database}/books")
        desk.work(lambda lease: page(lease, item={"title": "a", "Title": "b"}))
        desk.platform.deliverer.work()
        found = the_delivery(desk, job)
        assert found.state is DeliveryState.RETRYING
        assert "'title' and 'Title' differ in case only" in found.error
    assert selected(database, "SELECT to_regclass('books')") == [(None,)]


def test_names_that_no_table_can_have_as_they_are_fit_the_table_of_the_run_before(
    valkey_url: str, tmp_path: Path, database: str
) -> None:
    with table_desk(valkey_url, tmp_path) as desk:
        for _ in range(2):
            job = submit_here(desk, f"{database}/books")
            desk.work(lambda lease: page(lease, item={"a\x00b": "c", "": "d"}))
            desk.platform.deliverer.work()
            assert the_delivery(desk, job).state is DeliveryState.DELIVERED, the_delivery(desk, job).error
    assert selected(database, 'SELECT DISTINCT ab, "_" FROM books') == [("c", "d")]


def test_a_job_whose_names_a_table_cannot_tell_apart_is_refused(valkey_url: str, tmp_path: Path) -> None:
    with a_desk(valkey_url, tmp_path, outputs="postgresql://db.example/shop") as desk:
        to = "postgresql://db.example/shop/books"
        body: dict[str, Any] = {"urls": [URL], "fields": {"title": "h1", "Title": "h2"}, "output": to}
        assert "differ in case only" in flaws(desk.post("jobs", body))["output"]
        body["fields"] = {"URL": "a@href"}
        assert "'url' and 'URL'" in flaws(desk.post("jobs", body))["output"]
        body["fields"] = {"title": "h1"}
        assert desk.post("jobs", body).status_code == 202
        body["fields"], body["output"] = {"title": "h1", "Title": "h2"}, None
        assert desk.post("jobs", body).status_code == 202


def test_over_the_api_a_place_has_no_parameters(valkey_url: str, tmp_path: Path) -> None:
    """Neither how safely the fleet connects, nor which files, services or programs it uses for it."""
    with a_desk(valkey_url, tmp_path, outputs="postgresql://db.example/shop?sslmode=require") as desk:
        to = "postgresql://db.example/shop/books"
        answer = desk.post("jobs", {"urls": [URL], "output": f"{to}?sslmode=disable"})
        assert "sslmode is for the operator" in flaws(answer)["output.to"]
        for option in OPTIONS:
            answer = desk.post("jobs", {"urls": [URL], "output": f"{to}?{option}"})
            assert "the only parameter" in flaws(answer)["output.to"], option
            answer = desk.post("jobs", {"urls": [URL], "output": f"{to}?sslmode=require&{option}"})
            assert "the only parameter" in flaws(answer)["output.to"], option
        assert desk.post("jobs", {"urls": [URL], "output": to}).status_code == 202


def test_the_operator_says_how_safely_the_fleet_connects(
    valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = "postgresql://127.0.0.1:1/shop"
    with a_desk(valkey_url, tmp_path, outputs=f"{place}?sslmode=verify-full") as desk:
        (root,) = desk.platform.settings.allowed_outputs.places
        assert isinstance(root, TablePlace)
        assert root.ssl_mode == "verify-full"
        used: list[str] = []

        def broken(place: TablePlace, *_: object) -> Broken:
            used.append(place.ssl_mode)
            return Broken()

        monkeypatch.setattr(delivering, "Table", broken)
        job = a_job(desk, f"{place}/books")
        desk.work(take)
        desk.platform.deliverer.work()
        assert used == ["verify-full"]
        assert the_delivery(desk, job).state is DeliveryState.RETRYING


def test_a_deliverer_can_be_told_when_to_publish(desk: Desk, target: Target) -> None:
    platform = desk.platform
    job = a_job(desk, target.url)
    desk.work(take)
    strict = Deliverer(
        platform.jobs,
        platform.pages,
        platform.deliveries,
        platform.frontier.audit.now_ms,
        platform.settings.allowed_outputs,
        lambda row, version: f"contract of {row.id} {version} is broken",
    )
    strict.work()
    assert the_delivery(desk, job).error == f"contract of {job} v1 is broken"
    assert "latest.json" not in target.names()
