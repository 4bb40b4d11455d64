"""Sessions of a federated run, one for a client and one for the server, without input or output:
messages in, actions out.
"""
