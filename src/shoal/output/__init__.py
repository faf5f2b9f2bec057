"""Rows for others: files of every format, places to put them, deliveries."""
