"""The range, crossed: every forbidden place over every path by which somebody could send a fleet there.

Over the API, where nobody may reach the machine itself; inside namespaces of its own, with a real API and real workers.
Prints as JSON, path by path, which canaries were asked and what became of each place.
"""

from __future__ import annotations

import json
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from shoal.core.url import Base
from tests.canary import Canary, canary
from tests.command import Shoal, end
from tests.proxies import TestProxy, http_proxy, socks_proxy
from tests.range.__main__ import HOSTS, NAME_SERVER, NAMES, PORT, PRIVATE, PUBLIC, TRICKS, proof
from tests.range.name_server import Answers, name_server
from tests.range.network import bring_up, use_name_server
from tests.site.generated import StatusSite
from tests.site.reply import Reply, Responder, page, redirect
from tests.site.server import serve
from tests.waiting import wait_until

PLACES = (*(f"http://{host}/" for host in HOSTS), *TRICKS)
ENDS = timedelta(minutes=2)
HOOKS_AT_ONCE = 90
PROXIES = {"plain": ("http", http_proxy), "socks": ("socks5", socks_proxy), "socksh": ("socks5h", socks_proxy)}
"""Pool of the operator → (scheme, what runs there); the proxies would go anywhere."""
LEAD: Mapping[str, Answers] = {
    **NAMES,
    **{f"robots{number}.test": ([PUBLIC[1]],) for number in range(len(PLACES))},
    **{f"answer{number}.test": ([address],) for number, address in enumerate(PRIVATE)},
    **{f"answers{number}.test": ([address, PUBLIC[0]],) for number, address in enumerate(PRIVATE)},
}

ROBOTS = [f"http://robots{number}.test/page" for number in range(len(PLACES))]
REDIRECTS = [f"http://site.test/to/{number}" for number in range(len(PLACES))]
MAPS = [f"http://site.test/map/{number}" for number in range(len(PLACES))]
TURNING = [f"http://rebind{number}.test/" for number in range(5)]
"""Names that lead elsewhere when they are looked up again."""
ANSWERS = [f"http://{word}{number}.test/page" for word in ("answer", "answers") for number in range(len(PRIVATE))]


class Site:
    """Links to all places on one page, a redirect and an index of sitemaps to each, and at `robotsN.test` a robots.txt
    that is elsewhere."""

    def respond(self, target: str, hits: int) -> Reply:
        return self.at("http://site.test").respond(target, hits)

    def at(self, origin: str) -> Responder:
        host = origin.removeprefix("http://").partition(".")[0]
        robots = Reply(404)
        if host.startswith("robots") and host != "robots":
            robots = _to(PLACES[int(host.removeprefix("robots"))])
        links = "".join(f'<a href="{place}">x</a>' for place in PLACES)
        ways = {f"/to/{number}": [_to(place)] for number, place in enumerate(PLACES)}
        ways |= {f"/map/{number}": [_map(place)] for number, place in enumerate(PLACES)}
        return StatusSite({"/": [page(links)], "/page": [page("x")], "/robots.txt": [robots], **ways})


def _map(place: str) -> Reply:
    """An index, so that what it names is fetched as a part of it."""
    text = f"<sitemapindex><sitemap><loc>{escape(place)}</loc></sitemap></sitemapindex>"
    return Reply(200, (("Content-Type", "application/xml"),), text.encode("utf-8", "replace"))


def _to(place: str) -> Reply:
    return redirect(place.encode().decode("latin-1"))


@dataclass(frozen=True, slots=True)
class Api:
    """Submits as a client would."""

    url: str

    def ask(self, path: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data, kind, method=method)
        try:
            answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60)
        except urllib.error.HTTPError as exc:
            answer = exc
        with answer:
            return answer.status or 0, json.loads(answer.read() or b"null")

    def submit(self, *urls: str, **more: object) -> str:
        """The id of a job; or why there is none."""
        status, said = self.ask("jobs", {"urls": urls, "rate": "unlimited", "retries": 0, "timeout": 10, **more})
        return said["id"] if status == 202 else f"refused {status}: {said['detail']}"

    def try_hooks(self, places: Sequence[str]) -> list[str]:
        """Add each as a webhook and try it: why it was refused, when it was added or when something was sent."""
        said: list[str] = []
        for start in range(0, len(places), HOOKS_AT_ONCE):
            some = places[start : start + HOOKS_AT_ONCE]
            hooks = {place: self.ask("webhooks", {"url": place, "name": f"w{n}"}) for n, place in enumerate(some)}
            added = {place: answer["id"] for place, (status, answer) in hooks.items() if status == 201}
            said += [f"refused {at} {told[1]['detail']}" for at, told in hooks.items() if told[0] != 201]
            tests = {place: self.ask(f"webhooks/{hook}/test", {})[1]["id"] for place, hook in added.items()}
            said += [f"refused {place} {self._why(message)}" for place, message in tests.items()]
            for hook in added.values():
                self.ask(f"webhooks/{hook}", method="DELETE")
        return said

    def _why(self, message: str) -> str:
        wait_until(lambda: bool(self._attempts(message)), within=ENDS)
        return self._attempts(message)[0]["reason"]

    def _attempts(self, message: str) -> list[dict[str, Any]]:
        return self.ask(f"webhook-deliveries/{message}")[1]["attempts"]

    def finish(self, jobs: list[str]) -> dict[str, str]:
        """URL → status, or reason of the dead letter; of those that were taken."""
        taken = [job for job in jobs if not job.startswith("refused")]
        wait_until(lambda: all(self._state(job) == "finished" for job in taken), within=ENDS)
        found: dict[str, str] = {}
        for job in taken:
            found |= {row["url"]: str(row["status"]) for row in self._rows(f"jobs/{job}/pages")}
            found |= {row["url"]: row["reason"] for row in self._rows(f"jobs/{job}/dead")}
        return found

    def _state(self, job: str) -> str:
        return self.ask(f"jobs/{job}")[1]["state"]

    def _rows(self, path: str) -> list[dict[str, Any]]:
        return self.ask(f"{path}?limit=1000")[1]["data"]


