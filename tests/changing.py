"""A site of prepared pages in two states, with what is known to have happened to each of them in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

ROOT = "http://watched.example"
RULES = {"ignore": [".ad", "#visitors", ".links"]}
"""Noise rules under which the verdicts hold."""
HUBS = 10
WORDS = [
    "river",
    "stone",
    "window",
    "garden",
    "letter",
    "market",
    "winter",
    "copper",
    "paper",
    "silver",
    "harbour",
    "morning",
    "shadow",
    "bridge",
    "meadow",
    "candle",
    "engine",
    "island",
    "mirror",
    "pocket",
    "ribbon",
    "saddle",
    "temple",
    "valley",
    "wagon",
    "yellow",
    "basket",
    "cotton",
    "dinner",
    "forest",
]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the site says to a request."""

    body: bytes = b""
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    location: str = ""
    failure: str = ""
    """Why there is no answer at all."""


Verdict = tuple[str, str]
"""(kind, why)"""


@dataclass(frozen=True, slots=True)
class Case:
    """A page in both states; None is one that nothing leads to."""

    name: str
    before: Answer | None
    after: Answer | None
    verdict: Verdict | None
    """What became of it; None: it is told by nothing."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts of a page, from which its variants are made."""

    number: int
    title: str
    paragraphs: tuple[str, ...]
    price: str

    def html(
        self,
        *,
        title: str = "",
        paragraphs: tuple[str, ...] = (),
        price: str = "",
        head: str = "",
        extra: str = "",
        button: str = "Add to basket",
        date: str = "12 March 2026, 14:30",
    ) -> str:
        texts = "\n".join(f"<p>{text}</p>" for text in paragraphs or self.paragraphs)
        return (
            f"<!doctype html><html><head><title>{title or self.title}</title>{head}</head><body>"
            f"<h1>{self.title}</h1><p class=meta>Updated {date}</p>\n{texts}\n"
            f"<table><tr><td>Price</td><td class=price>{price or self.price}</td></tr></table>"
            f"<form><button>{button}</button></form>{extra}</body></html>"
        )


def draft(number: int) -> Draft:
    """The page of this number: always the same."""
    random = Random(number)
    paragraphs = tuple(" ".join(random.choices(WORDS, k=random.randint(12, 40))) + "." for _ in range(4))
    return Draft(
        number, f"Café {random.choice(WORDS)} {number}", paragraphs, f"{random.randint(2, 90)}.{number % 90 + 10} €"
    )


def page(text: str, charset: str = "utf-8") -> Answer:
    return Answer(text.encode(charset), f"text/html; charset={charset}")


def _edited(made: Draft, change: Callable[[list[str]], None]) -> str:
    texts = list(made.paragraphs)
    change(texts)
    return made.html(paragraphs=tuple(texts))


def _another_word(texts: list[str]) -> None:
    words = texts[1].split()
    texts[1] = " ".join([*words[:3], "elsewhere", *words[4:]])


