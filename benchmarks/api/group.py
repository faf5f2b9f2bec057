"""The benchmarks of this group."""

from benchmarks.api import busy, cursor, first_view, killed, listeners, stream, submit
from benchmarks.group import Measure

BENCHMARKS: dict[str, Measure] = {
    "submit": submit.measure,
    "stream": stream.measure,
    "busy": busy.measure,
    "listeners": listeners.measure,
    "cursor": cursor.measure,
    "killed": killed.measure,
    "first-view": first_view.measure,
}
