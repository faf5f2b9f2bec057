"""The range: every way to write a forbidden address, over every path out, with canaries at the end of each.

Runs inside namespaces of its own, with one real crawl by the command and real workers; prints as JSON who was asked
and what became of each URL.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from shoal.core.url import Base
from tests.canary import Canary, canary
from tests.command import Shoal
from tests.range.name_server import Answers, name_server
from tests.range.network import bring_up, use_name_server
from tests.site.generated import StatusSite
from tests.site.reply import Reply, page, redirect
from tests.site.server import serve
from tests.waiting import wait_until

PUBLIC = ("45.33.32.156", "45.33.32.157")
"""Addresses that are on the internet, as far as anybody can tell in here."""
PRIVATE = (
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200"),
    *("198.18.0.1", "192.0.2.1", "203.0.113.1", "168.63.129.16", "192.0.0.192", "240.0.0.1"),
    *("::1", "fd00:ec2::254", "fd12:3456::1", "2001:db8::1", "64:ff9b::a00:1", "2002:a00:1::1", "::10.0.0.1"),
)
NAME_SERVER = "127.0.0.53"
PORT = 80

HOSTS = (
    *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "0", "0.0.0.0", "[::]", "[::1]"),
    *("10.0.0.1", "012.0.0.1", "167772161", "172.16.0.1", "192.168.1.1", "192.168.257", "169.254.169.254"),
    *("0xa9fea9fe", "100.64.0.1", "100.100.100.200", "198.18.0.1", "192.0.2.1", "203.0.113.1", "168.63.129.16"),
    *(
        "192.0.0.192",
        "240.0.0.1",
        "①②⑦.⓪.⓪.①",
        "１２７.0.0.1",
        "127。0。0。1",
        "%31%30.0.0.1",
        "localhost",
        "LOCALHOST.",
    ),
    *("[::ffff:127.0.0.1]", "[::ffff:a00:1]", "[::127.0.0.1]", "[64:ff9b::10.0.0.1]", "[2002:a00:1::1]"),
    *(
        "[fd00:ec2::254]",
        "[fd12:3456::1]",
        "[2001:db8::1]",
        "inside.test",
        "twofold.test",
        "six.test",
        "shop.localhost",
    ),
)
"""Ways to write the canaries' addresses, and names that lead there."""
TRICKS = (
    *("http://127.0.0.1\\@site.test/", "http:\\\\127.0.0.1/", "http:/\\10.0.0.1/", "//10.0.0.1/", "\\\\10.0.0.1\\x"),
    *("http://10.0.0.1#@site.test/", "http://10.0.0.1?@site.test/", "http://site.test@10.0.0.1/"),
    *("http://site.test:80@10.0.0.1/", "ht\ttp://10.0.0.1/", "http://10.0\t.0.1/", "\x01http://10.0.0.1/"),
    *("file:///etc/passwd", "gopher://127.0.0.1:80/", "ftp://127.0.0.1/", "dict://127.0.0.1:80/", "data:text/html,x"),
    *("javascript:alert(1)", "ws://127.0.0.1/", "unix:/tmp/x", "http+unix://%2Ftmp%2Fx/"),
)
REBINDS = 60

NAMES: Mapping[str, Answers] = {
    "site.test": ([PUBLIC[0]],),
    "mixed.test": ([PUBLIC[0], "10.0.0.1"],),
    "inside.test": (["10.0.0.1"],),
    "twofold.test": (["10.0.0.1", "fd12:3456::1"],),
    "six.test": (["fd00:ec2::254"],),
    "shop.localhost": (["127.0.0.1"],),
    "robots.test": ([PUBLIC[1]],),
    **{
        f"rebind{number}.test": ([PUBLIC[0]], ["10.0.0.1"], ["169.254.169.254", "fd00:ec2::254"])
        for number in range(REBINDS)
    },
    **{f"turn{number}.test": (["10.0.0.1"], [PUBLIC[0]]) for number in range(REBINDS)},
}


def _site() -> dict[str, list[Reply]]:
    """Redirects to every forbidden place, and a page that links to them all."""
    places = [*(f"http://{host}/" for host in HOSTS), *TRICKS]
    links = "".join(f'<a href="{place}">x</a>' for place in places)
    return {
        "/": [page(links)],
        "/robots.txt": [Reply(404)],
        "/page": [page("nothing")],
        **{f"/to/{number}": [redirect(place.encode().decode("latin-1"))] for number, place in enumerate(places)},
    }


def _submitted() -> list[str]:
    redirects = [f"http://site.test/to/{number}" for number in range(len(HOSTS) + len(TRICKS))]
    names = ["inside", "twofold", "six", "mixed", "robots"]
    return [
        "http://site.test/",
        *redirects,
        *(f"http://{name}.test/page" for name in names),
        *(f"http://rebind{number}.test/page" for number in range(REBINDS)),
        *(f"http://turn{number}.test/page" for number in range(REBINDS)),
    ]


def _refusal(shoal: Shoal) -> dict[str, str | int]:
    """What somebody is told who submits a name that leads inside."""
    done = shoal.run("scrape", "http://inside.test/")
    return {"code": done.code, "err": done.err}


def _crawl(shoal: Shoal, folder: Path) -> dict[str, str]:
    """URL → status, or reason of the dead letter."""
    done = shoal.run(
        *("crawl", "-j", str(_job_file(folder)), "--rate", "unlimited", "--retries", "0", "-q"), timeout_s=120
    )
    (job,) = [row["job"] for row in json.loads(shoal.run("jobs", "--json").out)]
    pages, dead = shoal.run("results", job, "--pages").records, shoal.run("dead", job).records
    outcomes = {row["url"]: str(row["status"]) for row in pages} | {row["url"]: row["reason"] for row in dead}
    return {"exit": str(done.code), **outcomes}


def _job_file(folder: Path) -> Path:
    job = folder / "job.yaml"
    start = Base("http://site.test/")
    meant = [url.host for host in HOSTS if (url := start.join(f"http://{host}/"))]
    job.write_text(json.dumps({"urls": _submitted(), "hosts": sorted({*meant, *NAMES})}))
    return job


def proof(bird: Canary) -> list[str]:
    """The canaries are alive: each sings when it is asked. Then it is quiet again."""
    for address in PRIVATE:
        socket.create_connection((address, PORT), timeout=5).close()
    wait_until(lambda: len(bird.asked) == len(PRIVATE))
    sung, bird.asked = bird.asked, []
    return sung


def main() -> None:
    """Everything, once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bring_up([*PUBLIC, *(address for address in PRIVATE if address not in ("127.0.0.1", "::1"))])
        use_name_server(NAME_SERVER, folder)
        to_robots = {"/robots.txt": [redirect("http://10.0.0.1/robots.txt")], "/page": [page("never seen")]}
        with (
            canary(*PRIVATE, port=PORT) as bird,
            serve(StatusSite(_site()), [PUBLIC[0]], port=PORT, isolated=True) as site,
            serve(StatusSite(to_robots), [PUBLIC[1]], port=PORT, isolated=True),
            name_server(NAME_SERVER, NAMES) as names,
        ):
            sung = proof(bird)
            shoal = Shoal(folder / "home", (("SHOAL_EGRESS_ALLOW", ""), ("SHOAL_ADDRESS_PARALLEL", "50")))
            told = {"refusal": _refusal(shoal), "outcomes": _crawl(shoal, folder)}
            counts = {"hits": len(site.hits), "lookups": sum(names.asked.values())}
            json.dump({"sung": sung, "asked": bird.asked, **counts, **told}, sys.stdout)


if __name__ == "__main__":
    main()
