"""Nested fields and many items of a page, with types, from a job file to rows, by real workers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from shoal.extract.weight import LIGHT_BYTES, is_light
from tests.command import Shoal
from tests.site.reply import NOT_FOUND, Reply, page, plain
from tests.site.server import serve

JOB = """
urls: ["{url}"]
rate: unlimited
each: .card
fields:
  name: h2
  price: {{css: .price, type: money, locale: de}}
  added: {{css: time, type: date, locale: de}}
  rating: {{css: .rating, type: number, locale: de}}
  new: {{css: .new, as: exists}}
  seller: {{css: .seller, fields: {{name: b, "since:integer": i}}}}
  offers: {{each: li, fields: {{shop: b, link: a@href}}}}
"""
CARD = """<div class=card><h2>Chair {number}</h2><span class=price>1.234,50 €</span><time>12. März 2024</time>
<span class=rating>4,5</span><div class=seller><b>Anna</b> <i>1999</i></div>
<ul><li><b>North</b><a href="/north">x</a></li><li><b>South</b><a href="/south">x</a></li></ul></div>"""
NEXT = '<a href="/heavy">more</a>'
FILLER = f"<!-- {'x' * LIGHT_BYTES} -->"
"""A page with it is not light: it is read in the process apart."""


class Shop:
    """A page of two cards that is read in place, and one of three that is read apart."""

    def __init__(self) -> None:
        self._pages = {"/": page(NEXT + _cards(1, 2)), "/heavy": page(FILLER + _cards(3, 4, 5))}

    def respond(self, target: str, _hits: int) -> Reply:
        return plain("User-agent: *\nDisallow:\n") if target == "/robots.txt" else self._pages.get(target, NOT_FOUND)


def _cards(*numbers: int) -> str:
    return "\n".join(CARD.format(number=number) for number in numbers)


def test_nested_fields_of_many_items_come_as_rows_wherever_a_page_is_read(shoal: Shoal, tmp_path: Path) -> None:
    assert is_light((NEXT + _cards(1, 2)).encode())
    assert not is_light((FILLER + _cards(3, 4, 5)).encode())
    with serve(Shop()) as site:
        job = tmp_path / "job.yaml"
        job.write_text(JOB.format(url=site.url))
        done = shoal.run("crawl", "-j", str(job), "--workers", "1", "-o", "-")
        assert done.code == 0, done.err
        links = {"North": site.link("/north"), "South": site.link("/south")}
        expected: dict[str, Any] = {
            "price": {"amount": 1234.5, "currency": "EUR"},
            "added": "2024-03-12",
            "rating": 4.5,
            "new": False,
            "seller": {"name": "Anna", "since": 1999},
            "offers": [{"shop": name, "link": link} for name, link in links.items()],
        }
        places = {site.url: (1, 2), site.link("/heavy"): (3, 4, 5)}
    wanted = [{"url": url, "name": f"Chair {n}", **expected} for url, numbers in places.items() for n in numbers]
    assert sorted(done.records, key=lambda record: record["name"]) == wanted
    job_id = json.loads(shoal.run("jobs", "--json").out)[0]["job"]
    table = shoal.run("results", job_id, "-o", "-", "--format", "csv").out
    rows = sorted(csv.DictReader(io.StringIO(table)), key=lambda row: row["name"])
    assert list(rows[0]) == list(wanted[0])
    assert [json.loads(row["price"]) for row in rows] == [expected["price"]] * 5
    assert [json.loads(row["offers"]) for row in rows] == [expected["offers"]] * 5
    assert (rows[0]["added"], rows[0]["rating"]) == ("2024-03-12", "4.5")
