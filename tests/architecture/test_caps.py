"""The guide to caps has every cap as it is."""

from __future__ import annotations

from pathlib import Path

import shoal.changes.pages as changed_pages
from shoal import log_file, log_limit, settings
from shoal.changes import text_diff
from shoal.cli import log_files
from shoal.core import (
    browsing,
    convert,
    expressions,
    field,
    happening,
    json_text,
    likeness,
    message_template,
    noise,
    output,
    pagination,
    pattern,
    reuse,
    rules,
    schedule,
    spidering,
    template,
    url,
    webhook,
)
from shoal.core.browsing import Browsing
from shoal.core.spec import JobSpec
from shoal.extract import allowance, apart, content, elements, linked, listing, metadata, next_page, outline, page
from shoal.fetch import decode, guard, line, lines, lookups, sessions
from shoal.frontier import whereabouts
from shoal.output import delivery, owner, runs
from shoal.render import actions, deadline, notebook, port, request_head, shots, traffic
from shoal.schedules import book
from shoal.spiders import follow, run
from shoal.store import earlier, schedule_runs, schedules, traces, webhook_messages
from shoal.webhooks import carrier, letters, mail, page_changes, postman, sources, webhooks
from shoal.worker import reader, reading
from tests.documents import table

CAPS = "docs/guides/caps.md"
RENDERING = (browsing, actions, deadline, notebook, port, request_head, shots, traffic)
LISTING = (elements, listing, next_page, pagination, template)
CONTENT = (content, likeness, metadata, outline)
TAKING = (field, allowance, linked, convert, expressions, json_text, rules)
FETCHING = (decode, guard, line, lines, lookups, sessions, reader, reading)
DELIVERING = (output, delivery, owner, runs)
SPIDERS = (spidering, follow, run)
LOGGING = (log_file, log_files, log_limit, settings)
TRACING = (traces, whereabouts)
WEBHOOKS = (happening, message_template, webhook, carrier, letters, mail, postman, sources, webhooks, webhook_messages)
SCHEDULES = (schedule, book, schedules, schedule_runs)
KNOWING_EARLIER = (reuse, earlier, noise, changed_pages, text_diff, page_changes)
MODULES = (
    *LOGGING,
    *LISTING,
    pattern,
    url,
    page,
    *CONTENT,
    *TAKING,
    apart,
    *FETCHING,
    *SPIDERS,
    *RENDERING,
    *DELIVERING,
    *TRACING,
    *WEBHOOKS,
    *SCHEDULES,
    *KNOWING_EARLIER,
)


def _value(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


def test_the_guide_has_every_cap_as_it_is() -> None:
    rows = [(set_by.strip("`"), value) for _, value, set_by, *_ in table(CAPS, "cap", "value", "set by")]
    assert len({name for name, _ in rows}) == len(rows)
    known = {name: value for module in MODULES for name, value in vars(module).items() if name.isupper()}
    of_jobs = {**Browsing.model_fields, **JobSpec.model_fields}
    known |= {name: each.default for name, each in of_jobs.items()}
    assert {name: _value(value) for name, value in rows} == {name: float(known[name]) for name, _ in rows}


def test_every_cap_on_pages_is_in_the_guide() -> None:
    text = (Path(__file__).parents[2] / CAPS).read_text(encoding="utf-8")
    modules = (*LISTING, pattern, page, *CONTENT, *TAKING, apart, decode, line, sessions, *RENDERING)
    caps = {name for module in modules for name in vars(module) if name.startswith("MAX_")}
    assert {name for name in caps if f"`{name}`" not in text} == set()
