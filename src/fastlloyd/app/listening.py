"""Listening sockets of the app: the same port on both loopback addresses.

A browser that resolves a name under `localhost` tries ::1 first. If only 127.0.0.1 were bound,
another user could listen on ::1 at the same port and be given the code. Without SO_REUSEADDR the
system also refuses a port at which anybody listens on all addresses.
"""

import errno
import math
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fastlloyd.errors import NetworkError

_TRIES: Final = 50
_QUIET_SECONDS: Final = 60.0
_LOOPBACKS: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_NO_SUCH_ADDRESS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


class Complaints:
    """Handler of errors that asyncio meets outside a request, such as a flood of connections. They
    are counted, and one line a minute says the count.

    say : function that prints a line where the app was started.
    clock : function that returns rising seconds. Tests pass their own.
    """

    def __init__(
        self, say: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say, clock
        self._n, self._said = 0, -math.inf

    def __call__(self, _loop: object, _context: object) -> None:
        """Count an error. Its own message is not shown: it may name paths or peers."""
        self._n += 1
        if self._clock() - self._said >= _QUIET_SECONDS:
            self._said = self._clock()
            self._say(
                f"Connections that failed, or were refused because too many were open: {self._n}."
            )


class _TakenError(Exception):
    """Error: another process has the port."""


def bound(port: int = 0) -> list[socket.socket]:
    """Return listening sockets at one port of 127.0.0.1 and, if the machine has IPv6, ::1.

    port : port, or 0 for one that is free at both.

    Raises NetworkError if another process has the port.
    """
    for _ in range(1 if port else _TRIES):
        with suppress(_TakenError):
            return _both(port)
    raise NetworkError(
        f"port {port} cannot be used at 127.0.0.1 and ::1; choose another with --port, or leave"
        " --port out"
        if port
        else "no port of this machine is free at both 127.0.0.1 and ::1"
    )


def _both(port: int) -> list[socket.socket]:
    made = list[socket.socket]()
    try:
        for family, host in _LOOPBACKS:
            try:
                made.append(_listener(family, host, port))
            except OSError as error:
                if made and error.errno in _NO_SUCH_ADDRESS:
                    break  # a machine without IPv6
                raise _TakenError from None
            port = made[0].getsockname()[1]
        for each in made:
            each.listen(128)
    except (_TakenError, OSError):
        for each in made:
            each.close()
        raise _TakenError from None
    return made


def _listener(family: int, host: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made
