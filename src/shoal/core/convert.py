"""Values of pages as values of programs: numbers, money, dates, truths. What is none of them becomes None.

Without a locale only what can be read in one way is read: `1.234,56` has one meaning, `03/04/2024` has two.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from shoal.core.dates import read_date

MAX_CONVERTED_CHARS = 200
"""Of a text that becomes a number, a sum of money, a date or a truth: longer ones are none."""
_MOST = 2**63
"""Integers from here on are more than most programs and databases take."""

_NUMBER = re.compile(
    r"[+\-\u2212\u2013]?"
    r"(?:(?!0)\d{1,3}(?:[\s\u00a0\u202f'\u2019]\d{3}(?!\d))+(?:[.,]\d+)?|\d+(?:[.,]\d+)*|[.,]\d+)"
)
"""With what may stand between its digits; a space or an apostrophe only before three of them."""
_SPACES = re.compile(r"[\s\u00a0\u202f'\u2019]")
_EXPONENT = re.compile(r"[+\-]?\d+(?:\.\d+)?[eE][+\-]?\d{1,3}")
_YES = frozenset(["true", "yes", "on", "1", "y", "ja", "oui", "si", "sí", "sì", "sim", "tak", "ano", "да"])
_NO = frozenset(["false", "no", "off", "0", "n", "nein", "non", "não", "nie", "ne", "нет"])
_LETTER = r"[^\W\d_]"
_CODE = rf"(?<!{_LETTER})[A-Z]{{3}}(?!{_LETTER})"
_SYMBOLS = {
    "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₩": "KRW", "₺": "TRY", "₴": "UAH", "₪": "ILS",
    "฿": "THB", "₫": "VND", "₱": "PHP", "₦": "NGN", "zł": "PLN", "kč": "CZK", "ft": "HUF", "лв": "BGN", "lei": "RON",
    "us$": "USD", "a$": "AUD", "c$": "CAD", "ca$": "CAD", "au$": "AUD", "nz$": "NZD", "hk$": "HKD", "s$": "SGD",
    "r$": "BRL", "mx$": "MXN", "$": "USD", "fr.": "CHF", "kr": "SEK",
}  # fmt: skip
_SHARED = {
    "$": frozenset([
        "USD", "CAD", "AUD", "NZD", "HKD", "SGD", "MXN", "ARS", "CLP", "COP", "TWD", "BBD", "BMD", "BND", "BSD", "BZD",
        "DOP", "FJD", "GYD", "JMD", "KYD", "LRD", "NAD", "SBD", "SRD", "TTD", "UYU", "XCD",
    ]),
    "kr": frozenset(["SEK", "NOK", "DKK", "ISK"]),
    "¥": frozenset(["JPY", "CNY"]),
    "£": frozenset(["GBP", "EGP", "LBP", "SYP", "FKP", "GIP", "SHP"]),
}  # fmt: skip
"""Symbols of several currencies: with a locale, its country's one is meant; and a code beside them says which."""


def _alone(symbol: str) -> str:
    """Its letters are not those of a longer word: `ft` is none of `gift`."""
    before = rf"(?<!{_LETTER})" if symbol[0].isalpha() else ""
    after = rf"(?!{_LETTER})" if symbol[-1].isalpha() else ""
    return before + re.escape(symbol) + after


_ANY_SYMBOL = "(?i:" + "|".join(map(_alone, sorted(_SYMBOLS, key=len, reverse=True))) + ")"
_SYMBOL = re.compile(_ANY_SYMBOL)
_BEFORE = re.compile(rf"(?:(?P<code>{_CODE})[\s:()\[\]]*)?(?P<symbol>{_ANY_SYMBOL})?[\s:()\[\]]*$")
"""What may stand before an amount: `CHF 5`, `CAD $5`, `Price (EUR): 5`."""
_AFTER = re.compile(rf"(?:[.,]?[\-\u2013\u2014]+)?[\s(\[]*(?P<symbol>{_ANY_SYMBOL})?(?:[\s(\[]*(?P<code>{_CODE}))?")
"""And behind one: `5 €`, `$5 CAD`, `5,- EUR`."""


