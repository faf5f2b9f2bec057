"""Schedules: jobs that are submitted again and again, each slot once."""
