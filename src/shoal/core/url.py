"""URLs: WHATWG parsing, one canonical form, 64-bit fingerprints.

Canonical form, which is also what is fetched:

- parsed as browsers do (can_ada): lower-case scheme and host, IDNA, default port dropped, dot segments resolved,
  backslashes and tabs as browsers treat them, unsafe characters percent-encoded;
- the fragment is dropped, and so is an empty query (`/a?` is `/a`);
- percent-encoding is normalised where RFC 3986 calls both forms equal: hexadecimal digits in upper case, and
  encoded unreserved characters (letters, digits, `-._~`) decoded;
- a trailing dot of the host name is dropped;
- tracking parameters (`utm_*`, `gclid`, …) are dropped only when the job asks for it.

What a person or a program submits must leave no doubt about its host: URLs that parsers read differently (backslashes,
a user name, odd digits, `http:/host`) are refused. Links on pages are read as browsers do.

Nothing that a server could see as another page is changed by default: the order of parameters, doubled or trailing
slashes, upper and lower case in paths and `index.html` stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import can_ada

from shoal.core.egress import is_inside
from shoal.core.redact import without_secrets
from shoal.errors import BadUrl, BadUrls

MAX_URL_CHARS = 2_000
MAX_PARSED_CHARS = 3 * MAX_URL_CHARS
"""Before escapes are normalised, which makes it shorter: `%41` is `A`."""
SHOWN_PROBLEMS = 10
SITES = 20_000
"""Hosts that are remembered: a crawl asks thousands of them in turn."""

_SCHEMES = ("http", "https")
_BEHIND_SCHEME = len("https://")
"""Characters; not before these comes the slash that ends the host, which has one character at the least."""
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_TRIPLET = re.compile("%[0-9A-Fa-f]{2}")
_OPEN_ESCAPE = re.compile(r"%[0-9A-Fa-f]?\Z")
_UNUSABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_PLAIN = re.compile(r"https?://([a-z0-9._~-]+)(?::[0-9]*)?(?=[/?#]|\Z)", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(localhost|[a-z0-9-]+(\.[a-z0-9-]+)+):[0-9]{1,5}(?=[/?#]|\Z)", re.IGNORECASE)
"""Which other parsers read as a scheme and what follows it."""
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?")
"""Which every parser leaves as it is: no dot segments, no escapes, no query."""
_CANONICAL = re.compile(
    r"(https?)://((?:[a-z0-9-]+\.)+[a-z]{2,63})"
    r"(/(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?)?(?:\?[A-Za-z0-9._~=&+:,;/-]+)?)"
)
"""What is canonical already, and leaves no doubt: a name in lower case and in ASCII, a plain path, a plain query."""
_AUTHORITY = re.compile(r"[a-z]+:([/\\]*)([^/\\?#]*)", re.IGNORECASE)
_TRACKING = re.compile(
    r"^(utm_[a-z_]+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|twclid|ttclid|igshid|mc_cid|mc_eid|"
    r"_hsenc|_hsmi|mkt_tok|oly_anon_id|oly_enc_id|vero_id|wickedid|_openstat)$",
    re.IGNORECASE,
)


class Url(NamedTuple):
    """A canonical http(s) URL, split where the frontier splits it. A tuple, because millions are made.

    `host` is the politeness key: the name, with the port unless it is the scheme's own, so that http and https of
    one host share their limits.
    """

    scheme: str
    host: str
    target: str
    """Path and query; always starts with a slash."""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.target}"

    @property
    def chars(self) -> int:
        """Its length as a text."""
        return len(self.scheme) + len("://") + len(self.host) + len(self.target)

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.host}"

    @property
    def hostname(self) -> str:
        """The host without its port (an IPv6 address keeps its brackets)."""
        name, colon, port = self.host.rpartition(":")
        return name if colon and port.isdigit() else self.host

    @property
    def fingerprint(self) -> int:
        return fingerprint(str(self))


def fingerprint(canonical: str) -> int:
    """A signed 64-bit integer: what Redis keeps in an intset. Keyless BLAKE2, so all processes agree."""
    return int.from_bytes(blake2b(canonical.encode(), digest_size=8).digest(), "big", signed=True)


def parse(text: str, *, drop_tracking: bool = False) -> Url:
    """The canonical form of an absolute URL that a person or a program submitted."""
    if (
        not drop_tracking
        and len(text) <= MAX_URL_CHARS
        and (plain := _CANONICAL.fullmatch(text))
        and "xn--" not in text
    ):
        return Url(*plain.groups())
    stripped = text.strip()
    if len(stripped) > MAX_URL_CHARS:
        raise BadUrl(_too_long(stripped))
    if not (stripped.isascii() and stripped.isprintable()) and _UNUSABLE.search(stripped):
        raise BadUrl(f"URL with control characters or lone surrogates: {_shown(stripped)!r}")
    try:
        parsed = can_ada.parse(stripped)
    except ValueError as exc:
        raise BadUrl(_why_unparsable(stripped)) from exc
    try:
        url = _canonical(parsed, drop_tracking=drop_tracking)
    except BadUrl as exc:
        if _HOST_AND_PORT.match(stripped):
            raise BadUrl(_not_absolute(stripped)) from exc
        raise
    if doubt := _doubt(stripped, url):
        raise BadUrl(f"{doubt}: {_shown(stripped)!r}")
    if url.chars > MAX_URL_CHARS:
        raise BadUrl(_too_long(str(url)))
    return url


def parse_all(texts: Iterable[str], *, drop_tracking: bool = False) -> list[Url]:
    """Canonical URLs; one error that names all that are none."""
    urls: list[Url] = []
    problems: list[tuple[int, str]] = []
    for number, text in enumerate(texts):
        try:
            urls.append(parse(text, drop_tracking=drop_tracking))
        except BadUrl as exc:
            problems.append((number, str(exc)))
    if problems:
        total = len(problems) + len(urls)
        raise BadUrls(describe_problems([problem for _, problem in problems], total), tuple(problems))
    return urls


def describe_problems(problems: list[str], total: int) -> str:
    """All that is wrong with a list of URLs, as far as a screen goes."""
    shown = "\n".join(f"  - {problem}" for problem in problems[:SHOWN_PROBLEMS])
    rest = len(problems) - SHOWN_PROBLEMS
    more = f"\n  … and {rest} more" if rest > 0 else ""
    some = "this URL" if total == 1 else f"{len(problems)} of {total} URLs"
    return f"{some} cannot be used:\n{shown}{more}"


class Base:
    """A page's base URL, against which its links are joined."""

    __slots__ = ("_drop_tracking", "_href", "_origin", "_own", "_read")

    def __init__(self, url: str, *, drop_tracking: bool = False, canonical: bool = False) -> None:
        """One that is `canonical` is read only when a link needs it: most links are plain paths."""
        self._read: can_ada.URL | None = None
        self._href = url
        self._drop_tracking = drop_tracking
        self._own: Url | None = None
        self._origin = ""
        if not canonical:
            try:
                self._href = self._parsed.href
            except (ValueError, TypeError) as exc:
                raise BadUrl(f"not an absolute URL: {_shown(url)!r}") from exc

    @property
    def _parsed(self) -> can_ada.URL:
        if self._read is None:
            self._read = can_ada.parse(self._href)
        return self._read

    def join(self, href: str) -> Url | None:
        """The canonical URL that a link points to; None when it is not one that can be fetched."""
        try:
            if _PLAIN_PATH.fullmatch(href):
                own = self._own or self._site()
                url = Url(own.scheme, own.host, href)
            else:
                url = _canonical(self._parsed + href.strip(), drop_tracking=self._drop_tracking)
        except (ValueError, TypeError, BadUrl):
            return None
        return url if url.chars <= MAX_URL_CHARS else None

    def join_text(self, href: str) -> str | None:
        """The same as a text."""
        if self._origin and _PLAIN_PATH.fullmatch(href):
            text = self._origin + href
            return text if len(text) <= MAX_URL_CHARS else None
        url = self.join(href)
        return None if url is None else str(url)

    def _site(self) -> Url:
        """The scheme and host of all that needs no parser; raises BadUrl when nothing there can be fetched."""
        end = self._href.find("/", _BEHIND_SCHEME)
        self._own = _site_of(self._href[: end + 1] if end > 0 else self._parsed.href)
        self._origin = self._own.origin
        return self._own

    def rebase(self, href: str) -> Base:
        """The base after a `<base href>`; an unusable one changes nothing."""
        try:
            moved = self._parsed + href.strip()
            fetchable = moved.protocol in ("http:", "https:") and len(moved.href) <= MAX_URL_CHARS
            return Base(moved.href, drop_tracking=self._drop_tracking) if fetchable else self
        except (ValueError, TypeError, BadUrl):
            return self


