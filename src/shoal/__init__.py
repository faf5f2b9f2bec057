"""Shoal: crawl a whole site with one command, or a fleet's worth of them with the same code."""

__version__ = "0.1.0"
