"""Differential privacy: guarantees, budgets and noise. It contains nothing about clustering."""
