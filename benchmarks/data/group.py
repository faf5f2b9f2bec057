"""The benchmarks of this group."""

from benchmarks import postgres
from benchmarks.data import again, content, export, fields
from benchmarks.group import Measure

BENCHMARKS: dict[str, Measure] = {
    "again": again.measure,
    "content": content.measure,
    "export": export.measure,
    "fields": fields.measure,
    "postgres": postgres.measure,
}
