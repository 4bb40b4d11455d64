"""NOT PRIVATE: exact measures, labels and a comparison for the owner of the records.

Only the command line imports this package.
"""
