"""What became of a URL, in prepared cases: real crawls by real workers, and the words that are found for each."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shoal.core.explanation import Explanation, Verdict
from shoal.core.spec import read_spec
from shoal.wiring import Platform, open_platform
from tests.command import REPOSITORY, Shoal, a_home
from tests.site.bookshop import Bookshop
from tests.site.gazette import Gazette
from tests.site.generated import StatusSite
from tests.site.reply import Reply, page, plain, redirect
from tests.site.server import Server, serve
from tests.waiting import wait_until

HOSTS = ("127.0.0.1", "127.0.0.2")
STORY = " ".join(f"The {number}th sentence of the story is about number {number * 7}." for number in range(80))
SPIDERS = str(REPOSITORY / "examples" / "books_spider.py")
ENVIRONMENT = (("SHOAL_SPIDERS", SPIDERS), ("SHOAL_GRACE_SECONDS", "3"))


def _linked(*targets: str, text: str = "", head: str = "") -> tuple[Reply, ...]:
    links = "".join(f"<a href='{target}'>{target}</a>" for target in targets)
    return (page(f"<!doctype html><head><title>T</title>{head}</head><nav>{links}</nav><main><p>{text}</p></main>"),)


SITE: Mapping[str, tuple[Reply, ...]] = {
    "/robots.txt": (plain("User-agent: Googlebot\nDisallow: /\n\nUser-agent: *\nDisallow: /private/\n"),),
    "/": _linked(
        *("/deep/1", "/deny/1", "/private/1", "/go", "/out", "/gone", "/busy", "/large", "/picture.png", "/data.json"),
        *("/story", "/story?again", "/%7Efolk/", "/named", "/noindex", "/moved-to-denied"),
        "http://elsewhere.invalid/x",
    ),
    "/deep/1": _linked("/deep/2"),
    "/deep/2": _linked("/deep/3"),
    "/deep/3": _linked(),
    "/go": (redirect("/landed"),),
    "/landed": _linked(),
    "/out": (redirect("http://elsewhere.invalid/there"),),
    "/moved-to-denied": (redirect("/deny/target"),),
    "/busy": (Reply(503), *_linked(text="Thank you for waiting")),
    "/large": (page("x" * 20_000),),
    "/picture.png": (Reply(200, (("Content-Type", "image/png"),), b"\x89PNG"),),
    "/data.json": (Reply(200, (("Content-Type", "application/json"),), b'{"price": "12"}'),),
    "/story": _linked(text=STORY),
    "/story?again": _linked(text=STORY),
    "/~folk/": _linked(),
    "/named": _linked(head='<link rel="canonical" href="/landed">'),
    "/noindex": _linked(head='<meta name="robots" content="noindex">'),
    "/fickle": (page("Not yet", status=404), *_linked()),
    "/allowed/1": _linked("/allowed/2", "/allowed/3", "/allowed/4", "/other/1"),
    "/allowed/2": _linked(),
    "/allowed/3": _linked(),
    "/allowed/4": _linked(),
    "/hang": (replace(page("At last"), delay=40.0),),
    "/rest": (Reply(503, (("Retry-After", "600"),)),),
    "/behind": _linked(),
}


@dataclass(frozen=True, slots=True)
class World:
    """Jobs by the names that the cases give them, and who can explain their URLs."""

    shoal: Shoal
    platform: Platform
    site: Server
    gazette: Server
    shop: Server
    jobs: dict[str, str]

    def link(self, target: str) -> str:
        """`/path` of the site; `gazette/path`, `shop/path` and `second/path` of the others."""
        name, slash, rest = target.partition("/")
        if not slash or name.endswith(":"):
            return target
        places = {"": self.site.link, "gazette": self.gazette.link, "shop": self.shop.link}
        return self.site.link(f"/{rest}", HOSTS[1]) if name == "second" else places[name](f"/{rest}")

    def explain(self, job: str, target: str) -> Explanation:
        row = self.platform.control.job(self.jobs[job])
        return self.platform.explainer.explain(row, self.link(target))

    def crawl(self, name: str, spec: dict[str, Any]) -> None:
        path = self.shoal.home.parent / f"{name}.yaml"
        path.write_text(json.dumps({"rate": "unlimited", **spec}), encoding="utf-8")
        done = self.shoal.run("crawl", "-j", str(path), "--workers", "1", "--json", "--quiet")
        assert done.code == 0, done.err
        self.jobs[name] = done.json["job"]
        assert done.json["reconciles"], done.json["totals"]

    def submit(self, name: str, *targets: str, **settings: Any) -> str:
        """For a worker that runs already, or for none."""
        spec = {"urls": [self.link(target) for target in targets], "rate": "unlimited", "follow": False, **settings}
        self.jobs[name] = self.platform.intake.submit(read_spec(spec)).job
        return self.jobs[name]


def _crawl_to_the_end(world: World) -> None:
    contract = {"schema": {"type": "object", "properties": {"price": {"type": "number"}}}}
    world.crawl(
        "whole",
        {
            "urls": [world.site.url],
            "depth": 2,
            "deny": ["/deny/", "/never-linked"],
            "max_body": 10_000,
            "noindex": True,
            "duplicates": "skip",
            "fields": {"price": "json:price"},
            "contract": contract,
        },
    )
    world.crawl("narrow", {"urls": [world.link("/allowed/1")], "allow": ["/allowed/"], "pages": 2})
    world.crawl(
        "sitemaps", {"urls": [world.gazette.url], "sitemaps": True, "since": "2026-01-01", "depth": 1, "follow": False}
    )
    world.crawl("spider", {"urls": [world.shop.url], "spider": "books", "pages": 8, "robots": False})
    world.crawl("fickle", {"urls": [world.link("/fickle"), world.link("/landed")], "follow": False})


def _replay(world: World) -> None:
    job = world.jobs["fickle"]
    before = world.explain("fickle", "/fickle")
    assert (before.verdict, before.steps[-1].detail["possible"]) == (Verdict.FAILED, True)
    assert world.shoal.run("dead", job, "--replay").code == 0
    assert world.shoal.run("resume", job, "--workers", "1", "--quiet").code == 0


def _leave_under_way(world: World, stack: ExitStack) -> None:
    """Jobs that wait, each in its own way, and a worker in whose hands one is."""
    world.platform.control.pause(world.submit("paused", "/allowed/1", "/allowed/2"))
    world.platform.control.cancel(world.submit("cancelled", "/allowed/1", "/allowed/2"))
    world.submit("unserved", "/allowed/1", engine="browser")
    world.submit("open", "/allowed/1", open=True, hosts=[world.site.url.split("/")[2]], follow=True)
    world.submit("leased", "/hang", robots=False, timeout=60)
    world.submit("resting", "second/rest", "second/behind", robots=False, parallel=1, rate=1)
    stack.enter_context(world.shoal.running("worker", "--queues", "http.batch", "--concurrency", "1"))
    wait_until(lambda: world.explain("leased", "/hang").verdict is Verdict.LEASED, within=timedelta(seconds=30))
    wait_until(lambda: world.explain("resting", "second/rest").verdict is Verdict.DELAYED, within=timedelta(seconds=30))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Generator[World]:
    folder: Path = tmp_path_factory.mktemp("explain")
    with ExitStack() as stack:
        shoal = replace(stack.enter_context(a_home(folder)), extra=ENVIRONMENT)
        platform = stack.enter_context(open_platform(shoal.settings, rings=False))
        site = stack.enter_context(serve(StatusSite(SITE), HOSTS))
        gazette = stack.enter_context(serve(Gazette()))
        shop = stack.enter_context(serve(Bookshop(slow_seconds=0.1)))
        made = World(shoal, platform, site, gazette, shop, {})
        _crawl_to_the_end(made)
        _replay(made)
        _leave_under_way(made, stack)
        yield made
        for job in ("leased", "resting", "open", "unserved"):
            platform.control.cancel(made.jobs[job])


@dataclass(frozen=True, slots=True)
class Case:
    """A URL of a job, and what is to be said about it."""

    job: str
    target: str
    verdict: Verdict
    step: str
    """The name of a step that must be there."""
    says: str
    """Words of its reason."""
    certain: bool = True


V = Verdict
CASES = {
    "a start URL": Case("whole", "/", V.STORED, "submitted", "submitted alone"),
    "a link, at its depth": Case("whole", "/deep/2", V.STORED, "found", "/deep/1 at depth 2"),
    "the same by its canonical form": Case("whole", "/%7efolk/?#top", V.STORED, "canonical", "/~folk/"),
    "another page counts, the page says": Case("whole", "/named", V.STORED, "canonical_link", "/landed"),
    "it says what another one says": Case("whole", "/story?again", V.STORED, "duplicate", "/story says"),
    "a redirect": Case("whole", "/go", V.REDIRECTED, "target", "which is stored"),
    "where a redirect led to": Case("whole", "/landed", V.STORED, "found", "redirected from"),
    "a redirect out of scope": Case("whole", "/out", V.REDIRECTED, "target", "elsewhere.invalid is another host"),
    "a redirect to what is denied": Case("whole", "/moved-to-denied", V.REDIRECTED, "target", "deny: /deny/"),
    "beyond the depth": Case("whole", "/deep/3", V.NEVER_SEEN, "depth", "up to depth 2"),
    "a deny rule": Case("whole", "/deny/1", V.FILTERED, "filtered", "deny: /deny/", certain=False),
    "a deny rule, without any link": Case("whole", "/never-linked", V.FILTERED, "filtered", "-linked", certain=False),
    "another host": Case("whole", "http://elsewhere.invalid/x", V.FILTERED, "filtered", "another host", certain=False),
    "robots.txt": Case("whole", "/private/1", V.ROBOTS, "robots", "line 5: Disallow: /private/, in the group for *"),
    "noindex": Case("whole", "/noindex", V.ROBOTS, "robots", "refused by the page itself"),
    "gone": Case("whole", "/gone", V.FAILED, "given_up", "http_404, tried once"),
    "gone, and what to do": Case("whole", "/gone", V.FAILED, "replay", "--replay --reason http_404"),
    "busy, then fetched": Case("whole", "/busy", V.STORED, "asked", "request 1: HTTP 503"),
    "at its second attempt": Case("whole", "/busy", V.STORED, "fetched", "at attempt 2"),
    "too large": Case("whole", "/large", V.FAILED, "given_up", "too_large"),
    "no media type to read": Case("whole", "/picture.png", V.STORED, "unread", "image/png"),
    "JSON with an item in quarantine": Case("whole", "/data.json", V.STORED, "items", "v1: 0, 1 in quarantine"),
    "where it is stored": Case("whole", "/landed", V.STORED, "archived", ".warc.gz at "),
    "never seen": Case("whole", "/nobody/links/here", V.NEVER_SEEN, "robots", "no rule against it"),
    "never seen, robots would refuse": Case("whole", "/private/9", V.NEVER_SEEN, "robots", "refuses it: line 5"),
    "never seen, and it is over": Case("whole", "/nobody", V.NEVER_SEEN, "ended", "the job is finished"),
    "no allow rule matches": Case("narrow", "/other/1", V.FILTERED, "filtered", "no pattern of allow", certain=False),
    "beyond the budget": Case("narrow", "/allowed/4", V.FILTERED, "filtered", "the budget pages: 2", certain=False),
    "an entry of a sitemap": Case("sitemaps", "gazette/2026/1", V.STORED, "found", "/maps/recent.xml at depth 1"),
    "a sitemap of robots.txt": Case("sitemaps", "gazette/maps/index.xml", V.STORED, "found", "announced by"),
    "not changed since": Case("sitemaps", "gazette/2025/1", V.FILTERED, "filtered", "not changed since", certain=False),
    "the question for sitemaps": Case("sitemaps", "gazette/robots.txt", V.FILTERED, "filtered", "no page of the job"),
    "a spider's request": Case("spider", "shop/books/nothing", V.FILTERED, "filtered", "budget pages", certain=False),
    "a dead letter that was replayed": Case("fickle", "/fickle", V.STORED, "replayed", "tried once more"),
    "in a paused job": Case("paused", "/allowed/2", V.QUEUED, "paused", "shoal resume"),
    "its place in a queue": Case("paused", "/allowed/2", V.QUEUED, "queued", "1 of 2 before it"),
    "in a cancelled job": Case("cancelled", "/allowed/2", V.DROPPED, "dropped", "when the job was cancelled"),
    "no worker serves its queue": Case("unserved", "/allowed/1", V.QUEUED, "worker", "serves browser.batch"),
    "in a worker's hands": Case("leased", "/hang", V.LEASED, "leased", "leased by "),
    "it waits for a retry": Case("resting", "second/rest", V.DELAYED, "delayed", "for attempt 2"),
    "what was answered before that": Case("resting", "second/rest", V.DELAYED, "asked", "request 1: HTTP 503"),
    "its host rests": Case("resting", "second/behind", V.QUEUED, "throttled", "held until"),
    "never seen by an open job": Case("open", "/new", V.NEVER_SEEN, "open", "shoal add"),
    "never seen, robots.txt unknown": Case("open", "gazette/x", V.NEVER_SEEN, "filtered", "another host"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_url_is_explained(world: World, name: str) -> None:
    case = CASES[name]
    found = world.explain(case.job, case.target)
    told = json.dumps(found.as_json, indent=1)
    assert (found.verdict, found.certain) == (case.verdict, case.certain), told
    assert any(case.says in step.reason for step in found.steps if step.name == case.step), told


def test_a_spiders_page_names_its_callback(world: World) -> None:
    pages = world.platform.pages.pages(world.jobs["spider"])
    shelf = next(row for row in pages if row.callback == "shelf")
    found = world.explain("spider", shelf.url)
    assert "for the spider's callback shelf" in found.steps[0].reason
    assert found.steps[0].detail["page"] == world.shop.url


def test_the_lease_names_a_process_of_the_living_worker(world: World) -> None:
    (step,) = (step for step in world.explain("leased", "/hang").steps if step.name == "leased")
    names = [beat.name for beat in world.platform.watch.workers()]
    assert any(str(step.detail["holder"]).startswith(f"{name}:") for name in names), (step, names)


def test_the_command_tells_people_and_programs(world: World) -> None:
    job, url = world.jobs["whole"], world.link("/private/1")
    told = world.shoal.run("explain", job, url)
    assert told.code == 0, told.err
    assert told.out.splitlines()[1].startswith("robots: refused by robots.txt: line 5")
    programs = world.shoal.run("explain", job, url, "--json").json
    assert (programs["verdict"], programs["steps"][0]["name"]) == ("robots", "found")
    assert programs == json.loads(json.dumps(world.explain("whole", "/private/1").as_json))


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("nosuchjob", "http://a.example/"), 1, "there is no job"),
        (("{whole}", "a.example/page"), 2, "did you mean"),
        (("{whole}", "ftp://a.example/"), 2, "only http and https"),
    ],
)
def test_what_cannot_be_explained_is_an_error(world: World, args: tuple[str, str], code: int, says: str) -> None:
    done = world.shoal.run("explain", *(arg.format(**world.jobs) for arg in args))
    assert (done.code, says in done.err) == (code, True), done.err


def test_status_shows_the_equation(world: World) -> None:
    shown = world.shoal.run("status", world.jobs["whole"]).out
    totals = world.shoal.status(world.jobs["whole"])["totals"]
    assert f"{totals['discovered']} discovered = {totals['fetched']} fetched + {totals['failed']} failed" in shown
    assert totals["robots"] == 2
    assert totals["discovered"] == sum(count for name, count in totals.items() if name != "discovered")
