"""Measurements: `python -m benchmarks` for speed, `.peers` for other libraries."""
