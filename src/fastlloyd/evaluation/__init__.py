"""NOT PRIVATE: metrics, data sets and experiments for researchers. Only the command line imports
it.
"""
