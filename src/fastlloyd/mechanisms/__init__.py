"""Private clusterings: what they ask of records, what it costs, and how noisy answers become
centroids.
"""
