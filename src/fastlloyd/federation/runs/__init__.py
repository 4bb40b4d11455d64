"""Runs that survive restarts: a session of the protocol, with a store that makes its steps
durable.
"""

from fastlloyd.federation.runs.durable_client import (
    DurableClient,
    KnownRecords,
    check_may_join,
    own_runs,
    reservation,
)
from fastlloyd.federation.runs.durable_server import DurableServer

__all__ = [
    "DurableClient",
    "DurableServer",
    "KnownRecords",
    "check_may_join",
    "own_runs",
    "reservation",
]
