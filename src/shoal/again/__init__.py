"""Extraction again: other fields from pages that are stored, without a single fetch."""
