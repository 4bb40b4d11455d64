"""Queries for starts from moments: clipped and normalised sums, with constants that are known before the run begins.

Every vector that a record adds is divided by a radius and rounded towards zero to one of integer length at most `units`. So the
shape, the sensitivity and the ring's bound of an answer follow from the plan alone, whatever radius, centre or centroids
an earlier answer suggested. `reference.py` is the file to read first; docs/momentlloyd.md has the proofs.
"""