@lru_cache(maxsize=SITES)
def _site_of(start: str) -> Url:
    """All pages of a host begin alike."""
    return _canonical(can_ada.parse(start), drop_tracking=False)


def _canonical(parsed: can_ada.URL, *, drop_tracking: bool) -> Url:
    """Taken from the serialised form: asking the parser for each part costs more than the parsing."""
    href = parsed.href
    if len(href) > MAX_PARSED_CHARS:
        raise BadUrl(_too_long(href))
    scheme, _, rest = href.partition(":")
    if scheme not in _SCHEMES:
        raise BadUrl(f"only http and https can be fetched, not {scheme!r}")
    host, slash, target = rest[2:].partition("/")
    target, _, _ = target.partition("#")
    if "@" in host:
        name = host.rpartition("@")[2]
        raise BadUrl(f"URL with a user name or password in it; send them as a header instead: {name}")
    if "%" in target:
        target = _normal_escapes(target)
    if "?" in target:
        target = _normal_query(target, drop_tracking=drop_tracking)
    return Url(scheme, _normal_host(host), slash + target)


def _doubt(text: str, url: Url) -> str:
    """Why another parser may find another host in this text; empty when none can."""
    plain = _PLAIN.match(text)
    if "\\" in re.split("[?#]", text, maxsplit=1)[0]:
        return "URL with a backslash, which some read as a slash; write / or %5C"
    if plain and plain[1].rstrip(".").lower() == url.hostname:
        return ""
    found = _AUTHORITY.match(text)
    slashes, authority = found.groups() if found else ("", "")
    if slashes != "//":
        return f"URL without // before its host; did you mean {url}?"
    if "@" in authority:
        return "URL with an @ before its host; leave it out"
    if "%" in authority:
        return f"URL with an escaped host; write {url.hostname}"
    if url.hostname[-1].isdigit() and authority.partition(":")[0].rstrip(".") != url.hostname:
        return f"URL with an address in an unusual form; write {url.hostname}"
    if any(char.isnumeric() and not char.isascii() for char in authority):
        return f"URL with unusual digits in its host; write {url.hostname}"
    return ""