Pair = tuple[str, str]
SAME: Mapping[str, Callable[[Draft], Pair]] = {
    "nothing": lambda made: (made.html(), made.html()),
    "white space": lambda made: (made.html(), made.html().replace("<p>", "\n\n  <p>\n\t").replace(" ", "  ")),
    "markup": lambda made: (
        made.html(),
        made.html().replace("<p>", '<p class="x y"><span style="color:red">').replace("</p>", "</span></p>"),
    ),
    "attribute order": lambda made: (
        made.html(extra='<a id=x class=y href="/">Home</a>'),
        made.html(extra='<a href="/" class=y id=x>Home</a>'),
    ),
    "nonce": lambda made: (
        made.html(head="<script nonce=abc>1</script>"),
        made.html(head="<script nonce=xyz>1</script>"),
    ),
    "csrf token": lambda made: (
        made.html(extra="<form><input type=hidden name=csrf value=a1b2></form>", head="<meta name=csrf content=a1b2>"),
        made.html(extra="<form><input type=hidden name=csrf value=c3d4></form>", head="<meta name=csrf content=c3d4>"),
    ),
    "session in links": lambda made: (
        made.html(extra='<span><a href="mailto:x?sid=1">Mail</a></span>'),
        made.html(extra='<span><a href="mailto:x?sid=2">Mail</a></span>'),
    ),
    "advert": lambda made: (
        made.html(extra="<div class=ad>Buy soap</div>"),
        made.html(extra="<div class=ad><p>Buy boats, now cheaper</p></div>"),
    ),
    "view counter": lambda made: (
        made.html(extra="<p>Seen <b id=visitors>1,204</b> times</p>"),
        made.html(extra="<p>Seen <b id=visitors>1,377</b> times</p>"),
    ),
    "date": lambda made: (made.html(), made.html(date="Friday, 13 March 2026 at 9:05 am")),
    "german date": lambda made: (
        made.html(date="am 3. März 2026, 14:30 Uhr"),
        made.html(date="am 14.04.2026, 08:01 Uhr"),
    ),
    "time ago": lambda made: (made.html(date="3 minutes ago"), made.html(date="2 days ago")),
    "iso time": lambda made: (
        made.html(date="2026-03-12T14:30:00Z"),
        made.html(date="2026-11-17T01:02:03.456+01:00"),
    ),
    "entities": lambda made: (made.html(), made.html().replace("é", "&eacute;").replace("€", "&#8364;")),
    "comments": lambda made: (made.html(extra="<!-- built 17 -->"), made.html(extra="<!-- built 18 by node 4 -->")),
    "script": lambda made: (made.html(extra="<script>var t=1</script>"), made.html(extra="<script>var t=99</script>")),
    "style": lambda made: (
        made.html(head="<style>p{color:red}</style>"),
        made.html(head="<style>p{color:blue}</style>"),
    ),
    "hidden": lambda made: (made.html(extra="<div hidden>a</div>"), made.html(extra="<div hidden>b</div>")),
    "soft hyphens": lambda made: (
        made.html(),
        made.html().replace("river", "ri\u00adver").replace("stone", "sto\u200bne"),
    ),
}
CHANGED: Mapping[str, Callable[[Draft], Pair]] = {
    "one word": lambda made: (made.html(), _edited(made, _another_word)),
    "price": lambda made: (made.html(), made.html(price="1.05 €")),
    "paragraph removed": lambda made: (made.html(), _edited(made, lambda texts: texts.__delitem__(2))),
    "paragraph added": lambda made: (made.html(), _edited(made, lambda texts: texts.insert(1, "A new paragraph."))),
    "paragraphs swapped": lambda made: (made.html(), _edited(made, lambda texts: texts.reverse())),
    "title": lambda made: (made.html(), made.html(title="Another title")),
    "button": lambda made: (made.html(), made.html(button="Sold out")),
    "number": lambda made: (made.html(extra="<p>3 left</p>"), made.html(extra="<p>2 left</p>")),
    "beside an advert": lambda made: (
        made.html(extra="<div class=ad>Buy soap</div>"),
        made.html(extra="<div class=ad>Buy soap</div><p>Closed for the winter</p>"),
    ),
    "year": lambda made: (made.html(extra="<p>Founded 1950</p>"), made.html(extra="<p>Founded 1951</p>")),
}


