"""What nobody is shown: secrets; and what nobody's terminal or log is to obey: control characters.

The one place that knows what either looks like. Logs pass through it as a whole (`observe`); what people and clients
are told passes through it where it leaves (`cli.talk`, `api.problems`).
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

HIDDEN = "***"
EXAMPLE_LOGIN = "user:password@"

_PERCENT = r"%(?:25){0,4}+"
"""Before the two digits of a character that is written so, perhaps more than once."""

# `user:password` itself is how we write what is to be written.
_LOGIN = re.compile(r"(?<=://)(?!user:password@)[^/?#\s]*@")
_LOGIN_WITH_SLASH = re.compile(r"(?<=://)(?!user:password@)[^/?#\s@:\[]*:(?!\d{1,5}(?:[/?#\s]|$))[^\s@]*@")
"""A password that should have been percent-encoded: what follows the colon is no port."""
_WORD_TO_LOGIN = re.compile(r"(?<!\S)\S*@")
"""Up to the last @ of a word: within it, whoever looks for one finds one, and nobody looks twice."""
_WORD_TO_ESCAPED_LOGIN = re.compile(rf"(?<![^\s&#?'\"])[^\s&#?'\"]*{_PERCENT}40")
_ESCAPED_SCHEME_END = re.compile(rf"{_PERCENT}3[Aa](?:{_PERCENT}2[Ff]|/){{2}}")
_BARE_WORD_TO_LOGIN = re.compile(r"(?<![^\s'\"])[^\s'\"]*@(?=[\w\[])")
_BARE_LOGIN = re.compile(r"(?<![^(,\[])[^(,\[:]*:.*@", re.DOTALL)
_SCHEME = re.compile(r"\b(bearer|basic)(\s+)([A-Za-z0-9._~+/-]{6,}+=*+)", re.IGNORECASE)
_BASIC = re.compile(r"\s*basic\s+(\S+)\s*", re.IGNORECASE)
_OWN_KEY = re.compile(r"\b(shoal_[a-z0-9]{4,20})_[A-Za-z0-9_-]{20,}")
_ROW = re.compile(r"(DETAIL:\s{1,9})(?:Failing row contains|Key )[^\r\n]+")
_PARAMETERS = re.compile(r"\[parameters: [^\r\n]*")

_NAMED = re.compile(
    rf"(?<![A-Za-z0-9_.-])(?:(?<=%)(?:25){{0,4}}+[0-9A-Fa-f]{{2}})?"
    rf"(?P<name>(?:[A-Za-z0-9_.-]|{_PERCENT}(?:2[DEde]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff]))++)"
    rf"(?P<close>(?:\\{{0,7}}+[\"'])?+)(?:\]|%5[Dd])?+(?:(?:\[|%5[Bb])[0-9]{{0,9}}+(?:\]|%5[Dd]))?+\s*+"
    rf"(?P<sign>(?::|=|{_PERCENT}3[Dd])++)>?+"
)
"""The name of something and the sign between it and its value: of a parameter, a header, or a field of JSON."""
_QUOTE = re.compile(r"\s*+(\\{0,7}+[\"'])")
_CONTAINER = re.compile(r"\s*+[\[{]")
_LINE = re.compile(r"[ \t]*+([^\r\n]*+)")
_WORD = re.compile(r"[ \t]*+([^&#\s'\"]*+)")
_JSON_WORD = re.compile(r"\s*+([^,}\]\s]*+)")

_SECRET_FIELD = re.compile(r"authorization|cookie|password|passwd|secret|api[-_]?key|credential", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"authorization|cookie|passw(?:or)?[dt]|passphrase|secret|api[-_.]?key|credential|jwt|"
    r"(?:token|signature|session|sess(?:ion)?[-_]?id|pwd|access[-_]?key(?:[-_]?id)?|private[-_]?key|verifier)$|"
    r"(?:^|[-_.])(?:sig|auth|sid|otp|key|pass|pw|pin|ticket)$|^(?:auth[a-z]*[-_])?code$",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(r"(?:^|[-_.])(?:primary|foreign|sort|cache|routing|public)[-_]?key$", re.IGNORECASE)
_LONG_HEADER = re.compile(r"authorization|cookie", re.IGNORECASE)
"""Its value goes on to the end of the line: it has spaces in it."""
_PLACES = ("headers.", "fields.")
"""`headers.Cookie: …` is where somebody made a mistake, and which; the value is not told there."""
_PART = re.compile(r"[._~+/-]")
_LONGEST_NAME = 200
_PASSES = 5
"""Two are enough for what has been met."""

PLAIN_HEADERS = frozenset(
    {
        *("accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "device-memory", "dnt"),
        *("downlink", "dpr", "ect", "from", "if-modified-since", "if-none-match", "origin", "pragma", "priority"),
        *("range", "referer", "rtt", "save-data", "te", "upgrade-insecure-requests", "user-agent", "viewport-width"),
        *("width", "x-requested-with"),
    }
)
"""Headers that say nothing but what a browser says to everybody."""

_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
_UNSEEN_IN_LINES = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\ufffe\uffff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def is_plain_header(name: str) -> bool:
    """May everybody see its value? What is not known to be harmless is taken for a secret."""
    lower = name.lower()
    return lower in PLAIN_HEADERS or lower.startswith("sec-")


def is_secret_name(name: str) -> bool:
    """Does a field of this name hold a secret?"""
    return _SECRET_FIELD.search(name) is not None


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """A text for people, without what looks like a secret, and without those that are known."""
    for secret in _all_forms(known):
        text = text.replace(secret, HIDDEN)
    if "@" in text:
        text = _WORD_TO_LOGIN.sub(_word_without_login, text)
    if "40" in text and "%" in text:
        text = _WORD_TO_ESCAPED_LOGIN.sub(_word_without_escaped_login, text)
    text = _OWN_KEY.sub(rf"\1_{HIDDEN}", text)
    text = _SCHEME.sub(_hidden_scheme, text)
    text = _PARAMETERS.sub(f"[parameters: {HIDDEN}]", _ROW.sub(rf"\1{HIDDEN}", text))
    return without_parameters(text)


def without_parameters(text: str) -> str:
    """A URL or a text without the values of parameters, headers and JSON fields whose names say: a secret.

    A value may stand within another one, and end behind it: what is left there may be a part of either.
    """
    for _ in range(_PASSES):
        shown = _without_values(text)
        if shown == text:
            break
        text = shown
    return text


def _without_values(text: str) -> str:
    parts, done = list[str](), 0
    for start, end in _secret_values(text):
        if end > done:
            if start > done or not parts:
                parts += (text[done:start], HIDDEN)
            done = end
    return "".join((*parts, text[done:])) if parts else text


def without_login(url: str) -> str:
    """The URL of a server of ours, whatever is wrong with it: nothing that may be a user name or a password."""
    start, end = url.find("//"), url.rfind("@")
    return without_parameters(f"{url[:start]}//{HIDDEN}{url[end:]}" if 0 <= start < end else url)


def without_bare_login(text: str) -> str:
    """Like `without_secrets`, for a place where a host may stand without its scheme: `user:password@host`."""
    plain = without_secrets(text)
    return _BARE_WORD_TO_LOGIN.sub(_bare_word_without_login, plain) if "@" in plain else plain


def visible(text: str, *, lines: bool = False) -> str:
    """A text in which every character can be seen: no line ends, no escapes for terminals, no turned directions.

    With `lines`, line ends and tabs stay.
    """
    if text.isprintable():
        return text
    return (_UNSEEN_IN_LINES if lines else _UNSEEN).sub(_escaped, text)


def encodable(text: str) -> str:
    """A text that is valid UTF-8 when encoded: halves of characters become U+FFFD."""
    return text if text.isascii() else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _all_forms(known: Iterable[str]) -> list[str]:
    """The secrets, and the passwords that some of them are made of; long ones first, since they may hold short ones."""
    found = {secret for secret in known if secret}
    for secret in tuple(found):
        found.update(_decoded(secret))
    return sorted(found, key=len, reverse=True)


def _decoded(secret: str) -> tuple[str, ...]:
    """What `Basic …` says, which servers repeat when they do not like it: both together, and the password."""
    if not (packed := _BASIC.fullmatch(secret)):
        return ()
    try:
        login = b64decode(packed[1] + "=" * (-len(packed[1]) % 4)).decode("utf-8", "replace")
    except ValueError:
        return (packed[1],)
    return tuple(part for part in (packed[1], login, login.partition(":")[2]) if part)


def _word_without_login(match: re.Match[str]) -> str:
    return _LOGIN.sub(f"{HIDDEN}@", _LOGIN_WITH_SLASH.sub(f"{HIDDEN}@", match[0]))


def _word_without_escaped_login(match: re.Match[str]) -> str:
    """All behind the first `%3A%2F%2F`: the last `%40` ends the word."""
    start = _ESCAPED_SCHEME_END.search(match[0])
    return f"{match[0][: start.end()]}{HIDDEN}%40" if start else match[0]


def _bare_word_without_login(match: re.Match[str]) -> str:
    return _BARE_LOGIN.sub(_hidden_login, match[0], count=1)


def _hidden_login(match: re.Match[str]) -> str:
    return match[0] if match[0].endswith(EXAMPLE_LOGIN) else f"{HIDDEN}@"


def _hidden_scheme(match: re.Match[str]) -> str:
    """Unless an English word follows."""
    scheme, blank, word = match.groups()
    parts = [part for part in _PART.split(word) if part]
    is_word = all(part.isalpha() and (part[1:] == part[1:].lower() or part.isupper()) for part in parts)
    return match[0] if is_word else f"{scheme}{blank}{HIDDEN}"


def _secret_values(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of every value whose name says that it is a secret, whatever stands around it."""
    ends = dict.fromkeys((_LINE, _WORD, _JSON_WORD), 0)
    """How far the last value of a kind went: names within it have no other end, and nobody looks twice."""
    for match in _NAMED.finditer(text) if "=" in text or ":" in text or "%" in text else ():
        name, at = _plain(match["name"][-_LONGEST_NAME:]), match.end()
        if not _is_secret(name) or (_is_bare(match) and name.startswith(_PLACES)):
            continue
        kind = _kind_of(name, match)
        if kind is not _LINE and (quote := _QUOTE.match(text, at)):
            yield quote.end(), _end_of_quoted(text, quote.end(), quote[1])
        elif kind is _JSON_WORD and _CONTAINER.match(text, at):
            yield at, len(text)
        elif kind and at < ends[kind]:
            yield at, ends[kind]
        elif kind and (value := kind.match(text, at)):
            ends[kind] = value.end()
            yield value.span(1)


def _kind_of(name: str, match: re.Match[str]) -> re.Pattern[str] | None:
    """How far a value goes that is not in quotes; None: only one in quotes is a value."""
    if _LONG_HEADER.search(name):
        return _LINE
    if _is_bare(match):
        return _LINE if "-" in name else None
    return _JSON_WORD if match["sign"].startswith(":") else _WORD


def _plain(name: str) -> str:
    """As it is read, however often it was escaped."""
    while "%" in name and (plain := unquote(name)) != name:
        name = plain
    return name


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None and not _NO_SECRET_NAME.search(name)


def _is_bare(match: re.Match[str]) -> bool:
    """`name: value` as in a head, a list for people, or the telling of a mistake; not `"name": value`."""
    return match["sign"].startswith(":") and not match["close"]


def _end_of_quoted(text: str, at: int, quote: str) -> int:
    """Where the same quote stands again that is not escaped; else everything is within it."""
    end = text.find(quote, at)
    while end > at and text[end - 1] == "\\":
        end = text.find(quote, end + 1)
    return len(text) if end < 0 else end


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()
