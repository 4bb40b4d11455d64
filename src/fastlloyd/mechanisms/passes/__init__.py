"""Persons whose rows are read in passes.

Their shares are stored on disk, and every pass must read the same rows.
"""
