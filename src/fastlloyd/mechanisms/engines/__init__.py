"""Engines that read pieces of records: processes of this machine, or a cluster. All give the same
integers.
"""
