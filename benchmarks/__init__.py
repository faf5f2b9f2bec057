"""The benchmark: Shoal against a bare loop, Scrapy and the tutorial stack, on one machine, over loopback."""
