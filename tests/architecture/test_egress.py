"""Nothing opens a connection around the egress guard: who can make one is named here, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent.parent / "src" / "shoal"

CLIENTS = frozenset(
    {
        *("socket", "ssl", "aiohttp", "aiohttp_socks", "python_socks", "http", "urllib", "urllib3", "requests"),
        *("httpx", "httpcore", "websockets", "websocket", "ftplib", "smtplib", "telnetlib", "xmlrpc", "pycurl"),
        *("curl_cffi", "playwright", "boto3", "botocore", "aiobotocore", "s3fs", "fsspec", "dns", "aiodns"),
    }
)
"""Modules with which connections can be made."""
HARMLESS = {"urllib": ("urllib.parse",), "http": ("http",), "aiohttp": ("aiohttp.abc",)}
CALLS = frozenset(
    {
        *("create_connection", "open_connection", "open_unix_connection", "create_unix_connection"),
        *("sock_connect", "connect_ex", "create_datagram_endpoint", "getaddrinfo", "gethostbyname"),
    }
)
"""Methods with which connections can be made, whatever they are called on."""

WHO = {
    "fetch/guard.py": "the guard itself",
    "fetch/http.py": "the HTTP client: its connectors are the guard's",
    "fetch/outcomes.py": "knows what clients raise",
    "fetch/reuse.py": "refines connectors, and makes none",
    "fetch/proxied.py": "ways through proxies: their connectors are the guard's",
    "api/server.py": "listens",
    "api/serve.py": "listens",
    "cli/up.py": "asks the API that it has started whether it answers",
    "worker/outage.py": "knows this machine's name",
    "worker/pulse.py": "knows this machine's name",
    "frontier/away.py": "knows what TLS with Redis can fail of",
    "drill/site.py": "listens on this machine, for the drill",
    "cli/run.py": "looks names up, to tell people of misspelt ones before anything starts",
}
"""File → why it may."""


def _files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _can_connect(tree: ast.Module) -> bool:
    for node in ast.walk(tree):
        for module in _imported(node):
            top = module.partition(".")[0]
            if top in CLIENTS and module not in HARMLESS.get(top, ()):
                return True
        if _called(node) in CALLS:
            return True
    return False


def test_only_these_can_make_connections() -> None:
    assert {name for name, tree in _files() if _can_connect(tree)} == WHO.keys()


def test_only_the_guard_makes_connectors() -> None:
    makers = {
        name for name, tree in _files() for node in ast.walk(tree) if _called(node).endswith(("Connector", "socket"))
    }
    assert makers - {"api/server.py", "drill/site.py"} == {"fetch/guard.py"}  # those two listen


def test_every_session_has_a_connector_of_the_guards() -> None:
    sessions = [
        (name, {keyword.arg for keyword in node.keywords})
        for name, tree in _files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _called(node) == "ClientSession"
    ]
    assert [name for name, _ in sessions] == ["fetch/http.py"]
    assert all("connector" in given for _, given in sessions)
