"""Types of columns that a job declares: those of its fields. Of fields without one, the values tell the type."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.core.rules import Rule, read_rules
from shoal.core.spec import JobSpec
from shoal.output.columns import MAX_PARTS, ListOf, Scalar, Struct, Type, type_of

_TYPES: dict[str, Type] = {
    "text": Scalar.TEXT,
    "url": Scalar.TEXT,
    "number": Scalar.NUMBER,
    "integer": Scalar.INTEGER,
    "bool": Scalar.BOOL,
    "date": Scalar.DATE,
    "money": Struct((("amount", Scalar.NUMBER), ("currency", Scalar.TEXT))),
}


def declared_types(spec: JobSpec) -> Mapping[str, Type]:
    """Of the columns of a job's items, as far as its fields say."""
    types = {rule.name: _type_of(rule) for rule in read_rules(spec.fields, spec.each).fields}
    return {name: kind for name, kind in types.items() if kind is not Scalar.NOTHING}


def _type_of(rule: Rule) -> Type:
    """`NOTHING` is what values have to tell."""
    kind = _type_of_one(rule)
    return ListOf(kind) if rule.many and kind is not Scalar.NOTHING else kind


def _type_of_one(rule: Rule) -> Type:
    if rule.is_const:
        return type_of(rule.const)
    if rule.take == "exists":
        return Scalar.BOOL
    if not rule.fields:
        return _TYPES.get(rule.type, Scalar.NOTHING)
    parts = tuple((part.name, _type_of(part)) for part in rule.fields)
    return Struct(parts) if len(parts) <= MAX_PARTS else Scalar.NOTHING
