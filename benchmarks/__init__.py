"""Measurements: `python -m benchmarks` for speed, `.anchors` for the published code's figures, `.peers` for other libraries."""
