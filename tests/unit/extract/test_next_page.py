"""The link to the next page, by CSS and by XPath."""

from __future__ import annotations

import pytest

from shoal.core.url import Base
from shoal.extract.next_page import next_links
from shoal.extract.page import Html

BODY = b"<ul><li class=next><a name=top></a><a href=/2>2</a></li></ul>"


@pytest.mark.parametrize("selector", ["li.next", "//li[@class='next']", "//li/a/@href", "li.next a[href]"])
def test_the_first_link_with_an_address_is_the_next_page(selector: str) -> None:
    page = Html.parse(BODY, "utf-8", Base("http://a.example/"))
    assert next_links(page, BODY, "utf-8", selector) == ("/2",)
