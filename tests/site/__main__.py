"""`python -m tests.site`: serves a sample site until SIGTERM, SIGINT or the death of the parent."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from tests.site.bookshop import Bookshop
from tests.site.generated import LinkedSite, SlowSite
from tests.site.hostile import cases as hostile
from tests.site.hostile.server import run as run_hostile
from tests.site.parent import die_with_parent
from tests.site.reply import Responder
from tests.site.server import LOCAL, Server, run
from tests.site.shop import Shop

_SITES = ("bookshop", "shop", "linked", "slow", "hostile")


def main() -> None:
    die_with_parent()
    options = _parser().parse_args()
    if options.site == "hostile":
        _run_hostile(options)
        return

    def announce(server: Server) -> None:
        print(f"serving {options.site} on {server.url}", flush=True)

    hosts: list[str] = options.host or list(LOCAL)
    run(_site(options), hosts, port=options.port, log=options.log, announce=announce)


def _run_hostile(options: Namespace) -> None:
    """Its own server: it must be able to say what no reply can."""
    named: list[str] = options.host or []
    pairs = [pair.partition("=") for pair in named]
    plan = {address: case for address, _, case in pairs} or hostile.PLAN

    def announce(port: int) -> None:
        print(f"serving hostile on http://{next(iter(plan))}:{port}/", flush=True)

    run_hostile(plan, options.folder, port=options.port, log=options.log, announce=announce)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m tests.site", description=__doc__)
    parser.add_argument("--site", choices=_SITES, default="bookshop")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--host", action="append", help="loopback address; may be repeated; hostile: ADDRESS=CASE")
    parser.add_argument("--log", type=Path, help="append the access log to this file as JSON lines")
    parser.add_argument("--folder", type=Path, default=Path(), help="hostile site: certificates go here")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=20_000, help="linked and slow sites")
    parser.add_argument("--links", type=int, default=80, help="linked site: links on a page")
    parser.add_argument("--size", type=int, default=25_000, help="linked site: bytes in a page")
    parser.add_argument("--delay", type=float, default=1.0, help="bookshop and slow sites: seconds")
    return parser


def _site(options: Namespace) -> Responder:
    if options.site == "linked":
        return LinkedSite(options.pages, options.links, options.size, seed=options.seed)
    if options.site == "slow":
        return SlowSite(options.delay, options.pages)
    if options.site == "shop":
        return Shop()
    return Bookshop(options.seed, slow_seconds=options.delay)


if __name__ == "__main__":
    main()
