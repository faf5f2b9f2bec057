"""Where the keys in a Lua operation come from: every name for one is followed back to the prelude's builders.

The operations are written in one plain way, which is all that is understood here: functions stand at the margin, a name
is bound by `local`, by a loop over a list, by a parameter, or as the field `list` of a table; many are put one after
the other into a list that is unpacked. Whatever cannot be followed is no key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_COMMAND = re.compile(r"redis\.call\('[A-Z]+', ")
_FUNCTION = re.compile(r"^local function (\w+)\(([^)]*)\)\n(.*?)^end$", re.MULTILINE | re.DOTALL)
_LOCAL = re.compile(r"\blocal (\w+(?:, \w+)*) = (.+)$", re.MULTILINE)
_LOOP = re.compile(r"\bfor _, (\w+) in ipairs\(\{ (.+) \}\) do")
_FIELD = re.compile(r"\{[^{}]*\blist = ([^,}]+)")
_BUILDER = re.compile(r"\w+_key\(.*\)")
_MANY = re.compile(r"unpack\((\w+)\)")
_CHOICE = re.compile(r"[\w.]+(?: == [\w.]+)? and (\w+_key\(.*\)) or (\w+_key\(.*\))")


@dataclass(frozen=True, slots=True)
class Function:
    """One function of an operation, or what stands outside of all."""

    name: str
    parameters: tuple[str, ...]
    body: str

    def bound(self, name: str) -> list[str]:
        """Everything that a local name stands for in here."""
        found: list[str] = []
        for names, values in _LOCAL.findall(self.body):
            pairs = zip(names.split(", "), split(values), strict=False)
            found += [value for one, value in pairs if one == name]
        loops = (values for one, values in _LOOP.findall(self.body) if one == name)
        return [*found, *(value for values in loops for value in split(values))]

    def gathered(self, name: str) -> list[str]:
        """Everything that is put into a local list in here."""
        return re.findall(rf"\b{name}\[#{name} \+ 1\] = (.+)$", self.body, re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Operation:
    """The code of an operation, without its comments."""

    code: str
    constants: frozenset[str]
    """Keys of the prelude that have no parts."""

    @property
    def functions(self) -> list[Function]:
        inner = [Function(name, tuple(split(names)), body) for name, names, body in _FUNCTION.findall(self.code)]
        return [*inner, Function("", (), _FUNCTION.sub("", self.code))]

    def strangers(self) -> Iterator[str]:
        """First arguments of commands that cannot be followed back to the prelude."""
        for function in self.functions:
            for command in _COMMAND.finditer(function.body):
                argument = split(_inside(function.body[command.end() :]))[0]
                if not argument.isdigit() and not self._is_key(argument, function, ()):
                    yield f"{function.name}: {argument}"

    def _is_key(self, value: str, where: Function, asked: tuple[tuple[str, str], ...]) -> bool:
        value = value.strip()
        if value in self.constants or _is_built(value):
            return True
        if choice := _CHOICE.fullmatch(value):
            return all(_is_built(one) for one in choice.groups())
        if many := _MANY.fullmatch(value):
            return self._all_keys(((one, where) for one in where.gathered(many[1])), asked)
        if (value, where.name) in asked:
            return True
        asked = (*asked, (value, where.name))
        if value.endswith(".list"):
            return self._all_keys(self._fields(), asked)
        if value in where.parameters:
            return not where.bound(value) and self._all_keys(self._arguments(where, value), asked)
        return self._all_keys(((one, where) for one in where.bound(value)), asked)

    def _all_keys(self, found: Iterable[tuple[str, Function]], asked: tuple[tuple[str, str], ...]) -> bool:
        values = list(found)
        return bool(values) and all(self._is_key(value, where, asked) for value, where in values)

    def _fields(self) -> Iterator[tuple[str, Function]]:
        return ((value, function) for function in self.functions for value in _FIELD.findall(function.body))

    def _arguments(self, called: Function, parameter: str) -> Iterator[tuple[str, Function]]:
        """What is handed over for a parameter, wherever the function is called."""
        place = called.parameters.index(parameter)
        for function in self.functions:
            for match in re.finditer(rf"\b{called.name}\(", function.body):
                yield split(_inside(function.body[match.end() :]))[place], function


def _is_built(value: str) -> bool:
    """Is this one call of a builder, and nothing behind it?"""
    return (
        bool(_BUILDER.fullmatch(value)) and _inside(value[value.index("(") + 1 :]) == value[value.index("(") + 1 : -1]
    )


def _inside(text: str) -> str:
    """Up to the bracket that closes."""
    depth = 1
    for place, character in enumerate(text):
        depth += (character in "({") - (character in ")}")
        if depth == 0:
            return text[:place]
    return text


def split(values: str) -> list[str]:
    """Values between commas, but for those inside brackets."""
    parts, depth = [""], 0
    for character in values:
        depth += (character in "({") - (character in ")}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
