"""Measurements: `python -m benchmarks` for the parts, `.rivals` for fits beside other libraries."""
