"""The dashboard: a few files that a browser runs, served to everybody. What they show, they ask of the API."""

from __future__ import annotations

import gzip
from functools import cache
from hashlib import sha256
from pathlib import Path

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from shoal.core.frozen import frozen

blueprint = Blueprint("dashboard", __name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types"
)
"""Its own scripts and styles, from files; and nothing that could make markup of a text."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@frozen
class Part:
    """One file."""

    body: bytes
    packed: bytes
    """With gzip."""
    content_type: str
    etag: str


@blueprint.get("/")
def home() -> Response:
    """Every view begins here. Its scripts are named in a header, for browsers to ask for all of them at once."""
    response = _send(parts()["index.html"])
    response.headers["Link"] = ", ".join(f"</ui/{name}>; rel=modulepreload" for name in parts() if name.endswith(".js"))
    return response


@blueprint.get("/ui/<name>")
def part(name: str) -> Response:
    """A script, the styles, the picture."""
    found = parts().get(name)
    if found is None:
        raise NotFound
    return _send(found)


@cache
def parts() -> dict[str, Part]:
    """Every file by its name."""
    return {file.name: _read(file) for file in Path(__file__).parent.iterdir() if file.suffix in _TYPES}


def _read(file: Path) -> Part:
    body = file.read_bytes()
    return Part(body, gzip.compress(body, mtime=0), _TYPES[file.suffix], sha256(body).hexdigest()[:32])


def _send(found: Part) -> Response:
    packs = request.accept_encodings["gzip"] > 0
    response = Response(found.packed if packs else found.body, content_type=found.content_type)
    if packs:
        response.headers["Content-Encoding"] = "gzip"
    response.vary.add("Accept-Encoding")
    response.set_etag(f"{found.etag}.gz" if packs else found.etag)
    response.headers["Cache-Control"] = "no-cache"  # asked for each time, and sent when it has changed
    response.headers["Content-Security-Policy"] = POLICY
    response.make_conditional(request)
    return response
