"""The operator's mail server, as a URL: smtps:// speaks TLS from the start, smtp:// changes to it before anything else
is said, except to this machine or where `?tls=off` says so in so many words."""

from __future__ import annotations

from dataclasses import field
from urllib.parse import parse_qs, unquote, urlsplit

from shoal.core.egress import is_loopback
from shoal.core.frozen import frozen

_PORTS = {"smtp": 587, "smtps": 465}
_FORMS = "smtps://user:password@mail.example:465, smtp://user:password@mail.example:587 or smtp://localhost:25"


@frozen
class MailServer:
    """Where mail is handed over."""

    host: str
    port: int
    tls: bool
    """From the start."""
    starttls: bool
    """Mail is not handed over without it."""
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def read(cls, text: str) -> MailServer | None:
        """None for an empty text; raises ValueError, which repeats nothing that may be a password."""
        if not text:
            return None
        try:
            url = urlsplit(text)
            port = url.port
        except ValueError:
            raise ValueError(f"this is no URL of a mail server; percent-encode passwords: {_FORMS}") from None
        options = parse_qs(url.query, keep_blank_values=True)
        unknown = set(options) - {"tls"} or set(options.get("tls", ())) - {"off"}
        if url.scheme not in _PORTS or not url.hostname or url.path not in ("", "/") or url.fragment or unknown:
            raise ValueError(f"this is no URL of a mail server: write {_FORMS}")
        plain = "tls" in options or is_loopback(url.hostname)
        if "tls" in options and (url.scheme == "smtps" or (url.password and not is_loopback(url.hostname))):
            raise ValueError("tls=off is for smtp:// without a password: nobody sends one in the clear")
        starttls = url.scheme == "smtp" and not plain
        user, password = unquote(url.username or ""), unquote(url.password or "")
        return cls(url.hostname, port or _PORTS[url.scheme], url.scheme == "smtps", starttls, user, password)
