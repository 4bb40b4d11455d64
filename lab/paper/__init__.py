"""Experiments of the paper: specifications for `fastlloyd experiment run`, and programs for other
measurements.
"""
