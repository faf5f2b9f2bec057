"""What jobs have brought: lists that miss nothing while they grow, exports, bodies no browser runs, another try."""

from __future__ import annotations

import csv
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import orjson
import pytest

from shoal.core.model import JobState, Lease, Outcome
from shoal.core.url import parse
from shoal.errors import ArchiveUnavailable
from shoal.output.source import FEWEST
from shoal.store.archive import ArchiveReader, Attachment
from shoal.store.items import ItemRow
from shoal.store.page_rows import DeadLetter, PageRow
from shoal.worker.result import Result
from tests.contract.api import (
    NOW_MS,
    Client,
    Desk,
    dead,
    flaws,
    page,
    refused,
    some_dead,
    told,
)

URL = "http://shop.example/"
OTHER = "http://other.example/"


def _urls(client: Client, path: str) -> list[str]:
    return sorted(row["url"] for row in client.rows(path))


def _iso(ms: int) -> str:
    return f"2023-11-14T22:13:{20 + ms // 1000:02d}.{ms % 1000:03d}Z"


# --- lists -----------------------------------------------------------------------------------------------------------


def _mixed(lease: Lease) -> Result:
    """Six seconds of a crawl that met with everything."""
    number = int(lease.request.url.target.strip("/"))
    match number % 4:
        case 0:
            return page(lease, fetched_ms=NOW_MS + number * 1000, item={"n": number})
        case 1:
            return page(lease, status=301, fetched_ms=NOW_MS + number * 1000, redirect=URL, archived=False)
        case 2:
            result = dead(lease, f"http_{400 + number}")
        case _:
            result = dead(lease, "robots_disallowed", Outcome.ROBOTS)
    assert result.letter is not None
    return replace(result, letter=replace(result.letter, at_ms=NOW_MS + number * 1000))


@pytest.fixture
def crawled(each: Desk) -> tuple[Desk, str]:
    """Numbers 0–7 on one host, 8–11 on another."""
    job = each.submit(*(f"{URL}{n}" for n in range(8)), *(f"{OTHER}{n}" for n in range(8, 12)), fields={"n": "h1"})
    each.work(_mixed)
    return each, job


def test_every_list_shows_its_rows(crawled: tuple[Desk, str]) -> None:
    desk, job = crawled
    assert _urls(desk, f"jobs/{job}/pages") == sorted([*(f"{URL}{n}" for n in (0, 1, 4, 5)), f"{OTHER}8", f"{OTHER}9"])
    assert _urls(desk, f"jobs/{job}/items") == sorted([f"{URL}0", f"{URL}4", f"{OTHER}8"])
    assert _urls(desk, f"jobs/{job}/errors") == sorted(
        [*(f"{URL}{n}" for n in (2, 3, 6, 7)), f"{OTHER}10", f"{OTHER}11"]
    )
    assert _urls(desk, f"jobs/{job}/dead") == sorted([f"{URL}2", f"{URL}6", f"{OTHER}10"])


def test_a_page_tells_what_is_known_of_it(crawled: tuple[Desk, str]) -> None:
    desk, job = crawled
    first = next(row for row in desk.rows(f"jobs/{job}/pages") if row["url"] == f"{URL}0")
    expected = {
        "job": job,
        "host": "shop.example",
        "status": 200,
        "depth": 0,
        "attempt": 0,
        "content_type": "text/html; charset=utf-8",
        "charset": "utf-8",
        "size": 14,
        "elapsed_ms": 1.5,
        "fetched_at": "2023-11-14T22:13:20.000+00:00",
        "redirect": None,
        "canonical": None,
        "body": f"/api/v1/pages/{first['id']}/body",
    }
    assert {name: first[name] for name in expected} == expected
    moved = next(row for row in desk.rows(f"jobs/{job}/pages") if row["url"] == f"{URL}1")
    assert (moved["status"], moved["redirect"], moved["body"]) == (301, URL, None)


