"""Values that are cheap to make: changed ones are new, and whole."""

from __future__ import annotations

import pickle
from dataclasses import field

import pytest

from shoal.core.frozen import changed, frozen, names_of, values_of


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


@frozen
class Shark:
    name: str
    secret: str = field(default="", repr=False)
    seen: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return self.name


@frozen
class Nobody:
    pass


@frozen
class Quiet:
    name: str

    def __repr__(self) -> str:
        return "quiet"


def test_values_are_equal_by_their_fields_and_only_to_their_kind() -> None:
    assert Fish("cod") == Fish("cod", 7)
    assert Fish("cod") != Fish("bass")
    assert Shark("cod", seen=1) == Shark("cod", seen=2) != Shark("cod", "x")
    assert Fish("cod") != Quiet("cod")
    assert Nobody() == Nobody() != ()


def test_equal_values_have_equal_hashes() -> None:
    assert {Fish("cod"), Fish("cod", 7), Fish("bass")} == {Fish("bass"), Fish("cod")}
    assert hash(Shark("cod", seen=1)) == hash(Shark("cod", seen=2))
    assert hash(Nobody()) == hash(Nobody())


def test_a_value_is_shown_as_it_is_written_without_what_is_not_to_be_shown() -> None:
    assert repr(Fish("cod", 8)) == "Fish(name='cod', fins=8, _weighed=None)"
    assert repr(Shark("cod", "s3cret", 2)) == "Shark(name='cod', seen=2)"
    assert str(Shark("cod")) == "cod"
    assert repr(Nobody()) == "Nobody()"


def test_what_a_class_says_itself_stays() -> None:
    assert repr(Quiet("cod")) == "quiet"


@frozen
class Alike:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Alike) and self.name == other.name


def test_who_compares_in_a_way_of_its_own_can_be_in_a_set_all_the_same() -> None:
    assert len({Alike("cod"), Alike("cod"), Alike("bass")}) == 2


def test_a_value_is_read_by_its_names() -> None:
    assert names_of(Shark) == ("name", "secret", "seen")
    assert values_of(Shark("cod", "s3cret")) == {"name": "cod", "secret": "s3cret", "seen": 0}


def test_values_go_to_other_processes_and_can_be_matched() -> None:
    assert pickle.loads(pickle.dumps(Fish("cod", 8))) == Fish("cod", 8)
    match Fish("cod", 8):
        case Fish(name, 8):
            assert name == "cod"
        case _:
            pytest.fail("it is a fish")
