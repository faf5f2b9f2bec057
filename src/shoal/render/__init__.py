"""The browser: pages that need JavaScript."""
