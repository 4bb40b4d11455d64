"""What everything else stands on: files, names, public randomness, exact numbers. Knows nothing of
clustering or privacy.
"""
