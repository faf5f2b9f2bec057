"""A small shop that needs JavaScript, with some pages that behave badly in a browser."""

from __future__ import annotations

from tests.site.shop.shop import PAGES, PRODUCTS, Shop

__all__ = ["PAGES", "PRODUCTS", "Shop"]
