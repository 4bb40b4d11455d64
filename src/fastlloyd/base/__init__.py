"""Files, names, public randomness and exact numbers, for all other packages. It contains nothing
about clustering or privacy.
"""