def _normal_host(host: str) -> str:
    """Without the dot that may end a name."""
    name, colon, port = host.partition(":") if host[0] != "[" else (host, "", "")
    if name[-1] != ".":
        return host
    name = name[:-1]
    if not name.strip("."):
        raise BadUrl("URL without a host")
    if name[-1] == ".":
        raise BadUrl(f"a host name cannot end with two dots: {name}.")
    return name + colon + port


def _normal_query(target: str, *, drop_tracking: bool) -> str:
    path, _, query = target.partition("?")
    if query and drop_tracking:
        query = _without_tracking(query)
    return f"{path}?{query}" if query else path


def _normal_escapes(text: str) -> str:
    return _TRIPLET.sub(_normal_escape, text)


def _normal_escape(match: re.Match[str]) -> str:
    char = chr(int(match[0][1:], 16))
    # Behind a malformed escape (`%`, `%7`) a decoded digit would complete it.
    if char not in _UNRESERVED or _OPEN_ESCAPE.search(match.string, max(0, match.start() - 2), match.start()):
        return match[0].upper()
    return char


def _without_tracking(query: str) -> str:
    return "&".join(pair for pair in query.split("&") if not _TRACKING.match(pair.partition("=")[0]))


def _why_unparsable(text: str) -> str:
    if not text:
        return "an empty URL"
    if "://" not in text:
        return _not_absolute(text)
    return f"not a valid URL: {_shown(text)!r}"


def _not_absolute(text: str) -> str:
    """With what was probably meant: few have a certificate for their own machine."""
    shown = _shown(text)
    rest = shown.lstrip("/")[:190]
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    scheme = "http" if is_inside(Url("http", host, "/").hostname) else "https"
    return f"not an absolute URL: {shown!r}; did you mean '{scheme}://{rest}'?"


def _too_long(text: str) -> str:
    return f"URL of {len(text)} characters; at most {MAX_URL_CHARS} are allowed: {_shown(text)[:80]}…"


def _shown(text: str) -> str:
    """The text without what stands before an @: it may be a password."""
    return without_secrets(re.sub(r"([/\\]{2}|^)[^/\\?#]*@", r"\1***@", text[:8_192], count=1))[:200]
