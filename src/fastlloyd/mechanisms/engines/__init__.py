"""Where pieces of records are passed over: processes of this machine, or a cluster. All give the
same integers.
"""
