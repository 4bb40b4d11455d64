"""Transports, which carry the messages of a run between its parties."""
