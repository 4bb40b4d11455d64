"""Sessions of a federated run, one for each client and one for the server.

A session does no input or output: it is given messages, and returns actions for its driver.
"""
