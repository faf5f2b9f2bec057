"""Shoal's test suite."""
