"""Pages whose bytes are no text in the charset that they claim, and what a reader finds in their `h1` all the same."""

from __future__ import annotations

from codecs import BOM_UTF16_LE
from dataclasses import dataclass

from tests.site.hostile.case import PAGE, Case, answers

PLAIN = "text/html"
UTF8 = "text/html; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A page, and its heading as it must be stored."""

    name: str
    content_type: str
    body: bytes
    heading: str

    @property
    def case(self) -> Case:
        return Case(f"charset-{self.name}", answers(self.body, content_type=self.content_type), (PAGE,))


def _page(heading: bytes, head: bytes = b"") -> bytes:
    return b"<!doctype html><html><head>%b</head><body><h1>%b</h1></body></html>" % (head, heading)


def _utf16(heading: bytes) -> bytes:
    """The heading is UTF-16 already, and need not be correct."""
    before, after = _page(b"|").decode().split("|")
    return BOM_UTF16_LE + before.encode("utf-16-le") + heading + after.encode("utf-16-le")


PAGES = (
    Foreign("wrong", UTF8, _page("Café".encode("cp1252")), "Caf\ufffd"),
    Foreign("unknown", "text/html; charset=klingon-8", _page("Qapla’ é".encode()), "Qapla’ é"),
    Foreign("unknown-and-not-utf-8", "text/html; charset=klingon-8", _page("Café".encode("cp1252")), "Café"),
    Foreign("nameless", 'text/html; charset=""', _page("Café".encode()), "Café"),
    Foreign("no-text-codec", "text/html; charset=base64", _page("Café".encode()), "Café"),
    Foreign("endless-name", f"text/html; charset={'x' * 5_000}", _page("Café".encode()), "Café"),
    Foreign("disagreeing", UTF8, _page("Café".encode(), b"<meta charset=shift_jis>"), "Café"),
    Foreign("meta-utf-16", PLAIN, _page("Café".encode(), b"<meta charset=utf-16>"), "Café"),
    Foreign("nulls", UTF8, _page(b"a\0b\0c"), "abc"),
    Foreign("mixed", UTF8, _page("é".encode() + "é".encode("cp1252") + " ü".encode()), "é\ufffd ü"),
    Foreign("surrogate-in-utf-8", UTF8, _page(b"a\xed\xa0\x80b"), "a\ufffd\ufffd\ufffdb"),
    Foreign("surrogate-in-utf-16", PLAIN, _utf16(b"a\0\x00\xd8b\0"), "a\ufffdb"),
    Foreign("surrogates-swapped", PLAIN, _utf16(b"a\0\x00\xdc\x00\xd8b\0"), "a\ufffd\ufffdb"),
    Foreign("surrogate-as-entity", UTF8, _page(b"a&#xD800;b&#xDFFF;c"), "a\ufffdb\ufffdc"),
    Foreign("beyond-unicode", UTF8, _page(b"a&#x110000;b&#0;c&#99999999999999;d"), "a\ufffdb\ufffdc\ufffdd"),
    Foreign("overlong", UTF8, _page(b"a\xc0\xafb"), "a\ufffd\ufffdb"),
    Foreign("cut-off", UTF8, _page(b"Caf\xc3"), "Caf\ufffd"),
    Foreign("utf-7", "text/html; charset=utf-7", _page(b"+ADw-script+AD4-"), "+ADw-script+AD4-"),
    Foreign("half-utf-16", "text/html; charset=utf-16", _utf16("é".encode("utf-16-le"))[:-1], "é"),
    Foreign("formula", UTF8, _page(b'=HYPERLINK("http://evil.invalid/")'), '=HYPERLINK("http://evil.invalid/")'),
    Foreign("line-ends", UTF8, _page("a\u2028b\u0085c\r\nd".encode()), "a b c d"),
)

CASES = tuple(page.case for page in PAGES)
