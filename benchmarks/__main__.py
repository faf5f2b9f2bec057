"""Runs the benchmarks: `python -m benchmarks [GROUP] [--rounds 3] [--only NAME]… [--quick]`."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import group, latency, machine, memory, process, server, table
from benchmarks.api import group as api
from benchmarks.browser import group as browser
from benchmarks.data import group as data
from benchmarks.hostile import group as hostile
from benchmarks.lineup import CONTENDERS, Contender
from benchmarks.measure import measure
from benchmarks.over_time import group as over_time
from benchmarks.politeness import group as politeness
from benchmarks.result import Failure, Reading, Results, Row

QUICK_PAGES = 1_000
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
    found, rows = _crawls(options, wanted)
    api_rows, failures = _group(api.BENCHMARKS, wanted, options)
    polite_rows, more_failures = _group(politeness.benchmarks(options.seconds), wanted, options)
    hostile_rows, hostile_failures = _group(hostile.BENCHMARKS, wanted, options)
    browser_rows, last_failures = _group(browser.BENCHMARKS, wanted, options)
    data_rows, data_failures = _group(data.BENCHMARKS, wanted, options)
    time_rows, time_failures = _group(over_time.BENCHMARKS, wanted, options)
    crawl_failures = [one for one in found if isinstance(one, Failure)]
    results = Results(
        readings=tuple(one for one in found if isinstance(one, Reading)),
        failures=(
            *(*crawl_failures, *failures, *more_failures, *hostile_failures, *last_failures, *data_failures),
            *time_failures,
        ),
        rows=tuple(rows),
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
    names = [name for group in GROUPS.values() for name in group]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--seconds", type=float, default=60.0, help="how long `limits` watches its hosts (60)")
    parser.add_argument("--quick", action="store_true", help="one round on a small site, to see that all works")
    return parser.parse_args()


def _wanted(options: argparse.Namespace) -> list[str]:
    groups = [GROUPS[options.group]] if options.group else GROUPS.values()
    return [name for group in groups for name in group if not options.only or name in options.only]


def _group(
    benchmarks: Mapping[str, group.Measure], wanted: Sequence[str], options: argparse.Namespace
) -> tuple[list[Row], list[Failure]]:
    return group.run(benchmarks, [name for name in benchmarks if name in wanted], quick=options.quick)


def _crawls(options: argparse.Namespace, wanted: Sequence[str]) -> tuple[list[Reading | Failure], list[Row]]:
    """The group `crawl`: contenders, and what is no crawl when all of them are measured."""
    contenders = [contender for contender in CONTENDERS if contender.name in wanted]
    rounds, pages = (1, min(options.pages, QUICK_PAGES)) if options.quick else (options.rounds, options.pages)
    sizes = {contender.name: contender.size(pages, quick=options.quick) for contender in contenders}
    found = list(_run(contenders, sizes, rounds)) if contenders else []
    return found, _figures(quick=options.quick) if len(contenders) == len(CONTENDERS) else []


def _run(contenders: Sequence[Contender], sizes: dict[str, int], rounds: int) -> Iterator[Reading | Failure]:
    """Let all contenders crawl in turn, round after round, so that the machine's noise hits all alike."""
    with server.serve(sorted(set(sizes.values()))) as urls:
        for number in range(1, rounds + 1):
            for contender in _rotated(contenders, number - 1):
                size = sizes[contender.name]
                yield _tell(measure(contender, url=urls[size], pages=size, number=number))


def _rotated(contenders: Sequence[Contender], by: int) -> list[Contender]:
    """Start each round with another contender, so that none always follows the same one."""
    by %= max(len(contenders), 1)
    return [*contenders[by:], *contenders[:by]]


def _tell(result: Reading | Failure) -> Reading | Failure:
    said = f"{result.pages_per_second:,.0f} pages/s" if isinstance(result, Reading) else "failed"
    print(f"round {result.round}: {result.contender}: {said}", file=sys.stderr, flush=True)
    return result


def _figures(*, quick: bool) -> list[Row]:
    """What is not a crawl: how long people wait, and what a URL takes in Redis."""
    print("measuring latency and memory", file=sys.stderr, flush=True)
    return [*latency.measure(quick), *memory.measure(quick)]


if __name__ == "__main__":
    sys.exit(main())
