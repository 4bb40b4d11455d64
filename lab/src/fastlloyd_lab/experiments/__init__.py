"""Runs the paper's experiments, and your own, on public records: NOT PRIVATE."""
