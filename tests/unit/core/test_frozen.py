"""Values that are cheap to make: changed ones are new, and whole."""

from __future__ import annotations

from dataclasses import field

import pytest

from shoal.core.frozen import changed, frozen


@frozen
class Fish:
    name: str
    fins: int = 7
    _weighed: float | None = field(default=None, init=False, compare=False)


def test_a_changed_value_has_the_other_fields_and_the_old_one_stays() -> None:
    old = Fish("cod", 8)
    assert changed(old, name="bass") == Fish("bass", 8)
    assert changed(old, fins=9, name="bass") == Fish("bass", 9)
    assert old == Fish("cod", 8)


def test_a_field_that_there_is_not_cannot_be_changed() -> None:
    with pytest.raises(KeyError, match="gills"):
        changed(Fish("cod"), gills=2)
