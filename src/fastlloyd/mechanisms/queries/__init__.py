"""Queries for records: integer sums whose sensitivity is known before the run."""
