"""Scrapy as its tutorial has it: a CrawlSpider that follows every link, on default settings.

Run as `python scrapy_plain.py URL`.
"""

# pyright: basic, reportMissingImports=false
import sys

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule
from scrapy_clock import crawl

SETTINGS: dict[str, object] = {"ROBOTSTXT_OBEY": False, "LOG_LEVEL": "ERROR", "TELNETCONSOLE_ENABLED": False}


class PlainSpider(CrawlSpider):
    """Follows every link of the host and yields an item a page."""

    name = "plain"
    allowed_domains = ("127.0.0.1",)
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def parse_page(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}


if __name__ == "__main__":
    crawl(PlainSpider, sys.argv[1], SETTINGS)
