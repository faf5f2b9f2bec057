"""The frontier's keys are listed once, and its Lua operations are described and called in one place only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal.frontier import keys
from shoal.frontier.keys import KEYS
from shoal.frontier.scripts import OPERATIONS, PARTS, SHARED
from tests.architecture.lua_keys import Operation

SOURCE = Path(shoal.__file__).parent
LUA = SOURCE / "frontier" / "lua"
PRELUDE = (LUA / "prelude.lua").read_text()
LUA_FILES = sorted(LUA.rglob("*.lua"))
PYTHON_FILES = sorted((SOURCE / "frontier").glob("*.py"))

PLACEHOLDERS = {
    "job": "J",
    "host": "H",
    "queue": "Q",
    "bucket": "B",
    "level": "L",
    "group": "G",
    "key": "K",
    "worker": "W",
    "tenant": "T",
    "origin": "O",
    "proxy": "X",
    "sticky": "S",
    "chore": "C",
    "extraction": "E",
    "digest": "D",
}
LISTED = {family.name: family.pattern for family in KEYS}

_BUILDER = re.compile(r"^local function (\w+)_key\([^)]*\) return P \.\. (.+) end$", re.MULTILINE)
_CONSTANT = re.compile(r"^local ([A-Z]+) = P \.\. (.+)$", re.MULTILINE)
_RUNS_SCRIPTS = {"eval", "evalsha", "evalsha_ro", "eval_ro", "script_load", "register_script", "fcall", "fcall_ro"}


def _pattern(expression: str) -> str:
    """`':queue:' .. job` as keys.py writes it."""
    parts = [part.strip() for part in expression.split("..")]
    return "{P}" + "".join(part[1:-1] if part.startswith("'") else f"{{{PLACEHOLDERS[part]}}}" for part in parts)


def _built_in_lua() -> dict[str, str]:
    found = [*_BUILDER.findall(PRELUDE), *_CONSTANT.findall(PRELUDE)]
    return {name.lower(): _pattern(expression) for name, expression in found}


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def _keys_in(path: Path) -> list[str]:
    """Every f-string that begins with the frontier's prefix."""
    strings = [node.values for node in _nodes(path) if isinstance(node, ast.JoinedStr)]
    return ["".join(map(_piece, values)) for values in strings if _piece(values[0]) == "{P}"]


def _built_in_python() -> set[str]:
    return {key for path in PYTHON_FILES for key in _keys_in(path)}


def _piece(value: ast.expr) -> str:
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=ast.Attribute(attr="_prefix")):
            return "{P}"
        case ast.FormattedValue(value=ast.Name(id=name)) if name in PLACEHOLDERS:
            return f"{{{PLACEHOLDERS[name]}}}"
        case _:
            return "?"


def _calls(path: Path) -> Iterator[str]:
    """The names of all methods that a module calls or mentions."""
    return (node.attr for node in _nodes(path) if isinstance(node, ast.Attribute))


def _header(text: str) -> str:
    """The comment at the top."""
    return re.split(r"^(?!--)", text, maxsplit=1, flags=re.MULTILINE)[0]


def _code(path: Path) -> str:
    return re.sub(r"--.*", "", path.read_text())


def test_the_prelude_is_understood() -> None:
    """Or the tests below would compare nothing."""
    assert len(_built_in_lua()) == PRELUDE.count("P .. ':")


def test_every_key_that_lua_builds_is_listed_under_its_name() -> None:
    built = _built_in_lua()
    assert built == {name: pattern for name, pattern in LISTED.items() if name in built}


def test_every_key_that_python_builds_is_listed() -> None:
    assert _built_in_python() <= set(LISTED.values())


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda path: path.name)
def test_python_builds_keys_in_no_other_way(path: Path) -> None:
    """Whoever reads the prefix begins an f-string with it; only scripts.py hands it on as it is."""
    reads = [
        node
        for node in _nodes(path)
        if isinstance(node, ast.Attribute) and node.attr == "_prefix" and isinstance(node.ctx, ast.Load)
    ]
    assert len(reads) == len(_keys_in(path)) + (path.name == "scripts.py")


def test_every_placeholder_is_explained_and_used() -> None:
    explained = set(re.findall(r"\b([A-Z]) an? \w", " ".join((keys.__doc__ or "").split())))
    used = {letter for pattern in LISTED.values() for letter in re.findall(r"\{([A-Z])\}", pattern)} - {"P"}
    assert used == explained == set(PLACEHOLDERS.values())


def test_every_listed_key_is_built_somewhere() -> None:
    assert set(LISTED.values()) == set(_built_in_lua().values()) | _built_in_python()


def test_every_listed_key_has_a_type_a_use_and_a_lifetime() -> None:
    assert len(LISTED) == len(KEYS)
    for family in KEYS:
        assert family.type in ("hash", "list", "set", "zset", "string", "stream")
        assert family.holds
        assert family.lifetime