@pytest.mark.parametrize(
    ("path", "numbers"),
    [
        ("pages?status=200", [0, 4, 8]),
        ("pages?status=301", [1, 5, 9]),
        ("pages?status=404", []),
        ("pages?host=other.example", [8, 9]),
        ("pages?host=other.example&status=301", [9]),
        (f"pages?since={_iso(4000)}", [4, 5, 8, 9]),
        (f"pages?until={_iso(4000)}", [0, 1]),
        (f"pages?since={_iso(1000)}&until={_iso(5000)}", [1, 4]),
        ("items?host=shop.example", [0, 4]),
        (f"items?since={_iso(1)}&until={_iso(8000)}", [4]),
        ("errors?outcome=dead", [2, 6, 10]),
        ("errors?outcome=robots", [3, 7, 11]),
        ("errors?reason=robots_disallowed&host=other.example", [11]),
        (f"errors?since={_iso(7000)}", [7, 10, 11]),
        ("dead?reason=http_402", [2]),
        ("dead?reason=robots_disallowed", []),
        ("dead?host=shop.example", [2, 6]),
        (f"dead?until={_iso(6001)}", [2, 6]),
        ("dead?host=shop", []),
        ("dead?host=%25", []),
    ],
)
def test_rows_are_filtered(crawled: tuple[Desk, str], path: str, numbers: list[int]) -> None:
    desk, job = crawled
    assert sorted(int(url.rsplit("/", 1)[1]) for url in _urls(desk, f"jobs/{job}/{path}")) == numbers


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("pages?status=99", "status"),
        ("pages?reason=x", "reason"),
        ("items?status=200", "status"),
        ("errors?outcome=filtered", "outcome"),
        ("dead?outcome=dead", "outcome"),
        ("dead?limit=0", "limit"),
        ("pages?since=now", "since"),
        ("pages?cursor=nonsense", "cursor"),
        ("pages?cursor=WzEsImEiXQ", "cursor"),
        ("export?format=xml", "format"),
        ("export?what=all", "what"),
    ],
)
def test_a_filter_that_a_list_does_not_have_is_named(desk: Desk, path: str, field: str) -> None:
    assert list(flaws(desk.get(f"jobs/{desk.submit(URL)}/{path}"))) == [field]


def test_a_cursor_at_the_end_waits_for_what_comes(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(5)))
    each.work(at_most=3)
    first = told(each.get(f"jobs/{job}/pages?limit=2"))
    assert (len(first["data"]), first["more"]) == (2, True)
    second = told(each.get(f"jobs/{job}/pages?limit=2&cursor={first['cursor']}"))
    assert (len(second["data"]), second["more"]) == (1, False)
    nothing = told(each.get(f"jobs/{job}/pages?limit=2&cursor={second['cursor']}"))
    assert (nothing["data"], nothing["more"], nothing["cursor"]) == ([], False, second["cursor"])
    each.work()
    later = told(each.get(f"jobs/{job}/pages?cursor={nothing['cursor']}"))
    assert len(later["data"]) == 2


def test_dead_letters_that_died_again_come_behind_the_cursor(each: Desk) -> None:
    job = each.submit(URL, URL + "2")
    each.work(dead)
    read = told(each.get(f"jobs/{job}/dead"))
    assert len(read["data"]) == 2
    told(each.post(f"jobs/{job}/dead/replay", {}))
    each.work(dead)
    assert len(told(each.get(f"jobs/{job}/dead?cursor={read['cursor']}"))["data"]) == 2
    assert len(list(each.rows(f"jobs/{job}/dead"))) == 2


WRITERS, BATCHES, BATCH = 3, 40, 25


def test_no_row_is_missed_or_doubled_while_several_write(each: Desk) -> None:
    job = each.submit(URL)
    store, done = each.platform.pages, threading.Event()

    def write(writer: int) -> None:
        for batch in range(BATCHES):
            numbers = [(writer * BATCHES + batch) * BATCH + n for n in range(BATCH)]
            pages = [_row(job, number) for number in numbers]
            items = [ItemRow(job, row.fingerprint, 0, row.url, {"n": 1}) for row in pages]
            store.write(pages, items, [_letter(row) for row in pages])

    def write_all() -> None:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
        done.set()

    with ThreadPoolExecutor(4) as pool:
        writing = pool.submit(write_all)
        readers = [
            pool.submit(_read_on, each.client(), f"jobs/{job}/{kind}", done) for kind in ("pages", "items", "dead")
        ]
        writing.result(60)
        for reader in readers:
            seen = reader.result(60)
            assert len(seen) == WRITERS * BATCHES * BATCH
            assert len(set(seen)) == len(seen)


