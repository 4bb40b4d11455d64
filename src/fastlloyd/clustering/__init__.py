"""Integer k-means: domain, one iteration, initialisation and update. It contains nothing about
privacy or clients.
"""