def convert(value: Any, kind: str, locale: str = "", form: str = "") -> Any:
    """The value as this type, or None when it is none; `url` needs a page, and is no business of this."""
    if isinstance(value, str):
        text = value.strip()
        if kind == "text":
            return value
        return _of_text(text, kind, locale, form) if len(text) <= MAX_CONVERTED_CHARS else None
    return _OF_JSON[kind](value)


@lru_cache(maxsize=4000)
def _of_text(text: str, kind: str, locale: str, form: str) -> Any:
    if kind == "date":
        return read_date(text, locale, form)
    if kind == "bool":
        return read_bool(text)
    if kind == "money":
        return read_money(text, locale)
    return read_number(text, locale) if kind == "number" else read_integer(text, locale)


def read_number(text: str, locale: str = "") -> float | int | None:
    """The first number in a text: an integer when it has no fraction."""
    if _EXPONENT.fullmatch(text):
        return _plain(text)
    match = _NUMBER.search(text)
    if match is None:
        return None
    number = re.sub(r"[\u2212\u2013]", "-", _SPACES.sub("", match[0]))
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number.lstrip("+"))
    plain = _by_locale(digits, locale) if locale else _by_form(digits)
    return None if plain is None else _plain(sign + plain)


def read_integer(text: str, locale: str = "") -> int | None:
    """A number without a fraction."""
    number = read_number(text, locale)
    if isinstance(number, float) and number.is_integer() and abs(number) < _MOST:
        return int(number)
    return number if isinstance(number, int) else None


def read_money(text: str, locale: str = "") -> dict[str, Any] | None:
    """An amount, and its currency as far as the text names one."""
    amount = read_number(text, locale)
    return None if amount is None else {"amount": amount, "currency": read_currency(text, locale)}


def read_currency(text: str, locale: str = "") -> str | None:
    """By a symbol or a code beside a number, the first that has one; else by a symbol anywhere.

    A code elsewhere is a word like any other: `TOP DEAL £5`.
    """
    for number in _NUMBER.finditer(text):
        if found := _currency_beside(text, *number.span(), locale):
            return found
    match = _SYMBOL.search(text)
    return _currency_by(match[0], locale) if match else None


def _currency_beside(text: str, start: int, end: int, locale: str) -> str:
    """A symbol wins over a code that it cannot mean: `TRY £5`."""
    sides = [side for side in (_BEFORE.search(text, 0, start), _AFTER.match(text, end)) if side]
    codes = [side["code"] for side in sides if side["code"] in _currencies()]
    symbol = next((side["symbol"] for side in sides if side["symbol"]), "").lower()
    if not symbol:
        return codes[0] if codes else ""
    meant = {_SYMBOLS[symbol], *_SHARED.get(symbol, ())}
    return next((code for code in codes if code in meant), None) or _currency_by(symbol, locale)


def _currency_by(symbol: str, locale: str) -> str:
    """A symbol of several is that of the locale's country."""
    symbol = symbol.lower()
    local = _currency_of(locale) if symbol in _SHARED and locale else ""
    return local if local in _SHARED.get(symbol, ()) else _SYMBOLS[symbol]


def read_bool(text: str) -> bool | None:
    """`true`, `yes`, `on`, `1` and their opposites; some other languages' words too."""
    word = text.lower().strip(" .!")
    return True if word in _YES else False if word in _NO else None


def check_locale(name: str) -> str | None:
    """What is wrong with it, if anything."""
    from babel import Locale, UnknownLocaleError

    try:
        Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError, TypeError):
        return f"there is no locale {name[:40]!r}; write a language such as de, or de-CH"
    return None


