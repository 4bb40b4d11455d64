"""Engines that read pieces of records: processes of this machine, or a Dask cluster.

All engines give the same integers.
"""
