"""What nobody is shown: secrets; and what nobody's terminal or log is to obey: control characters.

The one place that knows what either looks like. Logs pass through it as a whole (`observe`); what people and clients
are told passes through it where it leaves (`cli.talk`, `api.problems`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"
EXAMPLE_LOGIN = "user:password@"

# `user:password` itself is how we write what is to be written.
_LOGIN = re.compile(r"(?<=://)(?!user:password@)[^/?#\s]*@")
_LOGIN_WITH_SLASH = re.compile(r"(?<=://)(?!user:password@)[^/?#\s@:\[]*:(?!\d{1,5}(?:[/?#\s]|$))[^\s@]*@")
"""A password that should have been percent-encoded: what follows the colon is no port."""
_ANY_LOGIN = re.compile(r"//.*@", re.DOTALL)
_BARE_LOGIN = re.compile(r"[^\s'\"(,\[]*:[^\s'\"]*@(?=[\w\[])")
_PARAMETER = re.compile(
    r"((?<![A-Za-z0-9])(?:access_?token|refresh_?token|id_?token|token|api_?key|password|passwd|pwd|passphrase|secret|"
    r"client_secret|signature|sig|auth|sslpassword|x-amz-(?:signature|security-token|credential))=)[^&#\s'\"]+",
    re.IGNORECASE,
)
_HEADER = re.compile(
    r"((?<![A-Za-z])(?:proxy-)?authorization|(?<![A-Za-z])(?:set-)?cookie|(?<![A-Za-z])x-api-key)(['\"]?\s*[:=]\s*)[^\r\n]+",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(bearer|basic)\s+(?=[^\s,;]*[\d=])[A-Za-z0-9._~+/-]{6,}=*", re.IGNORECASE)
_OWN_KEY = re.compile(r"\b(shoal_[a-z0-9]{4,20})_[A-Za-z0-9_-]{20,}")
_ROW = re.compile(r"(DETAIL:\s+)(?:Failing row contains|Key )[^\r\n]+")
_PARAMETERS = re.compile(r"\[parameters: [^\r\n]*")
_SECRET_NAME = re.compile(r"authorization|cookie|password|secret|api[-_]?key|credential", re.IGNORECASE)

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
    return _SECRET_NAME.search(name) is not None


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """A text for people, without what looks like a secret, and without those that are known."""
    for secret in known:
        text = text.replace(secret, HIDDEN)
    if "@" in text:
        text = _LOGIN.sub(f"{HIDDEN}@", _LOGIN_WITH_SLASH.sub(f"{HIDDEN}@", text))
    text = _OWN_KEY.sub(rf"\1_{HIDDEN}", text)
    text = _HEADER.sub(rf"\1\2{HIDDEN}", text)
    text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
    text = _PARAMETERS.sub(f"[parameters: {HIDDEN}]", _ROW.sub(rf"\1{HIDDEN}", text))
    return without_parameters(text)


def without_parameters(url: str) -> str:
    """A URL, or a text with URLs, without the values of parameters that are secrets by their names."""
    return _PARAMETER.sub(rf"\1{HIDDEN}", url) if "=" in url else url


def without_login(url: str) -> str:
    """The URL of a server of ours, whatever is wrong with it: nothing that may be a user name or a password."""
    return without_parameters(_ANY_LOGIN.sub(f"//{HIDDEN}@", url, count=1))


def without_bare_login(text: str) -> str:
    """Like `without_secrets`, for a place where a host may stand without its scheme: `user:password@host`."""
    plain = without_secrets(text)
    return _BARE_LOGIN.sub(_hidden_login, plain) if "@" in plain else plain


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


def _hidden_login(match: re.Match[str]) -> str:
    return match[0] if match[0].endswith(EXAMPLE_LOGIN) else f"{HIDDEN}@"


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode()
