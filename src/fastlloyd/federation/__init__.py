"""Federated runs of several organisations: identities, plans, masks, messages, stores and
transports.
"""
