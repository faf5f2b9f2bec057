"""A site of 200 pages of which a quarter needs JavaScript, under a few patterns of addresses.

| pages | where | how they come |
|---|---|---|
| 10 | `/`, `/list/N` | plain; each links to pages of all kinds |
| 80 | `/article/N` | plain: long texts, with a script that counts readers |
| 30 | `/help?topic=N` | plain: short texts, with the same script |
| 20 | `/review/N` | plain, and linked from nowhere but a product that has been rendered |
| 30 | `/product/N` | an empty element that a script fills |
| 18 | `/offer/N` | as good as nothing, and the advice to enable JavaScript |
| 12 | `/story/N` | plain, but for two that a script fills |
"""

from __future__ import annotations

from tests.site.reply import NOT_FOUND, Reply, page, plain

LISTS, ARTICLES, TOPICS, REVIEWS, PRODUCTS, OFFERS, STORIES = 9, 80, 30, 20, 30, 18, 12
LATE_STORIES = (5, 9)
"""Those that a script fills."""
_COUNTER = "<script>window.readers = (window.readers || 0) + 1;</script>"
_SENTENCE = "The harbour was quiet that morning, and the boats lay where the tide had left them. "


class Mixed:
    """A `Responder`."""

    def __init__(self) -> None:
        plain_pages = {
            **{f"/article/{number}": _article(number) for number in range(1, ARTICLES + 1)},
            **{f"/help?topic={number}": _topic(number) for number in range(1, TOPICS + 1)},
        }
        rendered = {
            **{f"/product/{number}": _product(number) for number in range(1, PRODUCTS + 1)},
            **{f"/offer/{number}": _offer(number) for number in range(1, OFFERS + 1)},
        }
        stories = {f"/story/{number}": _story(number) for number in range(1, STORIES + 1)}
        reviews = {f"/review/{number}": _article(number, "Review") for number in range(1, REVIEWS + 1)}
        linked = [*plain_pages, *rendered, *stories]
        lists = {f"/list/{number}": _list(number, linked[number - 1 :: LISTS]) for number in range(1, LISTS + 1)}
        self._pages = {"/": _list(0, list(lists)), **lists, **plain_pages, **rendered, **stories, **reviews}
        self.targets = frozenset(self._pages)
        self.need_browser = frozenset(rendered) | {f"/story/{number}" for number in LATE_STORIES}

    def respond(self, target: str, _hits: int) -> Reply:
        if target == "/robots.txt":
            return plain("User-agent: *\nDisallow:\n")
        return self._pages.get(target, NOT_FOUND)


def _whole(title: str, body: str) -> Reply:
    return page(f'<!doctype html>\n<html lang="en"><head><title>{title}</title></head><body>{body}</body></html>\n')


def _list(number: int, targets: list[str]) -> Reply:
    links = "\n".join(f'<li><a href="{target}">{target}</a></li>' for target in targets)
    return _whole(f"List {number}", f"<h1>List {number}</h1><ul>{links}</ul>{_COUNTER}")


def _article(number: int, kind: str = "Article") -> Reply:
    return _whole(f"{kind} {number}", f"<h1>{kind} {number}</h1><p>{_SENTENCE * 10}</p>{_COUNTER}")


def _topic(number: int) -> Reply:
    return _whole(f"Topic {number}", f"<h1>Topic {number}</h1><p>{_SENTENCE * 2}</p>{_COUNTER}")


def _product(number: int) -> Reply:
    onward = f'<a href="/review/{number}">review</a>' if number <= REVIEWS else ""
    made = f'<h1>Product {number}</h1><p class="price">{number}.50</p>{onward}'
    return _whole(
        "Shop", f"<div id=\"app\"></div><script>document.querySelector('#app').innerHTML = `{made}`;</script>"
    )


def _offer(number: int) -> Reply:
    asks = "<noscript>Please enable JavaScript to see this offer.</noscript>"
    made = f"document.querySelector('main').textContent = 'Offer {number}, {number} off';"
    return _whole("Offers", f"{asks}<main></main><script>{made}</script>")


def _story(number: int) -> Reply:
    if number not in LATE_STORIES:
        return _article(number, "Story")
    made = f"<h1>Story {number}</h1><p>{_SENTENCE * 10}</p>"
    script = f"document.querySelector('#root').innerHTML = `{made}`;"
    return _whole("Stories", f'<div id="root"></div><script>{script}</script>')
