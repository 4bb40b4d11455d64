"""Clusterings with differential privacy: queries, their cost, and centroids from noisy answers."""
