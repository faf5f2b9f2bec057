"""Rendered pages a second: Shoal, a new browser for each page, Crawlee; same pages, same browser, as many at once."""

import sys
from collections.abc import Sequence
from statistics import median

from benchmarks.browser import race
from benchmarks.browser.lineup import AT_ONCE, CONTENDERS, CRAWLEE, INCOGNITO, NEW, SHOAL, Contender
from benchmarks.launch import left_out
from benchmarks.result import Row
from shoal.render.lookup import find_browser

PAGES, PAGES_QUICK = 120, 8
ROUNDS, ROUNDS_QUICK = 3, 1
LEFT_OUT_QUICK = (INCOGNITO,)
BARS = {NEW: 4.0, CRAWLEE: 1.2}
Rounds = list[dict[str, race.Lap]]


def measure(quick: bool) -> list[Row]:
    """Round after round, each begun by another contender, so that the machine's noise hits all alike."""
    pages, rounds = (PAGES_QUICK, ROUNDS_QUICK) if quick else (PAGES, ROUNDS)
    contenders = _contenders(quick)
    executable = find_browser()
    laps: Rounds = []
    for number in range(rounds):
        laps.append({one.name: _run(one, pages, executable, quick=quick) for one in _rotated(contenders, number)})
    others = [one.name for one in contenders if one.name != SHOAL]
    return [*(_rate(one.name, laps) for one in contenders), *(_ratio(name, laps) for name in others)]


def _contenders(quick: bool) -> list[Contender]:
    """Those whose environment is here; of the others it is said that they are left out."""
    wanted = [one for one in CONTENDERS if not (quick and one.name in LEFT_OUT_QUICK)]
    for one in wanted:
        if not one.stack.is_here:
            print(f"rendering: {left_out(one.name, one.stack)}", file=sys.stderr, flush=True)
    return [one for one in wanted if one.stack.is_here]


def _run(contender: Contender, pages: int, executable: str, *, quick: bool) -> race.Lap:
    lap = race.run(contender, pages if quick else int(pages * contender.share), executable)
    said = f"{lap.pages_per_second:.2f} pages/s, {lap.peak_bytes / 1e6:.0f} MB"
    print(f"rendering: {contender.name}: {said}", file=sys.stderr, flush=True)
    return lap


def _rotated(contenders: Sequence[Contender], by: int) -> list[Contender]:
    by %= len(contenders)
    return [*contenders[by:], *contenders[:by]]


def _rate(name: str, laps: Rounds) -> Row:
    mine = [lap[name] for lap in laps]
    rates = [lap.pages_per_second for lap in mine]
    peak = median(lap.peak_bytes for lap in mine) / 1e6
    spread = f"{min(rates):.2f}–{max(rates):.2f}"
    note = f"{spread}; peak {peak:,.0f} MB; {mine[0].pages} pages"
    return Row(f"{name}, {AT_ONCE} pages at once", median(rates), "pages/s", note)


def _ratio(name: str, laps: Rounds) -> Row:
    ratios = [lap[SHOAL].pages_per_second / lap[name].pages_per_second for lap in laps]
    note = f"{min(ratios):.2f}–{max(ratios):.2f}, within each of {len(laps)} rounds"
    return Row(f"rendering: {SHOAL} against {name}", median(ratios), "×", note, at_least=BARS.get(name))
