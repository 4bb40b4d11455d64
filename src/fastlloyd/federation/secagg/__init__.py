"""Secure aggregation with masks: rings, one-time masks and the keys for them. Integers in, integers
out.
"""