def _paths(api: Api) -> dict[str, Callable[[], list[str]]]:
    """Name → submits everything over this path, and tells the jobs."""
    start = Base("http://site.test/")
    hosts = sorted({*(url.host for place in PLACES if (url := start.join(place))), *LEAD})
    own = [f"http://{host}:{PORT}" for host in HOSTS]
    forms: list[Callable[[str], object]] = [
        lambda proxy: [proxy],
        lambda proxy: {"list": [proxy]},
        lambda proxy: {"template": proxy + "/{session}"},
    ]
    through = [*REDIRECTS, *ROBOTS, *ANSWERS]
    return {
        "start": lambda: [api.submit(place) for place in PLACES],
        "link": lambda: [api.submit("http://site.test/", hosts=hosts)],
        "redirect": lambda: [api.submit(*REDIRECTS, hosts=hosts)],
        "robots": lambda: [api.submit(*ROBOTS, hosts=hosts)],
        "sitemap": lambda: [
            api.submit(*MAPS, hosts=hosts),
            *(api.submit("http://site.test/page", hosts=hosts, sitemaps=[place]) for place in PLACES),
        ],
        "dns": lambda: [api.submit(*ANSWERS)],
        "webhook": lambda: api.try_hooks((*PLACES, *REDIRECTS, *ANSWERS, *TURNING)),
        "proxy": lambda: [api.submit("http://site.test/page", proxies=form(proxy)) for proxy in own for form in forms],
        **{
            f"through {pool}": lambda pool=pool: [api.submit("http://site.test/", *through, hosts=hosts, proxies=pool)]
            for pool in PROXIES
        },
    }


def _walk(api: Api, bird: Canary, passed: Callable[[], int]) -> dict[str, dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for name, submit in _paths(api).items():
        before = passed()
        jobs = submit()
        outcomes = api.finish(jobs)
        asked, bird.asked = bird.asked, []
        refused = [job for job in jobs if job.startswith("refused")]
        told[name] = {"asked": asked, "outcomes": outcomes, "refused": refused, "jobs": len(jobs)}
        told[name]["passed"] = passed() - before
    return told


def _run(folder: Path, stack: ExitStack) -> dict[str, Any]:
    bird = stack.enter_context(canary(*PRIVATE, port=PORT))
    stack.enter_context(serve(Site(), PUBLIC, port=PORT, isolated=True))
    stack.enter_context(name_server(NAME_SERVER, LEAD))
    proxies: dict[str, TestProxy] = {pool: stack.enter_context(make()) for pool, (_, make) in PROXIES.items()}
    urls = {pool: proxies[pool].url(scheme) for pool, (scheme, _) in PROXIES.items()}
    (folder / "pools.yaml").write_text(json.dumps({"pools": {pool: {"list": [url]} for pool, url in urls.items()}}))
    sung = proof(bird)
    settings = {"SHOAL_EGRESS_ALLOW": "", "SHOAL_ADDRESS_PARALLEL": "50"}
    settings["SHOAL_PROXIES_FILE"] = str(folder / "pools.yaml")
    up = Shoal(folder / "home", tuple(settings.items())).start("up", "--port", "0", "--json", "--workers", "1")
    stack.callback(end, up)
    assert up.stdout is not None
    api = Api(json.loads(up.stdout.readline())["url"])
    told = _walk(api, bird, lambda: sum(len(proxy.passed) for proxy in proxies.values()))
    bird.asked = []
    Shoal(folder / "open", (("SHOAL_EGRESS_ALLOW", "10.0.0.0/8"),)).run("scrape", "http://inside.test/", "-q")
    passed = sorted({way for proxy in proxies.values() for way in proxy.passed})
    return {"sung": sung, "paths": told, "open": bird.asked, "passed": passed}


def main() -> None:
    """Everything, once."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        bring_up([*PUBLIC, *(address for address in PRIVATE if address not in ("127.0.0.1", "::1"))])
        use_name_server(NAME_SERVER, folder)
        json.dump(_run(folder, stack), sys.stdout)


if __name__ == "__main__":
    main()
