"""Texts of pages as numbers, money, dates and truths."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.convert import MAX_CONVERTED_CHARS, check_locale, convert, read_integer, read_money, read_number
from shoal.core.dates import check_form, read_date


@pytest.mark.parametrize(
    ("text", "locale", "number"),
    [
        ("1,234.56", "", 1234.56),
        ("1.234,56", "", 1234.56),
        ("12,50", "", 12.5),
        ("1,234", "", 1234),
        ("1.234", "", 1.234),
        ("1.234", "de", 1234),
        ("1.234,56 €", "de", 1234.56),
        ("1 234,50", "fr", 1234.5),
        ("1'234.50", "de-CH", 1234.5),
        ("1\u2019234\u2019567", "de-CH", 1234567),
        ("5'11", "de-CH", 5),
        ("12.50", "de", 12.5),
        ("12,50", "en", 12.5),
        ("1,234.50", "de", 1234.5),
        ("1.234,50", "en", 1234.5),
        ("1.234.50", "de", None),
        ("12.03.2024", "de", None),
        ("12,34,567.50", "en-IN", 1234567.5),
        ("12,34,567", "hi", 1234567),
        ("12,34,567", "", 1234567),
        ("12,34.5", "", None),
        ("1234.567", "de", 1234.567),
        ("2024 500", "fr", 2024),
        (".50", "de", 0.5),
        ("0,125", "", 0.125),
        ("0,125", "en", 0.125),
        ("0.125", "de", 0.125),
        ("0,007 kg", "", 0.007),
        ("-0,500", "", -0.5),
        ("0,125.50", "", None),
        ("0 125", "fr", 0),
        ("1,234,567", "", 1234567),
        ("1.234.567", "", 1234567),
        ("\u22125.5", "", -5.5),
        ("Price: £12.99 inc. 20 % tax", "", 12.99),
        ("10 20", "", 10),
        ("1e5", "", 100000.0),
        (".5", "", 0.5),
        ("12.", "", 12),
        ("1.2.3", "", None),
        ("none", "", None),
        ("", "", None),
    ],
)
def test_a_number_is_read_in_the_one_way_that_there_is(text: str, locale: str, number: float | None) -> None:
    assert read_number(text, locale) == number


@pytest.mark.parametrize(("text", "number"), [("1,234", 1234), ("5.0", 5), ("5.5", None), ("x", None)])
def test_an_integer_has_no_fraction(text: str, number: int | None) -> None:
    assert read_integer(text) == number


@pytest.mark.parametrize(
    ("text", "locale", "amount", "currency"),
    [
        ("£20.49", "", 20.49, "GBP"),
        ("1.234,56 €", "", 1234.56, "EUR"),
        ("CHF 5", "", 5, "CHF"),
        ("USD 5", "de", 5, "USD"),
        ("$5", "", 5, "USD"),
        ("$5", "en-CA", 5, "CAD"),
        ("$5", "fr", 5, "USD"),
        ("5 kr", "da", 5, "DKK"),
        ("12", "", 12, None),
        ("THE 5", "", 5, None),
        ("After discount: £20.00", "", 20, "GBP"),
        ("Gift card £20", "", 20, "GBP"),
        ("Craft beer €5", "", 5, "EUR"),
        ("Kraft $5", "", 5, "USD"),
        ("Gift 5", "", 5, None),
        ("PLUS$5", "", 5, "USD"),
        ("5kr", "", 5, "SEK"),
        ("1 990 Ft", "", 1990, "HUF"),
        ("TOP DEAL £20.49", "", 20.49, "GBP"),
        ("TRY NOW: £5", "", 5, "GBP"),
        ("TRY £5", "", 5, "GBP"),
        ("TRY NOW: 5", "", 5, None),
        ("£5. ALL sizes", "", 5, "GBP"),
        ("CAD $5", "", 5, "CAD"),
        ("$5 CAD", "", 5, "CAD"),
        ("$5 JMD", "", 5, "JMD"),
        ("USD$5", "", 5, "USD"),
        ("5USD", "", 5, "USD"),
        ("Price (EUR): 5", "", 5, "EUR"),
        ("5,- EUR", "", 5, "EUR"),
        ("5.- CHF", "", 5, "CHF"),
        ("10 - 20 EUR", "", 10, "EUR"),
        ("Prices in €: 5", "", 5, "EUR"),
    ],
)
def test_money_has_an_amount_and_perhaps_a_currency(text: str, locale: str, amount: float, currency: str) -> None:
    assert read_money(text, locale) == {"amount": amount, "currency": currency}


@pytest.mark.parametrize(
    ("text", "locale", "form", "date"),
    [
        ("2024-03-12", "", "", "2024-03-12"),
        ("2024-03-12T14:30:00Z", "", "", "2024-03-12T14:30:00+00:00"),
        ("12. März 2024", "de", "", "2024-03-12"),
        ("12.03.2024", "", "", "2024-03-12"),
        ("03/04/2024", "", "", None),
        ("03/03/2024", "", "", "2024-03-03"),
        ("13/12/2024", "", "", "2024-12-13"),
        ("03/04/2024", "en-GB", "", "2024-04-03"),
        ("03/04/2024", "en-US", "", "2024-03-04"),
        ("March 12th, 2024 2:30 pm", "", "", "2024-03-12T14:30:00"),
        ("Tue, 12 Mar 2024 14:30:00 GMT", "", "", "2024-03-12T14:30:00+00:00"),
        ("1 de marzo de 2024", "es", "", "2024-03-01"),
        ("12 марта 2024 г.", "ru", "", "2024-03-12"),
        ("2024年3月12日", "ja", "", "2024-03-12"),
        ("12.03.24", "", "%d.%m.%y", "2024-03-12"),
        ("12. März 2024", "de", "%d. %B %Y", "2024-03-12"),
        ("1710253800", "", "unix", "2024-03-12T14:30:00+00:00"),
        ("1710253800000", "", "unix", "2024-03-12T14:30:00+00:00"),
        ("March 2024", "", "", None),
        ("12 March", "", "", None),
        ("31.02.2024", "", "", None),
        ("12 bananas 2024", "", "", None),
        ("yesterday", "", "", None),
        ("5", "", "", None),
    ],
)
def test_a_date_is_read_when_nothing_has_to_be_guessed(text: str, locale: str, form: str, date: str | None) -> None:
    assert read_date(text, locale, form) == date


@pytest.mark.parametrize(
    ("text", "truth"), [("Yes", True), ("no", False), ("1", True), ("0", False), ("on", True), ("maybe", None)]
)
def test_a_truth_is_a_word_for_it(text: str, truth: bool | None) -> None:
    assert convert(text, "bool") is truth


@pytest.mark.parametrize(
    ("value", "kind", "made"),
    [
        (5, "text", "5"),
        (True, "text", "true"),
        (5.5, "number", 5.5),
        (True, "number", None),
        (5.0, "integer", 5),
        (5.5, "integer", None),
        (5, "money", {"amount": 5, "currency": None}),
        (1710253800, "date", "2024-03-12T14:30:00+00:00"),
        (1, "bool", True),
        ([], "number", None),
        ({}, "text", None),
    ],
)
def test_values_of_json_are_converted_too(value: Any, kind: str, made: Any) -> None:
    assert convert(value, kind) == made


def test_a_long_text_is_nothing_but_a_text() -> None:
    long = "1" + " " * MAX_CONVERTED_CHARS + "x"
    assert [convert(long, kind) for kind in ("number", "money", "date", "bool")] == [None] * 4
    assert convert(long, "text") == long


@given(st.text(max_size=60), st.sampled_from(["number", "integer", "money", "date", "bool"]))
def test_whatever_a_page_says_becomes_json_or_nothing(text: str, kind: str) -> None:
    for locale in ("", "de", "en-US"):
        json.dumps(convert(text, kind, locale), allow_nan=False)


@given(st.integers(-(10**15), 10**15))
def test_every_integer_comes_back(number: int) -> None:
    assert read_integer(str(number)) == number
    assert read_integer(f"{number:,}") == number


@given(st.dates())
def test_every_iso_date_comes_back(date: Any) -> None:
    assert read_date(date.isoformat()) == date.isoformat()


def test_locales_and_forms_are_checked() -> None:
    assert check_locale("de-CH") is None
    assert "no locale 'xx'" in str(check_locale("xx"))
    assert check_form("%d.%m.%Y") is None
    assert check_form("unix") is None
    assert check_form("%d.%m.") == "it has no year"
    assert "strptime" in str(check_form("dd.mm.yyyy"))
    assert check_form("%Q")