def test_key_builders_are_used() -> None:
    code = "".join(map(_code, LUA_FILES))
    names = [
        *(f"{name}_key" for name, _ in _BUILDER.findall(PRELUDE)),
        *(name for name, _ in _CONSTANT.findall(PRELUDE)),
    ]
    assert [name for name in names if len(re.findall(rf"\b{name}\b", code)) < 2] == []


@pytest.mark.parametrize("operation", OPERATIONS)
def test_only_the_prelude_builds_keys(operation: str) -> None:
    code = "".join(_code(LUA / f"{name}.lua") for name in (*SHARED[1:], *PARTS.get(operation, ()), operation))
    assert not re.search(r"\bKEYS\b|\bP\b", code)
    # The first argument of a command is a key: a builder's, a name for one, or a constant of the prelude.
    constants = frozenset(name for name, _ in _CONSTANT.findall(PRELUDE))
    assert list(Operation(code, constants).strangers()) == []


@pytest.mark.parametrize(
    "code",
    [
        "redis.call('GET', ARGV[1])",
        "redis.call('GET', 'literal')",
        "redis.call('GET', job_key(job) .. 'x')",
        "local key = name\nredis.call('GET', key)",
        "local key = job_key(job)\nlocal key = name\nredis.call('GET', key)",
        "local function look(key)\n  redis.call('GET', key)\nend\nlook(job_key(job))\nlook(name)",
        "local function look(key)\n  redis.call('GET', key)\nend",
        "local function look(place)\n  redis.call('GET', place.list)\nend\nlook({ list = name })",
        "redis.call('MGET', unpack(names))",
        "keys[#keys + 1] = job_key(job)\nkeys[#keys + 1] = name\nredis.call('MGET', unpack(keys))",
        "for _, key in ipairs({ job_key(job), name }) do\n  redis.call('GET', key)\nend",
    ],
)
def test_what_is_no_key_of_the_prelude_is_found_out(code: str) -> None:
    assert list(Operation(code, frozenset()).strangers())


@pytest.mark.parametrize("path", LUA_FILES, ids=lambda path: path.name)
def test_no_script_walks_the_keyspace(path: Path) -> None:
    commands = set(re.findall(r"redis\.p?call\(\s*['\"](\w+)", _code(path)))
    assert commands.isdisjoint({"KEYS", "SCAN", "RANDOMKEY", "FLUSHDB", "FLUSHALL", "DBSIZE"})


@pytest.mark.parametrize("path", LUA_FILES, ids=lambda path: path.name)
def test_every_script_calls_commands_by_their_names(path: Path) -> None:
    """A command in a variable could be any. The one that is: which end of a list to push to."""
    dynamic = re.findall(r"redis\.p?call\(\s*(?!['\"])(\w+)", _code(path))
    assert dynamic == (["push"] if path.name == "prelude.lua" else [])


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_says_what_it_does_takes_and_returns(operation: str) -> None:
    path = LUA / f"{operation}.lua"
    header = _header(path.read_text())
    assert re.match(rf"-- {operation}\.lua: \w.+\.$", header, re.MULTILINE)
    assert re.search(r"^-- ARGV", header, re.MULTILINE)
    assert re.search(r"^-- returns .+", header, re.MULTILINE)
    codes = (_code(LUA / f"{name}.lua") for name in (*PARTS.get(operation, ()), operation))
    used = set(re.findall(r"ARGV\[(\d+)\]", "".join(codes)))
    assert used <= set(re.findall(r"ARGV\[(\d+)", header))


def test_every_part_belongs_to_an_operation_and_says_what_it_is_about() -> None:
    parts = {part for names in PARTS.values() for part in names}
    found = sorted(path.relative_to(LUA).as_posix()[:-4] for path in LUA_FILES)
    assert sorted([*parts, *SHARED, *OPERATIONS]) == found
    own = [(operation, part) for operation, names in PARTS.items() for part in names if not part.startswith("some/")]
    assert all(part.split("/")[0] == operation for operation, part in own)
    for part in (*parts, *SHARED):
        assert (LUA / f"{part}.lua").read_text().startswith(f"-- {part}.lua: ")


def test_every_operation_is_offered_by_a_typed_face() -> None:
    names = (
        "frontier.py",
        "audit.py",
        "likeness.py",
        "parts.py",
        "proxies.py",
        "rebuild.py",
        "routes.py",
        "job_list.py",
        "moving.py",
        "slot.py",
        "spread_rebuild.py",
        "watch.py",
        "whereabouts.py",
    )
    faces = "".join((SOURCE / "frontier" / name).read_text() for name in names)
    assert set(re.findall(r'_scripts\.call\(\s*"(\w+)"', faces)) == set(OPERATIONS)


def test_nobody_but_scripts_runs_scripts() -> None:
    guilty = [path for path in SOURCE.rglob("*.py") if _RUNS_SCRIPTS & set(_calls(path))]
    assert [path.relative_to(SOURCE).as_posix() for path in guilty] == ["frontier/scripts.py"]
