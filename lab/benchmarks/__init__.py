"""Measurements of speed. `python -m benchmarks` measures the parts of fastlloyd, and `python -m
benchmarks.rivals` compares fits with other libraries.
"""
