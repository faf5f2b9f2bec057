"""JSON answers that are not quite JSON: what can be kept is, and what cannot be read is told."""

from __future__ import annotations

import json

from tests.command import Shoal
from tests.site.reply import NOT_FOUND, Reply, plain
from tests.site.server import serve

_JSON = (("Content-Type", "application/json"),)
_PAGES = {
    "/half": Reply(200, _JSON, rb'{"items": [{"name": "\ud83d", "n": 1}, {"name": "whole", "n": 1e400}]}'),
    "/broken": Reply(200, _JSON, b'{"items": [{"name": "cut'),
    "/empty": Reply(200, _JSON, b'{"items": []}'),
}


class Api:
    """Answers of which one is not strict, one is cut short, and one has nothing."""

    def respond(self, target: str, _hits: int) -> Reply:
        return plain("User-agent: *\nDisallow:\n") if target == "/robots.txt" else _PAGES.get(target, NOT_FOUND)


def test_half_emoji_are_kept_and_a_broken_answer_is_told_in_status_and_by_try(shoal: Shoal) -> None:
    fields = ("--each", "json:items", "--field", "name=name", "--field", "n=n")
    with serve(Api()) as site:
        links = [site.link(path) for path in _PAGES]
        done = shoal.run("scrape", *links, *fields, "--workers", "1", "-o", "-")
        assert done.code == 0, done.err
        assert sorted(done.records, key=lambda record: str(record["name"])) == [
            {"url": links[0], "name": "whole", "n": None},
            {"url": links[0], "name": "\ufffd", "n": 1},
        ]
        job = json.loads(shoal.run("jobs", "--json").out)[0]["job"]
        assert shoal.status(job)["reasons"]["done:json_unreadable"] == 1
        broken = shoal.run("try", links[1], *fields)
        assert "application/json, and no JSON that can be read" in broken.err
        empty = shoal.run("try", links[2], *fields)
        assert "--each has found nothing in this JSON answer" in empty.err
        unasked = shoal.run("try", links[2], "--field", "title=h1")
        assert "take from it with --field name=json:" in unasked.err
