"""Times a Scrapy crawl from the first request that reaches the downloader to the end of the last page.

The last response is not the end: Scrapy may have downloaded all while most links still wait to be scheduled.
The end is when it calls itself idle, and the last time that it does so with something new behind it.
"""

# pyright: basic, reportMissingImports=false
import json
import time

from scrapy import signals
from scrapy.crawler import Crawler, CrawlerProcess


class Clock:
    """Listens to one crawler."""

    def __init__(self, crawler: Crawler) -> None:
        self.first = self.last = 0.0
        self.pages = 0
        self.crawler = crawler
        self.signals = crawler.signals
        self.signals.connect(self.start, signals.request_reached_downloader)
        self.signals.connect(self.stop, signals.spider_idle)

    def start(self) -> None:
        self.first = time.monotonic()
        # Once is enough: the crawl should not pay for our clock on each request.
        self.signals.disconnect(self.start, signals.request_reached_downloader)

    def stop(self) -> None:
        pages = self.crawler.stats.get_value("response_received_count", 0) if self.crawler.stats else 0
        if pages != self.pages:
            self.pages, self.last = pages, time.monotonic()


def run(spider: type, settings: dict[str, object], **arguments: object) -> Clock:
    """Crawl with a spider to its end."""
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(spider)
    clock = Clock(crawler)
    process.crawl(crawler, **arguments)
    process.start()
    return clock


def crawl(spider: type, url: str, settings: dict[str, object]) -> None:
    """Crawl with a spider and print the outcome as JSON."""
    clock = run(spider, settings, start_urls=[url])
    print(json.dumps({"pages": clock.pages, "seconds": clock.last - clock.first}))
