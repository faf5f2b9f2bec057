"""Pictures and prints."""

from __future__ import annotations

import struct
from datetime import timedelta

import pytest

from shoal.render.shots import MAX_HEIGHT
from tests.contract.render.pages import Tab
from tests.site.server import Server

SHORT = timedelta(seconds=3)


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


@pytest.mark.parametrize(
    ("path", "what", "height"),
    [
        ("/product/1", "view", 300),
        ("/long", "full", MAX_HEIGHT),
        ("/long", "#tall", MAX_HEIGHT),
        ("/long", "view", 300),
    ],
)
def test_pictures_have_bounds(tab: Tab, shop: Server, path: str, what: str, height: int) -> None:
    found = tab.render(shop.link(path), {"screenshot": what, "viewport": "400x300"})
    (shot,) = found.shots
    assert (shot.kind, shot.media_type) == ("screenshot", "image/png")
    assert size_of(shot.body)[1] == height
    assert found.document


def test_a_picture_of_one_element(tab: Tab, shop: Server) -> None:
    (shot,) = tab.render(shop.link("/product/1"), {"screenshot": "h2"}).shots
    assert size_of(shot.body)[1] < 100
    assert tab.refuse(shop.link("/product/1"), {"screenshot": "#none"}, total=SHORT).reason == "selector_missing"


def test_prints_come_with_pictures(tab: Tab, shop: Server) -> None:
    found = tab.render(shop.link("/product/1"), {"screenshot": "full", "pdf": True})
    assert [shot.media_type for shot in found.shots] == ["image/png", "application/pdf"]
    assert found.shots[1].body.startswith(b"%PDF-")
