"""Files, names, public randomness and exact numbers, for all other packages.

Nothing in this package concerns clustering or privacy.
"""