def _read_on(client: Client, path: str, done: threading.Event) -> list[str]:
    """All rows by cursor, from the first to the one that came last."""
    seen: list[str] = []
    cursor = ""
    while True:
        last_look = done.is_set()
        answer = told(client.get(f"{path}?limit=37{cursor}"))
        seen += [row["url"] for row in answer["data"]]
        cursor = f"&cursor={answer['cursor']}" if answer["cursor"] else ""
        if last_look and not answer["more"]:
            return seen


def _row(job: str, number: int) -> PageRow:
    url = parse(f"{URL}{number}")
    return PageRow(job, url.fingerprint, str(url), url.host, 200, 0, 0, "text/html", "utf-8", 1, 1.0, NOW_MS)


def _letter(row: PageRow) -> DeadLetter:
    return DeadLetter(row.job, row.fingerprint, row.url, row.host, "dead", "http_404", "", 0, 1, NOW_MS)


# --- export ----------------------------------------------------------------------------------------------------------


def test_everything_can_be_exported_as_lines_of_json(crawled: tuple[Desk, str]) -> None:
    desk, job = crawled
    answer = desk.get(f"jobs/{job}/export")
    assert answer.mimetype == "application/x-ndjson"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{job}-items.jsonl"'
    records = [json.loads(line) for line in answer.get_data(as_text=True).splitlines()]
    assert sorted(records, key=str) == sorted(
        [{"url": f"{URL}0", "n": 0}, {"url": f"{URL}4", "n": 4}, {"url": f"{OTHER}8", "n": 8}], key=str
    )
    for what, count in (("pages", 6), ("errors", 6), ("items", 3)):
        lines = desk.get(f"jobs/{job}/export?what={what}&format=jsonl").get_data(as_text=True).splitlines()
        assert len(lines) == count


def test_everything_can_be_exported_as_csv(crawled: tuple[Desk, str]) -> None:
    desk, job = crawled
    answer = desk.get(f"jobs/{job}/export?format=csv&what=errors")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{job}-errors.csv"'
    records = list(csv.DictReader(io.StringIO(answer.get_data(as_text=True), newline="")))
    assert len(records) == 6
    assert {record["reason"] for record in records} == {"http_402", "http_406", "http_410", "robots_disallowed"}


def test_a_job_without_fields_exports_its_pages(desk: Desk) -> None:
    job = desk.submit(URL)
    desk.work()
    answer = desk.get(f"jobs/{job}/export?format=csv")
    assert answer.headers["Content-Disposition"].endswith('-pages.csv"')
    assert answer.get_data(as_text=True).splitlines()[1].startswith(URL)


def test_an_empty_export_has_its_head(desk: Desk) -> None:
    job = desk.submit(URL, fields={"title": "h1", "tags[]": ".tag"})
    assert desk.get(f"jobs/{job}/export").get_data() == b""
    assert desk.get(f"jobs/{job}/export?format=csv").get_data() == b"url,title,tags\r\n"


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://evil/")'])
def test_cells_that_a_spreadsheet_would_run_are_made_harmless(desk: Desk, cell: str) -> None:
    job = desk.submit(URL, fields={"title": "h1", "tags[]": "b"})
    desk.work(lambda lease: page(lease, item={"title": cell, "tags": [cell]}))
    (record,) = csv.DictReader(
        io.StringIO(desk.get(f"jobs/{job}/export?format=csv").get_data(as_text=True), newline="")
    )
    assert record["title"] == "'" + cell
    assert json.loads(record["tags"]) == [cell]
    assert orjson.loads(desk.get(f"jobs/{job}/export").get_data()) == {"url": URL, "title": cell, "tags": [cell]}


