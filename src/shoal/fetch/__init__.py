"""The web: one client behind a small port."""
