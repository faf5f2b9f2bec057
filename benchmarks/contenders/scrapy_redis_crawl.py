"""One process of scrapy-redis: the plain spider, whose queue and duplicate filter are in Redis.

Run as `python scrapy_redis_crawl.py REDIS`; prints pages, and when the first began and the last ended on the clock that
all processes of a machine share. The spider is scrapy-redis' own kind, which takes its start from a list in Redis, so
that of several processes one begins. It stays when its queue is empty, and looks again every few seconds.
"""

# pyright: basic, reportMissingImports=false
import json
import sys

from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import Rule
from scrapy_clock import run
from scrapy_plain import SETTINGS
from scrapy_redis.spiders import RedisCrawlSpider

START = "shared:start_urls"
IDLE_SECONDS = 10
"""Since it last had a start URL. Longer than the others may need until the first links are queued."""


class SharedSpider(RedisCrawlSpider):
    """Follows every link of the host and yields an item a page."""

    name = "shared"
    redis_key = START
    allowed_domains = ("127.0.0.1",)
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True),)

    def parse_page(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}


def main(redis: str) -> None:
    """Crawl until nothing is left."""
    settings = SETTINGS | {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "REDIS_URL": redis,
        "SCHEDULER_PERSIST": True,  # else the first process that ends takes the queue along
        "MAX_IDLE_TIME_BEFORE_CLOSE": IDLE_SECONDS,
    }
    clock = run(SharedSpider, settings)
    print(json.dumps({"pages": clock.pages, "first": clock.first, "last": clock.last}))


if __name__ == "__main__":
    main(sys.argv[1])