def test_an_export_is_sent_while_it_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job = desk.submit(URL)
    desk.platform.pages.write([_row(job, number) for number in range(3_500)], [], [])
    reads: list[int] = []
    columns_after = desk.platform.pages.page_columns_after

    def counted(*args: Any) -> Any:
        reads.append(1)
        return columns_after(*args)

    monkeypatch.setattr(desk.platform.pages, "page_columns_after", counted)
    answer = desk.get(f"jobs/{job}/export")
    parts = iter(answer.response)
    assert "Content-Length" not in answer.headers
    first = b""
    while not first:
        first = bytes(next(parts))  # pyright: ignore[reportArgumentType]
    assert (first.count(b"\n"), len(reads)) == (FEWEST, 1)
    rest = [bytes(part) for part in parts]  # pyright: ignore[reportArgumentType]
    assert sum(part.count(b"\n") for part in rest) == 3_500 - FEWEST


# --- bodies ----------------------------------------------------------------------------------------------------------


def _body_of(desk: Desk, target: str = "", **answer: Any) -> Any:
    """The answer for the body of one page."""
    job = desk.submit(URL + target)
    desk.work(lambda lease: page(lease, **answer))
    (row,) = desk.rows(f"jobs/{job}/pages")
    return desk.get(row["body"])


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("text/html; charset=utf-8", "application/octet-stream"),
        ("TEXT/HTML", "application/octet-stream"),
        ("application/xhtml+xml", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("text/xml", "application/octet-stream"),
        ("text/javascript", "application/octet-stream"),
        ("application/x-shockwave-flash", "application/octet-stream"),
        ("multipart/x-mixed-replace; boundary=x", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("nonsense", "application/octet-stream"),
        ("application/json; charset=utf-8", "application/json"),
        ("Image/PNG", "image/png"),
        ("text/plain;charset=iso-8859-1", "text/plain"),
        ("application/pdf", "application/pdf"),
    ],
)
def test_a_body_is_sent_as_what_no_browser_runs(desk: Desk, kind: str, sent: str) -> None:
    answer = _body_of(desk, kind=kind, body=b"<script>alert(1)</script>")
    assert answer.get_data() == b"<script>alert(1)</script>"
    assert answer.headers["Content-Type"].partition(";")[0] == sent
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["X-Original-Content-Type"] == kind


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("", "page"),
        ("a/b/book.html?x=1", "book.html"),
        ("a/b/", "b"),
        ("%2e%2e%2fetc%2fpasswd", "_etc_passwd"),
        ("..%5c..%5cboot.ini", "_.._boot.ini"),
        (".bashrc", "bashrc"),
        ("...", "page"),
        ("größer.txt", "größer.txt"),
        ("%ff.txt", "\N{REPLACEMENT CHARACTER}.txt"),
        ("quote%22;x=%0d%0aSet-Cookie:a", "quote_;x=__Set-Cookie_a"),
        ("a;filename=evil.exe", "a;filename=evil.exe"),
        ("cod%E2%80%AEexe.txt", "cod_exe.txt"),
        ("x" * 500, "x" * 150),
        ("%E8%A1%A8" * 200, "表" * 50),
        ("con.html", "_con.html"),
        ("%00", "_"),
    ],
)
def test_the_name_of_a_body_comes_from_its_url_and_does_no_harm(desk: Desk, target: str, name: str) -> None:
    answer = _body_of(desk, target)
    disposition = answer.headers["Content-Disposition"]
    start = "attachment; filename*=UTF-8''"
    assert disposition.startswith(start)
    given = disposition.removeprefix(start)
    assert not set(given) & set(" \"';\r\n/\\\0")
    assert "Set-Cookie" not in answer.headers
    assert unquote(given) == name


def test_a_content_type_cannot_smuggle_headers(desk: Desk) -> None:
    answer = _body_of(desk, kind="text/html\r\nSet-Cookie: a=b\r\n\r\n<script>☃")
    assert "Set-Cookie" not in answer.headers
    assert answer.headers["X-Original-Content-Type"] == "text/htmlSet-Cookie: a=b<script>"


