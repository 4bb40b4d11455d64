"""Command line of fastlloyd: one file per command, and the parts that commands share.

Heavy libraries are loaded when a command runs.
"""
