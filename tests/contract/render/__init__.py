"""The browser: what it renders, and what it does not let pages do."""
