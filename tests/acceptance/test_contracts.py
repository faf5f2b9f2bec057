"""Contracts from a job file to the terminal, with real workers."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command import Shoal
from tests.site.server import Server

JOB = """
name: books
urls: ["{url}"]
pages: 40
rate: unlimited
allow: [/books/, /category/]
fields: {{title: h1, price: .price}}
contract:
  schema:
    type: object
    required: [price]
    properties: {{price: {{type: string, pattern: "^£"}}}}
"""


def test_items_that_break_the_contract_are_in_quarantine_and_the_others_are_results(
    shoal: Shoal, bookshop: Server, tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB.format(url=bookshop.url))
    done = shoal.run("crawl", "-j", str(job), "--workers", "1", "-o", "-")
    assert done.code == 0, done.err
    assert done.records
    assert all(record["price"].startswith("£") for record in done.records)
    job_id: str = json.loads(shoal.run("jobs", "--json").out)[0]["job"]
    broken = shoal.run("quarantine", job_id).records
    assert broken
    assert all("price" in record["reasons"][0] for record in broken)
    assert not {record["url"] for record in broken} & {record["url"] for record in done.records}
    fields = shoal.run("fields", job_id, "--json").json
    assert (fields["items"], fields["quarantined"]) == (len(done.records), len(broken))
    assert fields["fields"]["price"]["fill_rate"] == 1.0
    shown = shoal.run("fields", job_id, "--hosts")
    assert "price" in shown.out
    assert f"shoal quarantine {job_id}" in shown.err
    assert "contract broken" in shoal.run("status", job_id).out
    again = shoal.run("extract", job_id, "--field", "price=.price", "--workers", "1", "--json")
    assert again.code == 0, again.err
    assert (again.json["items"], again.json["quarantined"]) == (len(done.records), 0), (
        "pages without a price have no item"
    )
    other = shoal.run("extract", job_id, "--field", "title=h1", "--workers", "1")
    assert "v3 done: 0 items, " in other.err
    assert " in quarantine, from " in other.err
    assert f"shoal quarantine {job_id} --version v3" in other.err
