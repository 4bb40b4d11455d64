"""Ports for servers of tests: none is given out twice, and processes that share the tests have
ports of their own.
"""

import os
import socket
from contextlib import suppress
from itertools import cycle
from typing import Final

_LOWEST: Final = (
    10_000  # what commands choose themselves, and systems for outgoing connections, lies above
)
_EACH, _PROCESSES = 600, 16
_FIRST: Final = (
    _LOWEST
    + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES * _EACH
)
_COMING: Final = cycle(
    _FIRST + (os.getpid() + i) % _EACH for i in range(_EACH)
)  # others may run the tests on this machine


def free_address() -> str:
    """An address with a free port."""
    for port in _COMING:
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return f"localhost:{port}"
    raise AssertionError
