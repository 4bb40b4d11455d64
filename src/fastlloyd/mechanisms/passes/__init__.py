"""Persons whose rows are read in passes.

Each row's number of shares is stored on disk, and every pass must read the same rows.
"""
