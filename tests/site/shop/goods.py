"""What the shop sells, and how it tells its own scripts."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

from tests.site.reply import Reply

PRODUCTS = 200
ON_A_PAGE = 20
PAGES = PRODUCTS // ON_A_PAGE
_COLOURS = ("red", "green", "blue", "yellow")
_THINGS = ("lamp", "chair", "kettle", "rug", "clock")


def name_of(number: int) -> str:
    """Products are counted from 1."""
    return f"{_COLOURS[number % len(_COLOURS)]} {_THINGS[number % len(_THINGS)]} {number}"


def listed(numbers: range | list[int]) -> Reply:
    """Products, for a script."""
    goods = [{"number": each, "name": name_of(each), "price": f"{each}.50"} for each in numbers]
    return Reply(200, (("Content-Type", "application/json"),), json.dumps(goods).encode())


def answer(target: str) -> Reply | None:
    """`/api/products?page=N`, `/api/search?q=WORD`; None for all else."""
    parts = urlsplit(target)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    if parts.path == "/api/products":
        first = (int(query.get("page", "1")) - 1) * ON_A_PAGE + 1
        return listed(range(first, min(first + ON_A_PAGE, PRODUCTS + 1)))
    if parts.path == "/api/search":
        word = query.get("q", "")
        return listed([each for each in range(1, PRODUCTS + 1) if word and word in name_of(each)][:ON_A_PAGE])
    return None
