"""Private clusterings: their queries, the cost of these, and the way from noisy answers to
centroids.
"""