def test_a_packed_body_comes_unpacked(desk: Desk) -> None:
    import gzip

    packed = gzip.compress(b"hello " * 1_000)
    answer = _body_of(desk, body=packed, headers=((b"Content-Encoding", b"gzip"),), kind="text/plain")
    assert answer.get_data() == b"hello " * 1_000
    assert "Content-Encoding" not in answer.headers


@pytest.mark.parametrize("encoding", [b"gzip", b"br", b"deflate", b"zstd", b"rot13"])
def test_a_body_that_cannot_be_unpacked_comes_as_it_was(desk: Desk, encoding: bytes) -> None:
    answer = _body_of(desk, status=302, body=b"not packed", headers=((b"Content-Encoding", encoding),), redirect=OTHER)
    assert (answer.status_code, answer.get_data()) == (200, b"not packed")
    assert answer.mimetype == "application/octet-stream"


def test_an_empty_body_is_a_body(desk: Desk) -> None:
    answer = _body_of(desk, body=b"")
    assert (answer.status_code, answer.get_data()) == (200, b"")


def test_a_page_that_was_not_archived_has_no_body(desk: Desk) -> None:
    job = desk.submit(URL, archive=False)
    desk.work(lambda lease: page(lease, archived=False))
    (row,) = desk.rows(f"jobs/{job}/pages")
    assert row["body"] is None
    assert "not kept" in refused(desk.get(f"pages/{row['id']}/body"), 404)["detail"]


def test_a_page_that_does_not_exist_has_no_body(desk: Desk) -> None:
    refused(desk.get("pages/999/body"), 404)
    for bad in ("0", "-1", "x", "1.5", str(2**53), "9" * 30):
        assert desk.get(f"pages/{bad}/body").status_code in (404, 422)


