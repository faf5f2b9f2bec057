"""Contracts by pydantic models of the operator's, with real workers."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.command import Shoal
from tests.site.server import Server

MODELS = """
import shoal
from pydantic import BaseModel, field_validator

@shoal.model("Book")
class Book(BaseModel):
    title: str
    price: str

    @field_validator("price")
    @classmethod
    def is_in_pounds(cls, price):
        if not price.startswith("£"):
            raise ValueError("not in pounds")
        return price

@shoal.model("Broken")
class Broken(BaseModel):
    @field_validator("*", mode="before")
    @classmethod
    def fails(cls, value):
        raise RuntimeError("no such thing")
    title: str
"""
FAST = ("--rate", "unlimited", "--no-robots", "--workers", "1", "--json", "--quiet")


@pytest.fixture
def modelled(shoal: Shoal, tmp_path: Path) -> Generator[Shoal]:
    """Commands that know the models."""
    file = tmp_path / "models.py"
    file.write_text(MODELS, encoding="utf-8")
    yield replace(shoal, extra=(("SHOAL_SPIDERS", str(file)),))


def _job(tmp_path: Path, url: str, model: str) -> str:
    file = tmp_path / f"{model}.yaml"
    given = {"fields": {"title": "h1", "price": ".price"}, "contract": {"model": model}, "urls": [url]}
    file.write_text(json.dumps({**given, "pages": 30, "allow": ["/books/", "/category/"]}))
    return str(file)


def test_items_that_a_model_refuses_are_in_quarantine_with_its_words(
    modelled: Shoal, bookshop: Server, tmp_path: Path
) -> None:
    done = modelled.run("crawl", "-j", _job(tmp_path, bookshop.url, "Book"), *FAST)
    assert done.code == 0, done.err
    job = done.json["job"]
    kept, broken = modelled.run("results", job).records, modelled.run("quarantine", job).records
    assert kept
    assert broken
    assert all(record["price"].startswith("£") for record in kept)
    assert {reason for record in broken for reason in record["reasons"]} == {"price: Input should be a valid string"}
    again = modelled.run("extract", job, "--spec", _job(tmp_path, bookshop.url, "Broken"), "--json", "-q")
    assert again.code == 0, again.err
    assert modelled.run("results", job, "--version", "v2").records == []
    reasons = modelled.run("quarantine", job, "--version", "v2").records[0]["reasons"]
    assert reasons == ["Broken: RuntimeError: no such thing (models.py, line 22)"]


def test_a_contract_can_only_name_a_model_that_is_registered(modelled: Shoal, bookshop: Server, tmp_path: Path) -> None:
    done = modelled.run("crawl", "-j", _job(tmp_path, bookshop.url, "Nobody"), *FAST)
    assert done.code == 2
    assert "there is no model 'Nobody': registered: Book, Broken" in done.err
    assert bookshop.hits == []


def test_the_command_lists_models_beside_spiders(modelled: Shoal) -> None:
    listed = {each["name"]: each for each in json.loads(modelled.run("spiders", "--json").out)}
    assert {(each["kind"], name) for name, each in listed.items()} >= {("model", "Book"), ("model", "Broken")}
    assert "price" in listed["Book"]["fields"]
    assert listed["Book"]["source"].rpartition(":")[0].endswith("models.py")
    shown = modelled.run("spiders").out
    assert "model" in shown
    assert "Broken" in shown
