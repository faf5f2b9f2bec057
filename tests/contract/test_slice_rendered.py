"""A slice that renders: all its parts real but the browser, in whose place stands somebody who knows its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.model import JobState
from shoal.core.redact import HIDDEN
from shoal.core.url import parse
from shoal.errors import FetchError
from shoal.fetch.port import Response
from shoal.render.port import Notes, Order, Rendered, Shot
from shoal.store.archive import ArchiveReader
from shoal.store.ledger import Ledger
from shoal.worker.routes import PROBES
from shoal.worker.slice import UNPROVEN, Slice
from tests.contract.databases import a_sqlite
from tests.contract.test_slice import Plant, a_plant
from tests.site.generated import StatusSite
from tests.site.reply import page, plain
from tests.site.server import Server, serve

HTML = "text/html; charset=utf-8"
SHELL = '<body><div id="app"></div><script src="/app.js"></script></body>'
TEXT = f"<p>{'all that there is to read. ' * 30}</p>"
Scene = Callable[[Order], Rendered]
Act = Scene | FetchError


def scene(
    document: str = "<p>rendered",
    *,
    body: str = SHELL,
    status: int = 200,
    kind: str = HTML,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Scene:
    """A page as a browser has it."""
    pairs = {"content-type": kind, **(headers or {})}
    packed = tuple((name.encode(), value.encode()) for name, value in pairs.items())

    def show(order: Order) -> Rendered:
        response = Response(order.url, status, "", packed, body.encode(), timedelta(milliseconds=3))
        return Rendered(response, document, **more)

    return show


@dataclass
class Stage:
    """Renders what it was told to; the nth time a page is asked for, the nth of its scenes."""

    scenes: Mapping[str, Act | list[Act]] = field(default_factory=dict[str, Act | list[Act]])
    delay: float = 0.0
    orders: list[Order] = field(default_factory=list[Order])
    closed: int = 0

    async def render(self, order: Order) -> Rendered:
        self.orders.append(order)
        await asyncio.sleep(self.delay)
        script = self.scenes.get(order.url.target, scene())
        acts = [script] if isinstance(script, FetchError) or callable(script) else script
        found = acts[min(self.targets.count(order.url.target), len(acts)) - 1]
        if isinstance(found, FetchError):
            raise found
        return found(order)

    async def close(self) -> None:
        self.closed += 1

    @property
    def targets(self) -> list[str]:
        return [order.url.target for order in self.orders]


@pytest.fixture
def plant(valkey_url: str, tmp_path: Path) -> Generator[Plant]:
    with a_plant(valkey_url, tmp_path, a_sqlite(tmp_path)) as plant:
        yield plant


def _hits(site: Server) -> list[str]:
    return [hit.target for hit in site.hits]


def _asked(plant: Plant, url: str) -> list[tuple[str, int, str]]:
    host = parse(url).host
    entries = [entry.ask for batch in Ledger(plant.pages.engine).batches(host) for entry in batch]
    return [(parse(ask.url).target, ask.status, ask.reason) for ask in entries]


# --- every page ------------------------------------------------------------------------------------------------------


def test_a_job_for_the_browser_is_rendered_from_its_first_page_to_its_last(plant: Plant) -> None:
    shot = Shot("screenshot", "image/png", b"a picture")
    stage = Stage({"/": scene("<h1>1</h1><a href=/2>2</a>", shots=(shot,)), "/2": scene("<h1>2</h1><a href=/>1</a>")})
    with serve(StatusSite({})) as site:
        job = plant.submit(site.url, engine="browser", fields={"title": "h1"})
        report = replace(plant, renderer=stage).run()
        assert _hits(site) == []
    assert (report.pages, stage.targets, stage.closed) == (2, ["/", "/2"], 1)
    assert plant.control.status(job).state is JobState.FINISHED
    assert plant.counters(job).reconciles
    assert [item.data["title"] for item in plant.pages.items(job)] == ["1", "2"]
    first, _second = plant.pages.pages(job)
    archive = ArchiveReader(plant.root)
    assert first.archive
    assert archive.read(first.archive).body == SHELL.encode()
    kept = {each.kind: archive.read_attachment(each.archive) for each in first.captures}
    assert kept == {"document": b"<h1>1</h1><a href=/2>2</a>", "screenshot": b"a picture"}
    assert _asked(plant, site.url) == [("/", 200, ""), ("/2", 200, "")]


def test_a_slice_without_a_browser_leaves_such_pages_to_others(plant: Plant) -> None:
    with serve(StatusSite({"/": [page(TEXT)]})) as site:
        job = plant.submit(site.url, engine="browser")
        assert plant.run().pages == 0
        assert _hits(site) == []
    assert plant.counters(job).queued == 1


def test_robots_txt_is_asked_before_anything_is_rendered_and_before_a_page_goes_on(plant: Plant) -> None:
    went: list[bool] = []

    class Curious(Stage):
        async def render(self, order: Order) -> Rendered:
            went.extend([await order.may_go(parse(site.link(target))) for target in ("/yes", "/no/2")])
            return await super().render(order)

    stage = Curious()
    robots = plain("User-agent: *\nDisallow: /no")
    with serve(StatusSite({"/robots.txt": [robots]})) as site:
        urls = [site.url, site.link("/no")]
        job = plant.submit(site.url, urls=urls, engine="browser", robots=True, follow=False)
        replace(plant, renderer=stage).run()
        assert _hits(site) == ["/robots.txt"]
    assert stage.targets == ["/"]
    assert went == [True, False]
    (letter,) = plant.pages.dead_letters(job)
    assert (letter.url, letter.reason) == (site.link("/no"), "robots_disallowed")
    assert _asked(plant, site.url) == [("/robots.txt", 200, ""), ("/", 200, "")]


def test_pages_that_a_page_went_on_to_keep_the_host_waiting(plant: Plant) -> None:
    with serve(StatusSite({})) as site:
        plant.submit(site.url, engine="browser", rate=10)
        replace(plant, renderer=Stage({"/": scene(further=400)})).run()
        status = plant.watch.host(parse(site.url).host)
    assert status
    assert timedelta(seconds=20) < status.hold <= timedelta(seconds=40)


def test_an_answer_that_fails_without_a_browser_fails_with_one(plant: Plant) -> None:
    stage = Stage(
        {
            "/busy": [scene(status=503, headers={"retry-after": "0"}, goes_to="http://elsewhere.example/"), scene()],
            "/gone": scene(status=404),
        }
    )
    with serve(StatusSite({})) as site:
        urls = [site.link("/busy"), site.link("/gone")]
        job = plant.submit(site.url, urls=urls, engine="browser", follow=False)
        replace(plant, renderer=stage).run()
    assert sorted(stage.targets) == ["/busy", "/busy", "/gone"]
    (letter,) = plant.pages.dead_letters(job)
    assert (letter.url, letter.reason, letter.attempts) == (urls[1], "http_404", 1)
    counters = plant.counters(job)
    assert (counters.done, counters.dead, counters.retries, counters.reconciles) == (1, 1, 1, True)
    assert sorted(_asked(plant, site.url)) == [("/busy", 200, ""), ("/busy", 503, ""), ("/gone", 404, "")]


@pytest.mark.parametrize(
    ("reason", "tries"), [("page_too_big", 1), ("action_failed", 1), ("selector_missing", 2), ("browser_crashed", 2)]
)
def test_what_goes_wrong_in_the_browser_is_a_failure_like_any(plant: Plant, reason: str, tries: int) -> None:
    stage = Stage({"/": FetchError(reason, "told c4nary")})
    with serve(StatusSite({})) as site:
        job = plant.submit(
            site.url, engine="browser", retries=1, headers={"Authorization": "c4nary"}, browser={"require": "h1"}
        )
        replace(plant, renderer=stage).run()
    (letter,) = plant.pages.dead_letters(job)
    assert (letter.reason, letter.attempts, letter.detail) == (reason, tries, f"told {HIDDEN}")
    assert len(stage.orders) == tries


def test_what_is_no_document_is_kept_as_it_came(plant: Plant) -> None:
    stage = Stage({"/": scene("", body='{"a": 1}', kind="application/json")})
    with serve(StatusSite({})) as site:
        job = plant.submit(site.url, engine="browser")
        replace(plant, renderer=stage).run()
    (row,) = plant.pages.pages(job)
    assert (row.engine, row.content_type, row.size, row.captures) == ("browser", "application/json", 8, ())
    assert row.archive
    assert ArchiveReader(plant.root).read(row.archive).body == b'{"a": 1}'


def test_without_an_archive_only_the_row_and_the_links_are_kept(plant: Plant) -> None:
    stage = Stage({"/": scene("<a href=/2>2</a>", shots=(Shot("pdf", "application/pdf", b"a print"),))})
    with serve(StatusSite({})) as site:
        job = plant.submit(site.url, engine="browser", archive=False)
        replace(plant, renderer=stage).run()
    assert [(row.archive, row.captures) for row in plant.pages.pages(job)] == [(None, ()), (None, ())]
    ((_, found),) = plant.pages.links_after(job, 0)
    assert found.urls == (site.link("/2"),)
    assert not plant.root.exists() or not list(plant.root.rglob("*.warc.gz"))


def test_a_document_that_is_marked_noindex_is_left_out_and_its_links_are_followed(plant: Plant) -> None:
    stage = Stage({"/": scene("<meta name=robots content=noindex><a href=/2>2</a>", notes=Notes(console=("a",)))})
    with serve(StatusSite({})) as site:
        job = plant.submit(site.url, engine="browser", noindex=True)
        replace(plant, renderer=stage).run()
    assert [row.url for row in plant.pages.pages(job)] == [site.link("/2")]
    (letter,) = plant.pages.dead_letters(job)
    assert letter.reason == "noindex"
    assert stage.targets == ["/", "/2"]


def test_a_page_cannot_put_the_secrets_that_it_was_sent_into_the_database(plant: Plant) -> None:
    notes = Notes(console=("c4nary1",), failed=("http://x/?a=c4nary2 net::ERR_FAILED",), evaluated=("c4nary2",))
    with serve(StatusSite({})) as site:
        job = plant.submit(
            site.url,
            engine="browser",
            headers={"Authorization": "Bearer c4nary1"},
            browser={"cookies": {"sid": "c4nary2"}},
        )
        stage = Stage({"/": scene(notes=notes)})
        replace(plant, renderer=stage).run()
    (order,) = stage.orders
    assert (order.cookies, order.headers) == ({"sid": "c4nary2"}, {"Authorization": "Bearer c4nary1"})
    (row,) = plant.pages.pages(job)
    assert row.notes
    assert row.notes["evaluated"] == [HIDDEN]
    assert "c4nary" not in str(row.notes)


def test_where_there_is_no_browser_the_host_was_not_asked(plant: Plant) -> None:
    stage = Stage({"/": [FetchError("browser_missing", "none is installed"), scene()]})
    with serve(StatusSite({})) as site:
        job = plant.submit(site.url, engine="browser")
        replace(plant, renderer=stage).run()
    assert plant.counters(job).retries == 1
    assert plant.counters(job).done == 1
    assert _asked(plant, site.url) == [("/", 200, "")]


def test_a_slice_told_to_stop_gives_back_what_it_renders(plant: Plant) -> None:
    with serve(StatusSite({})) as site:
        job = plant.submit(site.url, engine="browser")

        def stop_soon(run: Slice) -> None:
            asyncio.get_running_loop().call_later(0.5, run.stop)

        report = replace(plant, renderer=Stage(delay=60)).run(stop_soon, grace_s=0.2)
    counters = plant.counters(job)
    assert (report.given_back, counters.queued, counters.lost, counters.retries) == (1, 1, 0, 0)
    assert _asked(plant, site.url) == [("/", 0, "interrupted")]


# --- only those that need it -----------------------------------------------------------------------------------------


def test_a_shell_is_handed_over_and_only_what_the_browser_brings_is_a_page(plant: Plant) -> None:
    stage = Stage({"/": scene(f"<h1>made</h1>{TEXT}<a href=/plain>p</a>")})
    with serve(StatusSite({"/": [page(SHELL)], "/plain": [page(TEXT)]})) as site:
        job = plant.submit(site.url, engine="auto")
        replace(plant, renderer=stage).run()
        assert _hits(site) == ["/", "/plain"]
    assert stage.targets == ["/"]
    engines = {parse(row.url).target: (row.engine, row.attempt) for row in plant.pages.pages(job)}
    assert engines == {"/": ("browser", 0), "/plain": ("http", 0)}
    counters = plant.counters(job)
    assert (counters.done, counters.retries, counters.reconciles) == (2, 0, True)
    assert _asked(plant, site.url) == [("/", 200, ""), ("/", 200, ""), ("/plain", 200, "")]


def test_redirects_of_rendered_pages_are_requests_of_their_own_and_stay_with_the_browser(plant: Plant) -> None:
    stage = Stage(
        {
            "/": scene("", status=302, headers={"location": "/home"}),
            "/home": lambda order: scene("", goes_to=site.link("/there"))(order),
            "/there": scene(TEXT),
        }
    )
    with serve(StatusSite({"/": [page(SHELL)]})) as site:
        job = plant.submit(site.url, engine="auto")
        replace(plant, renderer=stage).run()
        assert _hits(site) == ["/"]
    assert stage.targets == ["/", "/home", "/there"]
    status = plant.control.status(job)
    assert (status.counters.done, status.redirects, status.counters.reconciles) == (3, 2, True)
    rows = {parse(row.url).target: row for row in plant.pages.pages(job)}
    assert [rows[target].redirect for target in ("/", "/home", "/there")] == [
        site.link("/home"),
        site.link("/there"),
        None,
    ]


def test_a_page_that_goes_to_another_host_does_not_take_the_job_along(plant: Plant) -> None:
    with serve(StatusSite({})) as site:
        job = plant.submit(site.url, engine="browser")
        replace(plant, renderer=Stage({"/": scene("", goes_to="http://10.0.0.1/")})).run()
    status = plant.control.status(job)
    assert (status.counters.done, status.counters.filtered, status.reasons) == (
        1,
        1,
        {"done:redirect": 1, "filtered:redirect_other_host": 1},
    )


def test_of_many_pages_alike_few_are_asked_for_in_vain(plant: Plant) -> None:
    items = [f"/item/{number}" for number in range(40)]
    links = "".join(f"<a href={item}>{item}</a>" for item in items)
    stage = Stage({item: scene(TEXT) for item in items}, delay=0.05)
    shells = {item: [page(SHELL, delay=0.1)] for item in items}
    with serve(StatusSite({"/": [page(TEXT + links)], **shells})) as site:
        job = plant.submit(site.url, engine="auto")
        replace(plant, renderer=stage).run()
        assert len([target for target in _hits(site) if target.startswith("/item/")]) <= PROBES
    assert sorted(stage.targets) == sorted(items)
    assert plant.counters(job).done == 41
    assert plant.control.status(job).state is JobState.FINISHED


def test_links_to_pages_like_those_that_needed_it_go_to_the_browser_at_once(plant: Plant) -> None:
    stage = Stage({f"/item/{number}": scene(f"{TEXT}<a href=/item/{number + 1}>next</a>") for number in range(1, 5)})
    with serve(StatusSite({"/item/1": [page(SHELL)]})) as site:
        job = plant.submit(site.link("/item/1"), engine="auto")
        replace(plant, renderer=stage).run()
        assert _hits(site) == ["/item/1"]
    assert stage.targets == [f"/item/{number}" for number in range(1, 6)]
    assert {row.engine for row in plant.pages.pages(job)} == {"browser"}
    assert "retry:known_route" not in plant.control.status(job).reasons


def test_what_one_process_has_learnt_the_next_one_knows(plant: Plant) -> None:
    """The first slice ends with the first page; another process goes on with the same job."""
    stage = Stage({f"/item/{number}": scene(TEXT) for number in range(1, 4)})
    with serve(StatusSite({"/item/1": [page(SHELL)], "/wait": [page(TEXT, delay=1.3)]})) as site:
        job = plant.submit(
            site.link("/item/1"),
            urls=[site.link("/item/1"), site.link("/wait")],
            engine="auto",
            follow=False,
            open=True,
        )
        replace(plant, renderer=stage).run()
        assert plant.frontier.routes(job), "it was told"
        row = plant.jobs.get(job)
        assert row
        plant.intake.add(row, [(number, site.link(f"/item/{number}"), "") for number in (2, 3)])
        replace(plant, renderer=stage).run()
        assert _hits(site).count("/item/1") == 1
        assert site.count("/item/2") + site.count("/item/3") == 0
    assert sorted(stage.targets) == ["/item/1", "/item/2", "/item/3"]


def test_pages_that_turn_out_not_to_need_it_go_without_again(plant: Plant) -> None:
    stage = Stage(
        {
            "/item/1": scene(f"{TEXT}<a href=/item/2>next</a>"),
            "/item/2": scene(f"{TEXT}<a href=/item/3>next</a>", body=TEXT),
        }
    )
    with serve(StatusSite({"/item/1": [page(SHELL)], "/item/3": [page(TEXT)]})) as site:
        job = plant.submit(site.link("/item/1"), engine="auto")
        replace(plant, renderer=stage).run()
        assert _hits(site) == ["/item/1", "/item/3"]
    assert stage.targets == ["/item/1", "/item/2"]
    assert [row.engine for row in plant.pages.pages(job)] == ["browser", "browser", "http"]


def test_a_page_without_what_the_job_requires_is_rendered(plant: Plant) -> None:
    with serve(StatusSite({"/": [page(TEXT)]})) as site:
        stage = Stage()
        plant.submit(site.url, engine="auto", browser={"require": ".price"})
        replace(plant, renderer=stage).run()
        assert (_hits(site), stage.targets) == (["/"], ["/"])


def test_who_waits_for_what_others_find_out_is_given_back_at_once(plant: Plant) -> None:
    items = {f"/item/{number}": [page(SHELL, delay=30)] for number in range(6)}
    with serve(StatusSite(items)) as site:
        urls = [site.link(item) for item in items]
        job = plant.submit(urls[0], urls=urls, engine="auto", follow=False)

        def stop_soon(run: Slice) -> None:
            asyncio.get_running_loop().call_later(0.8, run.stop)

        report = replace(plant, renderer=Stage()).run(stop_soon, grace_s=0.3)
        assert len(site.hits) == PROBES
    counters = plant.counters(job)
    assert report.given_back == UNPROVEN, "more are not asked of a host that has not answered"
    assert (counters.queued, counters.leased, counters.lost) == (6, 0, 0)