def _other_kinds(made: Draft) -> Iterator[Case]:
    """Pages that are no HTML, or change by something else than their text."""
    text, number = made.html(), made.number
    fact = {"name": made.title, "tags": ["a", "b"], "at": "2026-03-12T10:00:00Z"}
    turned = {"at": "2026-05-01T11:30:00Z", "tags": ["a", "b"], "name": made.title}
    data = [
        Answer(json.dumps(each, indent=place).encode(), "application/json") for place, each in enumerate((fact, turned))
    ]
    priced = Answer(json.dumps({**fact, "tags": ["a"]}).encode(), "application/json")
    notes = [
        Answer(f"note {number}{gap}{words}".encode(), "text/plain")
        for gap, words in ((" ", "ends"), ("\r\n\r\n", "ends"), (" ", "begins"))
    ]
    pictures = [Answer(b"\x89PNG\r\n\0" + bytes([number % 256, each]), "image/png") for each in (1, 2)]
    there, elsewhere = (
        Answer(status=301, location=f"{ROOT}/moved/{number}"),
        Answer(status=301, location=f"{ROOT}/far/{number}"),
    )
    here = page(text)
    yield Case(
        "encoding", page(text.replace("€", "EUR")), page(text.replace("€", "EUR"), "iso-8859-1"), ("unchanged", "")
    )
    yield Case("json order", data[0], data[1], ("unchanged", ""))
    yield Case("json value", data[0], priced, ("changed", "content"))
    yield Case("plain white space", notes[0], notes[1], ("unchanged", ""))
    yield Case("plain word", notes[0], notes[2], ("changed", "content"))
    yield Case("picture kept", pictures[0], pictures[0], ("unchanged", ""))
    yield Case("picture", pictures[0], pictures[1], ("changed", "content"))
    yield Case("status", here, Answer(here.body, here.content_type, 203), ("changed", "status"))
    yield Case("moved", here, there, ("changed", "redirect"))
    yield Case("moved back", there, here, ("changed", "redirect"))
    yield Case("leads elsewhere", there, elsewhere, ("changed", "redirect"))
    yield Case("still leads there", there, there, None)
    yield Case("404", here, Answer(failure="http_404"), ("gone", "http_404"))
    yield Case("410", here, Answer(failure="http_410"), ("gone", "http_410"))
    yield Case("500", here, Answer(failure="http_500"), ("unknown", "not_reached"))
    yield Case("timeout", here, Answer(failure="timeout_total"), ("unknown", "not_reached"))
    yield Case("forbidden", here, Answer(failure="http_403"), ("unknown", "not_reached"))
    yield Case("no longer linked", here, None, ("gone", "not_linked"))
    yield Case("new", None, here, ("new", ""))
    yield Case("came back", Answer(failure="http_404"), here, ("new", "http_404"))
    yield Case("failed before", Answer(failure="http_503"), here, ("unknown", "not_reached_before"))
    yield Case("gone in both", Answer(failure="http_404"), Answer(failure="http_404"), None)


def cases(count: int) -> list[Case]:
    """So many prepared pages, of every case the same number."""
    found: list[Case] = []
    number = 0
    while len(found) < count:
        made, number = draft(number), number + 1
        for name, make in SAME.items():
            old, new = make(made)
            found.append(Case(name, page(old), page(new), ("unchanged", "")))
        for name, make in CHANGED.items():
            old, new = make(made)
            found.append(Case(name, page(old), page(new), ("changed", "content")))
        found += _other_kinds(made)
    return found[:count]


class Site:
    """One state of the site: hubs that lead to every page, and the pages; `lost` is a hub that answers with 500."""

    def __init__(self, prepared: list[Case], *, later: bool, lost: int | None = None) -> None:
        self._answers = {
            f"/p/{number}": answer
            for number, case in enumerate(prepared)
            if (answer := case.after if later else case.before) is not None
        }
        self._later = later
        self._lost = lost

    def answer(self, path: str) -> Answer:
        if path == "/":
            return page(_links([f"/hub/{number}" for number in range(HUBS)]))
        if path.startswith("/hub/"):
            hub = int(path.removeprefix("/hub/"))
            if self._later and hub == self._lost:
                return Answer(failure="http_500")
            return page(_links([name for name in self._answers if int(name.removeprefix("/p/")) % HUBS == hub]))
        if path.startswith(("/moved/", "/far/")):
            return page(draft(int(path.rpartition("/")[2])).html())
        return self._answers.get(path) or Answer(failure="http_404")


def _links(paths: list[str]) -> str:
    links = "".join(f'<a href="{path}">{path}</a> ' for path in paths)
    return f"<title>All pages</title><h1>All pages</h1><nav class=links>{links}</nav>"
