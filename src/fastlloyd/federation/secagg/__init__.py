"""Masked secure aggregation: rings, one-time masks and the keys behind them. Integers in, integers
out.
"""
