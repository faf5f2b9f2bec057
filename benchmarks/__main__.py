"""Runs the benchmarks: `python -m benchmarks [GROUP] [--rounds 3] [--only NAME]… [--quick]`."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from benchmarks import group, latency, machine, memory, process, quota, server, site, statements, table
from benchmarks.api import group as api
from benchmarks.browser import group as browser
from benchmarks.data import group as data
from benchmarks.hostile import group as hostile
from benchmarks.launch import PAGE_KB, Contender, left_out
from benchmarks.lineup import CONTENDERS, SIZED
from benchmarks.measure import Course, measure
from benchmarks.over_time import group as over_time
from benchmarks.politeness import group as politeness
from benchmarks.result import Failure, Reading, Results, Row

QUICK_PAGES = 1_000
SAME_SITE_TIMEOUT = timedelta(minutes=15)
FIGURES = {"latency": latency.measure, "memory": memory.measure, "statements": statements.measure}
"""What is measured beside the contenders when all of these are asked for."""
GROUPS = {
    "crawl": [contender.name for contender in CONTENDERS],
    "api": [*api.BENCHMARKS],
    "politeness": [*politeness.NAMES],
    "hostile": [*hostile.BENCHMARKS],
    "browser": [*browser.BENCHMARKS],
    "data": [*data.BENCHMARKS],
    "over_time": [*over_time.BENCHMARKS],
}


def main() -> int:
    """Measure all that was asked for, show the tables and save them."""
    options = _options()
    process.exit_on_term()
    wanted = _wanted(options)
    crawls = _crawls(options, wanted)
    api_rows, failures = _group(api.BENCHMARKS, wanted, options)
    polite_rows, more_failures = _group(politeness.benchmarks(options.seconds), wanted, options)
    hostile_rows, hostile_failures = _group(hostile.BENCHMARKS, wanted, options)
    browser_rows, last_failures = _group(browser.BENCHMARKS, wanted, options)
    data_rows, data_failures = _group(data.BENCHMARKS, wanted, options)
    time_rows, time_failures = _group(over_time.BENCHMARKS, wanted, options)
    crawl_failures = [one for one in (*crawls.found, *crawls.sized, *crawls.failures) if isinstance(one, Failure)]
    results = Results(
        readings=tuple(one for one in crawls.found if isinstance(one, Reading)),
        sized=tuple(one for one in crawls.sized if isinstance(one, Reading)),
        failures=(
            *(*crawl_failures, *failures, *more_failures, *hostile_failures, *last_failures, *data_failures),
            *time_failures,
        ),
        rows=tuple(crawls.rows),
        api_rows=tuple(api_rows),
        polite_rows=tuple(polite_rows),
        hostile_rows=tuple(hostile_rows),
        browser_rows=tuple(browser_rows),
        data_rows=tuple(data_rows),
        time_rows=tuple(time_rows),
    )
    # Saved first: a closed terminal must not cost the results. A quick run, or one of a group, must not replace
    # a whole one.
    name = "quick" if options.quick else "latest"
    table.save(results, machine.describe(), name=f"{name}-{options.group}" if options.group else name)
    table.show(results)
    return 1 if results.failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("group", nargs="?", choices=[*GROUPS], help="one group of benchmarks (all)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each contender crawls (3)")
    parser.add_argument("--pages", type=int, default=20_000, help="pages of the site (20000)")
    parser.add_argument("--size", type=int, choices=[*site.SIZES], help="kilobytes of a page (25, and a table of all)")
    names = [name for group in GROUPS.values() for name in group]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=60.0, help="how long `limits` watches its hosts (60)")
    parser.add_argument(
        "--same-site", action="store_true", help="give slow contenders all pages, too: memory is compared"
    )
    parser.add_argument("--quick", action="store_true", help="one round on a small site, to see that all works")
    return parser.parse_args()


def _wanted(options: argparse.Namespace) -> list[str]:
    groups = [GROUPS[options.group]] if options.group else GROUPS.values()
    return [name for group in groups for name in group if not options.only or name in options.only]


def _group(
    benchmarks: Mapping[str, group.Measure], wanted: Sequence[str], options: argparse.Namespace
) -> tuple[list[Row], list[Failure]]:
    return group.run(benchmarks, [name for name in benchmarks if name in wanted], quick=options.quick)


@dataclass(frozen=True, slots=True)
class Crawls:
    """What the group `crawl` has measured."""

    found: Sequence[Reading | Failure] = ()
    sized: Sequence[Reading | Failure] = ()
    """On pages of other sizes."""
    rows: Sequence[Row] = ()
    """Of what is no crawl: how long people wait, what a URL takes in Redis, how often the database is asked."""
    failures: Sequence[Failure] = ()
    """Of the same."""


def _crawls(options: argparse.Namespace, wanted: Sequence[str]) -> Crawls:
    """The group `crawl`: contenders; when all are asked for, other sizes too, and what is no crawl."""
    contenders = _contenders(options, wanted)
    if not contenders:
        return Crawls()
    found = list(_run(contenders, options, options.size or PAGE_KB))
    if options.only:
        return Crawls(found)
    sized = [one for one in contenders if one.name in SIZED]
    others = [kb for kb in site.SIZES if kb != PAGE_KB] if options.size is None else []
    crawled = [one for kb in others for one in _run(sized, options, kb)]
    return Crawls(found, crawled, *group.run(FIGURES, [*FIGURES], quick=options.quick))


def _contenders(options: argparse.Namespace, wanted: Sequence[str]) -> list[Contender]:
    """Those that were asked for and can run here; one that was named must."""
    contenders = [contender for contender in CONTENDERS if contender.name in wanted]
    if options.same_site:
        contenders = [replace(contender, pages=None, timeout=SAME_SITE_TIMEOUT) for contender in contenders]
    missing = [line for contender in contenders if (line := _why_not(contender))]
    if missing and options.only:
        sys.exit("\n".join(missing))
    for line in missing:
        print(line, file=sys.stderr, flush=True)
    return [contender for contender in contenders if not _why_not(contender)]


def _why_not(contender: Contender) -> str:
    """Why it cannot run here; empty when it can."""
    if not contender.stack.is_here:
        return left_out(contender.name, contender.stack)
    if contender.cores is not None and not quota.can_limit():
        return f"{contender.name}: left out; it takes root, and control groups, to give it a share of the processors"
    return ""


def _run(contenders: Sequence[Contender], options: argparse.Namespace, kb: int) -> Iterator[Reading | Failure]:
    """Let all contenders crawl in turn, round after round, so that the machine's noise hits all alike."""
    rounds, pages = (1, min(options.pages, QUICK_PAGES)) if options.quick else (options.rounds, options.pages)
    sizes = {contender.name: contender.size(pages, quick=options.quick, kb=kb) for contender in contenders}
    with server.serve(sorted(set(sizes.values())), kb=kb) as sites:
        for number in range(1, rounds + 1):
            for contender in _rotated(contenders, number - 1):
                course = Course(sites, kb, sizes[contender.name], number)
                yield _tell(measure(contender, course), kb)


def _rotated(contenders: Sequence[Contender], by: int) -> list[Contender]:
    """Start each round with another contender, so that none always follows the same one."""
    by %= max(len(contenders), 1)
    return [*contenders[by:], *contenders[:by]]


def _tell(result: Reading | Failure, kb: int) -> Reading | Failure:
    said = f"{result.pages_per_second:,.0f} pages/s of {kb} KB" if isinstance(result, Reading) else "failed"
    print(f"round {result.round}: {result.contender}: {said}", file=sys.stderr, flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
