"""The benchmarks of this group."""

from benchmarks.data import content, export, fields
from benchmarks.group import Measure

BENCHMARKS: dict[str, Measure] = {"content": content.measure, "export": export.measure, "fields": fields.measure}
