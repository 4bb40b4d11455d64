"""What may be asked of records: integer sums whose sensitivity is known before the run."""
