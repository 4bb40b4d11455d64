"""Differential privacy: guarantees, budgets and noise. Nothing in this package concerns
clustering.
"""
