"""Differential privacy on its own: what is promised, what is spent, and the noise. Knows nothing of
clustering.
"""
