"""Identities of the parties: keys, certificates and their files."""
