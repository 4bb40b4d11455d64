"""Files, names, public randomness and exact numbers, which all other rooms use. Knows nothing of
clustering or privacy.
"""
