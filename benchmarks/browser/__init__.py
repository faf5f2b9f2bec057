"""Rendered pages: Shoal beside a new browser for each page, and beside Crawlee."""
