"""Integer k-means: domain, one iteration, initialisation and update; knows nothing of privacy or
clients.
"""
