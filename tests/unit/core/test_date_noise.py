"""Dates and times in texts are put aside, and nothing else is."""

from __future__ import annotations

import pytest
from babel import Locale

from shoal.core.date_noise import MARK, without_dates
from shoal.core.month_names import LANGUAGES, MONTHS


@pytest.mark.parametrize(
    "text",
    [
        *("2026-03-12", "2026-03-12T14:30:00Z", "2026-03-12 14:30:00.123+01:00", "12.03.2026", "12.03.26", "3/12/2026"),
        *(
            "12/03/2026",
            "2026/3/12",
            "12-03-2026",
            "2026年3月12日",
            "2026년 3월 12일",
            "14:30",
            "2:30 pm",
            "14:30:05 UTC",
        ),
        *("12 March 2026", "March 12th, 2026", "12. März 2026", "12 de marzo de 2026", "3 août 2026", "Mar 12, 2026"),
        *("12 марта 2026 г.", "12 Mar 2026", "13 May", "3. August", "March 2026", "Thursday, 12 March 2026 at 14:30"),
        *("Donnerstag, den 12. März 2026 um 14:30 Uhr", "Tue, 12 Mar 2026 10:00:00 GMT", "Yesterday at 14:30"),
        *("3 minutes ago", "an hour ago", "just now", "vor 3 Minuten", "il y a 2 heures", "hace una hora", "3分前"),
        *("10am", "10 pm", "12 de out. de 2026", "3 mars"),
        *("3 godziny temu", "2 часа назад", "12 March – 15 March 2026", "14h30", "9:00 - 17:00"),
    ],
)
def test_a_date_is_put_aside_however_it_is_written(text: str) -> None:
    assert without_dates(text) == MARK
    assert without_dates(f"Updated {text} by us.") == f"Updated {MARK} by us."


@pytest.mark.parametrize(
    "text",
    [
        *("© 2026 by us", "12 may apply", "in march 12 people", "version 10.2.20", "12.50 €", "1,999.00", "3:2", "May"),
        *(
            "192.168.10.12",
            "il y a 3 voitures",
            "3 maisons",
            "for 3 days",
            "page 3 of 12",
            "10 000",
            "sku 2026-0312-77",
        ),
        *("5 Out of 10", "Set 12", "Sold out 2026", "it may 2026", "3 am Lager", "v2026.3.12", "app 2026.3.1"),
        *("Version 2026.03.12", "version: 22.04.03", "Firmware 10.12.14", "May apply 2026"),
        *("12 marches", "agony", "call 030/12/2026/7", "x12:30", "12:99", "300 March"),
    ],
)
def test_what_is_no_date_beyond_doubt_stays(text: str) -> None:
    assert without_dates(text) == text


def test_dates_do_not_reach_over_lines() -> None:
    assert without_dates("12\nMarch\n2026") == "12\nMarch\n2026"
    assert without_dates("a 12 March 2026\n14:30 b") == f"a {MARK}\n{MARK} b"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_month_of_a_language_is_known(language: str) -> None:
    for name in Locale.parse(language).months["format"]["wide"].values():
        assert without_dates(f"12 {name} 2026") == MARK, name
    assert MONTHS
