"""Persons whose rows are read in passes: shares wait on disk, and every pass must see the same
rows.
"""
