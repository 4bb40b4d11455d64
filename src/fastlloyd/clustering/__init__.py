"""Integer k-means: domain, one iteration, initial centroids and update.

Nothing in this package concerns privacy or clients.
"""
