"""Persons whose rows are read in passes: their shares are stored on disk, and every pass must see
the same rows.
"""
