"""Queries of records: integer sums whose sensitivity is known before the run."""
