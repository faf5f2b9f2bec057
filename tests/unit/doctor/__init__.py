"""Findings of `shoal doctor`, without servers."""