def test_a_segment_that_is_gone_or_unreadable_is_told(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    job = desk.submit(URL)
    desk.work()
    (row,) = desk.rows(f"jobs/{job}/pages")
    desk.archive.close()
    (segment,) = (desk.platform.settings.archive_path / job).iterdir()
    segment.write_bytes(b"nothing")
    refused(desk.get(row["body"]), 404)
    segment.unlink()
    assert "not there any more" in refused(desk.get(row["body"]), 404)["detail"]
    segment.mkdir()
    assert desk.get(row["body"]).status_code == 503

    def broken(*_: object) -> Any:
        raise ArchiveUnavailable("the disk is gone")

    monkeypatch.setattr(ArchiveReader, "read", broken)
    assert refused(desk.get(row["body"]), 503)["detail"] == "the disk is gone"


# --- what a browser brings -------------------------------------------------------------------------------------------


def _rendered(lease: Lease) -> Result:
    attachments = (
        Attachment("document", "text/html; charset=utf-8", b"<script>alert(1)</script>"),
        Attachment("screenshot", "image/png", b"a picture"),
        Attachment("pdf", "application/pdf", b"a print"),
    )
    found = page(lease, engine="browser", notes={"console": ["an error"], "requests": 3})
    return replace(found, attachments=attachments)


def test_a_rendered_page_tells_what_was_seen_and_kept(each: Desk) -> None:
    job = each.submit(URL, engine="browser", browser={"screenshot": "full", "pdf": True})
    each.work(_rendered)
    (row,) = each.rows(f"jobs/{job}/pages")
    assert (row["engine"], row["notes"]) == ("browser", {"console": ["an error"], "requests": 3})
    assert row["captures"] == {
        kind: f"/api/v1/pages/{row['id']}/captures/{kind}" for kind in ("document", "screenshot", "pdf")
    }
    sent = {
        "document": (b"<script>alert(1)</script>", "text/html; charset=utf-8", ".html"),
        "screenshot": (b"a picture", "image/png", ".png"),
        "pdf": (b"a print", "application/pdf", ".pdf"),
    }
    for kind, (body, media_type, ending) in sent.items():
        answer = each.get(row["captures"][kind])
        assert (answer.status_code, answer.get_data()) == (200, body)
        assert answer.headers["X-Original-Content-Type"] == media_type
        assert answer.headers["Content-Disposition"].startswith("attachment;")
        assert answer.headers["Content-Disposition"].endswith(ending)
        assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert each.get(row["captures"]["document"]).mimetype == "application/octet-stream", "no browser runs it"
    assert each.get(row["captures"]["screenshot"]).mimetype == "image/png"


def test_a_page_has_no_other_captures_than_it_tells(desk: Desk) -> None:
    job = desk.submit(URL)
    desk.work()
    (row,) = desk.rows(f"jobs/{job}/pages")
    assert (row["engine"], row["notes"], row["captures"]) == ("http", None, {})
    problem = refused(desk.get(f"pages/{row['id']}/captures/pdf"), 404)
    assert problem["detail"] == f"page {row['id']} has no pdf; it has nothing of the kind"
    refused(desk.get("pages/999/captures/pdf"), 404)
    assert desk.get(f"pages/{row['id']}/captures/..%2f..").status_code in (404, 422)


def test_captures_of_other_tenants_are_not_there(desk: Desk) -> None:
    _, mine = desk.make_key(tenant="mine")
    _, theirs = desk.make_key(tenant="theirs")
    job = mine.submit(URL, engine="browser")
    desk.work(_rendered)
    (row,) = mine.rows(f"jobs/{job}/pages")
    assert mine.get(row["captures"]["pdf"]).status_code == 200
    refused(theirs.get(row["captures"]["pdf"]), 404)


def test_a_job_is_shown_without_its_cookies_and_passwords(each: Desk) -> None:
    actions = [{"fill": {"selector": "#p", "text": "c4nary1"}}, {"click": "#login"}]
    job = each.submit(URL, engine="auto", browser={"cookies": {"sid": "c4nary2"}, "actions": actions})
    answer = each.get(f"jobs/{job}")
    assert "c4nary" not in answer.get_data(as_text=True)
    shown = told(answer)
    assert (shown["engine"], shown["spec"]["browser"]["cookies"]) == ("auto", {"sid": "***"})
    assert shown["spec"]["browser"]["actions"][1]["click"] == "#login"
    assert "c4nary" not in each.get("jobs").get_data(as_text=True)


def test_a_refusal_does_not_repeat_cookies(desk: Desk) -> None:
    for settings in ({"engine": "http"}, {"engine": "browser", "robots": "perhaps"}):
        for cookies in ({"sid": "c4nary"}, {"sid": "c4nary;"}):
            answer = desk.post("jobs", {"urls": [URL], "browser": {"cookies": cookies}, **settings})
            assert answer.status_code == 422
            assert "c4nary" not in answer.get_data(as_text=True)


def test_one_page_can_be_rendered_now(each: Desk) -> None:
    body = {"url": URL, "engine": "browser", "browser": {"wait": "idle", "screenshot": "view"}}
    job = told(each.post("scrape", body), 202)["id"]
    assert each.job(job)["spec"]["browser"]["wait"]["until"] == "idle"
    assert ("browser.high", each.job(job)["request_id"]) in each.rings
    each.work(_rendered)
    done = told(each.post("scrape?wait=1", body), 202)
    assert done["page"] is None, "another job"
    row = next(each.rows(f"jobs/{job}/pages"))
    assert set(row["captures"]) == {"document", "screenshot", "pdf"}
    assert "browser" in flaws(each.post("scrape", {"url": URL, "browser": {"pdf": True}}))


# --- another try -----------------------------------------------------------------------------------------------------


def test_all_dead_letters_can_be_tried_again(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(6)))
    each.work(some_dead("/1", "/4"))
    assert each.state(job) is JobState.FINISHED
    assert told(each.post(f"jobs/{job}/dead/replay", {})) == {"replayed": 2}
    assert (each.job(job)["state"], each.job(job)["pending"]) == ("running", 2)
    assert sorted(each.work()) == [f"{URL}1", f"{URL}4"]
    shown = each.job(job)
    assert (shown["state"], shown["pages"], shown["errors"], shown["reconciles"]) == ("finished", 6, {}, True)
    assert list(each.rows(f"jobs/{job}/dead")) == []
    assert told(each.post(f"jobs/{job}/dead/replay", {})) == {"replayed": 0}


