"""The browser: what needs none to be tested."""