def _by_locale(digits: str, locale: str) -> str | None:
    """As the locale writes numbers; one that cannot be meant so is read by its form (`12.50` under `de`)."""
    decimal, group = _separators(locale)
    whole, mark, fraction = digits.partition(decimal)
    plain = _ungrouped(whole, group) if whole else "0"
    if plain is None or (mark and not fraction.isdigit()):
        return _by_form(digits)
    return f"{plain}.{fraction}" if mark else plain


def _by_form(digits: str) -> str | None:
    """The last of two kinds of separators is the decimal one; a comma alone is, but before three digits."""
    if "," in digits and "." in digits:
        decimal, group = (",", ".") if digits.rfind(",") > digits.rfind(".") else (".", ",")
    elif digits.count(".") == 1:
        decimal, group = ".", ""
    else:
        group = "," if "," in digits else "."
        if (plain := _ungrouped(digits, group)) is not None:
            return plain
        decimal, group = ",", ""
    whole, _, fraction = digits.partition(decimal)
    plain = _ungrouped(whole, group) if whole else "0"
    return f"{plain}.{fraction}" if plain is not None and fraction.isdigit() else None


def _ungrouped(whole: str, group: str) -> str | None:
    """The digits of a whole number: in threes, or as in India, where commas stand before two, last before three.

    Nobody groups what begins with a 0: `0,125` is a fraction.
    """
    first, *others = whole.split(group) if group else [whole]
    if others and first.startswith("0"):
        return None
    in_threes = len(first) <= 3 and all(len(part) == 3 for part in others)
    in_twos = (
        group == ","
        and len(first) <= 2
        and all(len(part) == 2 for part in others[:-1])
        and others[-1:]
        and len(others[-1]) == 3
    )
    plain = "".join((first, *others))
    return plain if plain.isdigit() and (not others or (first and (in_threes or in_twos))) else None


def _plain(text: str) -> float | int | None:
    try:
        number = float(text) if any(mark in text for mark in ".eE") else int(text)
    except ValueError:
        return None
    if isinstance(number, int):
        return number if abs(number) < _MOST else float(number)
    return number if abs(number) < float("inf") else None


@lru_cache(maxsize=100)
def _separators(locale: str) -> tuple[str, str]:
    from babel import Locale

    symbols = Locale.parse(locale.replace("-", "_")).number_symbols["latn"]
    return symbols["decimal"], _SPACES.sub("", symbols["group"])


@lru_cache(maxsize=100)
def _currency_of(locale: str) -> str:
    from babel import Locale
    from babel.core import get_global
    from babel.numbers import get_territory_currencies

    parsed = Locale.parse(locale.replace("-", "_"))
    likely = get_global("likely_subtags").get(str(parsed), "")
    territory = parsed.territory or likely.rpartition("_")[2]
    found = get_territory_currencies(territory) if len(territory) == 2 else []
    return found[0] if found else ""


@lru_cache(maxsize=1)
def _currencies() -> frozenset[str]:
    from babel.numbers import list_currencies

    return frozenset(list_currencies())


def _number_of(value: Any) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _integer_of(value: Any) -> int | None:
    number = _number_of(value)
    return int(number) if number is not None and abs(number) < _MOST and number == int(number) else None


def _money_of(value: Any) -> dict[str, Any] | None:
    number = _number_of(value)
    return None if number is None else {"amount": number, "currency": None}


def _bool_of(value: Any) -> bool | None:
    return value if isinstance(value, bool) else bool(value) if value in (0, 1) else None


def _date_of(value: Any) -> str | None:
    number = _number_of(value)
    return None if number is None else read_date(str(number), "", "unix")


def _text_of(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


_OF_JSON: dict[str, Callable[[Any], Any]] = {
    "text": _text_of,
    "number": _number_of,
    "integer": _integer_of,
    "money": _money_of,
    "date": _date_of,
    "bool": _bool_of,
}
