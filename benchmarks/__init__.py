"""Measurements: `python -m benchmarks` for speed, `python -m benchmarks.anchors` for the published code's figures."""
