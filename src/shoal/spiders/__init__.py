"""Spiders: functions of an operator that read pages."""
