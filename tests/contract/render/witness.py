"""A server that remembers the headers it was asked with."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass(slots=True)
class Witness:
    """Answers each path as it is told: a page, or `→ URL` for a redirect."""

    port: int = 0
    pages: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list[tuple[str, str, Mapping[str, str]]])
    """Host, path and headers, with their names in lower case."""

    def link(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def headers(self, path: str, host: str = "127.0.0.1") -> Mapping[str, str]:
        """Of the one request for this."""
        (found,) = (each for name, asked, each in self.asked if asked == path and name == f"{host}:{self.port}")
        return found


@contextmanager
def witnessing() -> Generator[Witness]:
    witness = Witness()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            witness.asked.append((headers["host"], self.path, headers))
            text = witness.pages.get(self.path, "")
            elsewhere = text.startswith("→ ")
            body = b"" if elsewhere else text.encode()
            self.send_response(302 if elsewhere else 200)
            self.send_header("Location" if elsewhere else "Content-Type", text[2:] if elsewhere else "text/html")
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    witness.port = server.server_address[1]
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield witness
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
