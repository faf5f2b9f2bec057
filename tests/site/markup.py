"""The look of the shop: functions from plain values to HTML text. All escaping happens here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tests.site.catalogue import Book, author_path, category_path
from tests.site.words import SHOP

_CSS = (
    "body{font:17px/1.5 Georgia,serif;color:#2b2b2b;background:#fbf8f1;max-width:46rem;margin:0 auto;"
    "padding:1rem}a{color:#1d5c63}header,footer{display:flex;gap:1rem;padding:.6rem 0;color:#7a7367}"
    "h1{line-height:1.15}.book img{float:right;width:9rem;margin:0 0 1rem 1rem}.price{font-size:1.5rem}"
    ".tag{display:inline-block;background:#e8dfc9;border-radius:1rem;padding:0 .7rem;margin:.1rem}"
    ".breadcrumbs,.stock{color:#7a7367}"
)


def link(href: str, text: str, rel: str = "") -> str:
    mark = f' rel="{rel}"' if rel else ""
    return f'<a href="{escape(href)}"{mark}>{escape(text)}</a>'


def bullets(items: Iterable[str], css: str = "links") -> str:
    return f'<ul class="{css}">' + "".join(f"<li>{item}</li>\n" for item in items) + "</ul>\n"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>\n"


def document(heading: str, content: str, *, head: str = '<meta charset="utf-8">') -> str:
    """A whole page; its one `h1` is the heading and every page links to a robots-blocked account."""
    title = escape(heading)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}<title>{title} | {SHOP}</title>\n'
        f"<style>{_CSS}</style></head>\n<body>\n"
        f"<header>{link('/', SHOP)} {link('/about', 'About')} {link('/private/account', 'My account')}"
        f"</header>\n<main>\n{content}</main>\n<footer>{SHOP}, open since 1974.</footer>\n</body>\n</html>\n"
    )


def titled(heading: str, content: str) -> str:
    return f"<h1>{escape(heading)}</h1>\n{content}"


def breadcrumbs(trail: Iterable[tuple[str, str]], here: str) -> str:
    steps = " › ".join(link(href, text) for href, text in trail)
    return f'<nav class="breadcrumbs">{steps} › {escape(here)}</nav>\n'


def book_content(book: Book, related: str) -> str:
    tags = " ".join(f'<span class="tag">{escape(tag)}</span>' for tag in book.tags)
    trail = (("/", "Home"), (category_path(book.category), book.category))
    return (
        breadcrumbs(trail, book.title) + f'<article class="book">\n<img src="{book.cover}" alt="Cover">\n'
        f"<h1>{escape(book.title)}</h1>\n"
        f'<p class="author">by {link(author_path(book.author), book.author)}</p>\n'
        f'<p class="price">{book.price}</p>\n<p class="stock">{book.stock}</p>\n'
        f'<p class="description">{escape(book.description)}</p>\n<p class="tags">{tags}</p>\n</article>\n'
        f"<h2>You may also like</h2>\n{related}"
    )


def cover_svg(book: Book) -> str:
    hue = book.number * 47 % 360
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 90 130">'
        f'<rect width="90" height="130" fill="hsl({hue} 40% 40%)"/>'
        '<text x="45" y="70" fill="#fff" font-size="9" text-anchor="middle">'
        f"{escape(book.author)}</text></svg>"
    )
