"""What the names of elements, classes and ids say about a part of a page: hints, which what it holds can outweigh."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache


class Hint(Enum):
    """What a part seems to be."""

    NONE = ""
    REST = "rest"
    """Menus, adverts, boxes around the content: everything of which pages have the same again and again."""
    COMMENT = "comment"
    """Words of readers; on some pages these are the content."""
    NOTE = "note"
    """About the content, when it is short: who wrote it when, marks, buttons."""


UNSEEN = frozenset(
    (
        *(
            "script",
            "style",
            "noscript",
            "template",
            "svg",
            "math",
            "iframe",
            "object",
            "embed",
            "canvas",
            "head",
            "button",
        ),
        *("input", "select", "textarea", "option", "label", "audio", "video", "map", "dialog", "datalist", "progress"),
        *("amp-sidebar", "amp-ad", "amp-consent", "amp-analytics", "amp-social-share", "amp-iframe", "amp-embed"),
    )
)
"""Elements that hold nothing to read, whatever is in them."""
_REST_TAGS = frozenset(("nav", "footer", "aside", "menu"))
_REST_ROLES = frozenset(
    (
        *("navigation", "banner", "contentinfo", "complementary", "search", "dialog", "alertdialog", "menu", "menubar"),
        *("toolbar", "alert", "tablist"),
    )
)
_NEVER = frozenset(("body", "html", "main", "h1", "pre", "code"))
_MAX_NAME = 300
"""Characters of class and id that are looked at."""

_REST = re.compile(
    r"breadcrumb|sidebar|navbar|cookie|consent|onetrust|gdpr|newsletter|subscri|sign-?up|related|recommend|taboola|outbrain"
    r"|advert|sponsor|promo|masthead|skip-?(?:link|to)|screen-reader|sr-only|visually-?hidden|pagination|paginat|pager"
    r"|social|shar(?:e|ing)-?(?:bar|button|icon|list|tool|this)|sharedaddy|share|footer|site-?(?:header|top|title|desc)"
    r"|global-?(?:header|nav|menu)|top-?(?:bar|nav|menu)|header-?bar|announcement|editsection|catlinks|navbox|reflist"
    r"|printfooter|hatnote|table-?of-?contents|hash-?link|header-?link|author-?(?:box|bio|card)|widget|popup|pop-up|modal"
    r"|overlay|feedback|most-?(?:read|popular)|trending|read-?(?:more|next|also)|see-?also|paywall|login|log-?in|toast"
    r"|(?:^|[\s_-])(?:ad|ads|adv|adslot|dfp|nav|navi|menu|toc|tags?|taglist|rail|side|foot|related|sns|rss"
    r"|jump|print|references|copyright|disclosure|disclaimer|navigation|toolbar|breaking|ticker|noprint|gutter|linenos?"
    r"|lineno|linenumbers|teaser|aside)(?:$|[\s_-])",
)
_COMMENT = re.compile(
    r"comment(?!ary)|disqus|kommentar|comentario|(?:^|[\s_-])(?:respond|replies|reactions)(?:$|[\s_-])"
)
_NOTE = re.compile(
    r"byline|author|signature|profile|posted|publish|dateline|timestamp|post-?meta|entry-?(?:meta|date|footer|foot)"
    r"|rating|votes?|credit|views|read-?time|reading|last-?updated|edit-?this|permalink|action-?bar|stat-?block|online"
    r"|(?:^|[\s_-])(?:meta|date|time|info|stats?|kicker|eyebrow|tools?|label|badge|source"
    r"|downloads?|author)(?:$|[\s_-])"
)


def hint_of(tag: str, attributes: Mapping[str, str | None]) -> Hint:
    """By the names of an element."""
    if tag in _NEVER:
        return Hint.NONE
    if tag in _REST_TAGS or (attributes.get("role") or "") in _REST_ROLES:
        return Hint.REST
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
    return _of_names(names[:_MAX_NAME].lower()) if len(names) > 1 else Hint.NONE


@lru_cache(maxsize=4096)
def _of_names(names: str) -> Hint:
    if _COMMENT.search(names):
        return Hint.COMMENT
    if _REST.search(names):
        return Hint.REST
    return Hint.NOTE if _NOTE.search(names) else Hint.NONE


def is_hidden(attributes: Mapping[str, str | None]) -> bool:
    """Does a reader not see it? By its own attributes; style sheets are not read."""
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    style = attributes.get("style")
    return bool(style) and "display:none" in style.replace(" ", "").lower()