def test_dead_letters_are_chosen_by_id_reason_or_host(each: Desk) -> None:
    job = each.submit(*(f"{URL}{n}" for n in range(4)), f"{OTHER}4", f"{OTHER}5")

    def visit(lease: Lease) -> Result:
        return dead(lease, "http_500" if lease.request.url.target in ("/0", "/4") else "http_404")

    each.work(visit)
    letters = {row["url"]: row["id"] for row in each.rows(f"jobs/{job}/dead")}
    replay = f"jobs/{job}/dead/replay"
    assert told(each.post(replay, {"ids": [letters[f"{URL}1"], 10**9]})) == {"replayed": 1}
    assert each.work() == [f"{URL}1"]
    assert told(each.post(replay, {"reason": "http_500", "host": "other.example"})) == {"replayed": 1}
    assert each.work() == [f"{OTHER}4"]
    assert told(each.post(replay, {"host": "other.example"})) == {"replayed": 1}
    assert told(each.post(replay, {"reason": "http_500"})) == {"replayed": 1}
    assert sorted(each.work()) == [f"{OTHER}5", f"{URL}0"]
    assert told(each.post(replay, {"reason": "nothing"})) == {"replayed": 0}
    assert _urls(each, f"jobs/{job}/dead") == [f"{URL}2", f"{URL}3"]


def test_what_robots_refused_stays_refused(desk: Desk) -> None:
    job = desk.submit(URL)
    desk.work(lambda lease: dead(lease, "robots_disallowed", Outcome.ROBOTS))
    assert told(desk.post(f"jobs/{job}/dead/replay", {})) == {"replayed": 0}
    assert desk.state(job) is JobState.FINISHED


def test_a_cancelled_job_tries_nothing_again(desk: Desk) -> None:
    job = desk.submit(URL, URL + "2")
    desk.work(dead, at_most=1)
    told(desk.post(f"jobs/{job}/cancel"))
    refused(desk.post(f"jobs/{job}/dead/replay", {}), 409)
    assert len(list(desk.rows(f"jobs/{job}/dead"))) == 1


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ({"ids": []}, "ids"),
        ({"ids": [0]}, "ids.0"),
        ({"ids": ["1"]}, "ids.0"),
        ({"ids": [True]}, "ids.0"),
        ({"id": 1}, "id"),
        ({"reason": 7}, "reason"),
    ],
)
def test_a_choice_that_is_none_is_named(desk: Desk, choice: dict[str, Any], field: str) -> None:
    job = desk.submit(URL)
    assert list(flaws(desk.post(f"jobs/{job}/dead/replay", choice))) == [field]


@pytest.mark.parametrize("body", [b"null", b'"all"', b"[]"])
def test_what_is_sent_as_a_choice_of_dead_letters_is_an_object(desk: Desk, body: bytes) -> None:
    job = desk.submit(URL, follow=False)
    answer = desk.ask("POST", f"jobs/{job}/dead/replay", data=body, content_type="application/json")
    assert "object" in str(refused(answer, 422)["errors"])


# --- versions and lineage -------------------------------------------------------------------------------------------


def test_an_item_tells_its_version_and_where_it_comes_from(crawled: tuple[Desk, str]) -> None:
    desk, job = crawled
    plain = told(desk.get(f"jobs/{job}/items?limit=1"))["data"][0]
    assert plain["version"] == "v1"
    assert "lineage" not in plain
    (first,) = told(desk.get(f"jobs/{job}/items?limit=1&lineage=true"))["data"]
    lineage = first["lineage"]
    assert {lineage["version"], lineage["attempt"]} == {"v1", 0}
    assert lineage["fetched_at"].startswith("2023-11-14T22:13:")
    exported = desk.get(f"jobs/{job}/export?format=csv&lineage=true").text.splitlines()[0]
    assert exported == "url,n,_fetched_at,_attempt,_archive_key,_archive_offset,_archive_length,_version"


def test_a_version_that_there_is_not_is_named(crawled: tuple[Desk, str]) -> None:
    desk, job = crawled
    for path in ("items", "export"):
        problem = refused(desk.get(f"jobs/{job}/{path}?version=v7"), 404)
        assert "no version 'v7'" in problem["detail"]
