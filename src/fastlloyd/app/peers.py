"""User of the process at the other end of a connection, on systems that reveal it (Linux)."""

import errno
import os
import socket
import sys
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER = 1, 2, 7  # columns of these tables


def is_of_another_user(client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Return whether a connection comes from a process of another user.

    The system's table of sockets names the user of each socket. If a connection is not in the
    table, the result is True. On systems without such tables it is False.

    client, server : address and port of both ends, as this process sees them.
    """
    if sys.platform != "linux":
        return False
    wanted = (_written(*client), _written(*server))
    is_told = False
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError as error:
            # somebody who opens very many connections must not end the test
            is_told |= error.errno in (errno.EMFILE, errno.ENFILE)
            continue
        is_told = True
        for line in lines:
            row = line.split()
            if (row[_LOCAL], row[_REMOTE]) in (wanted, tuple(map(_mapped, wanted))):
                return int(row[_USER]) != os.geteuid()
    return is_told


def _written(host: str, port: int) -> str:
    """Return an address in the form of the system's tables: words of 32 bits in the machine's
    order, in hex.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    packed = socket.inet_pton(family, host)
    words = [packed[i : i + 4] for i in range(0, len(packed), 4)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    return f"{b''.join(words).hex().upper()}:{port:04X}"


def _mapped(written: str) -> str:
    """Return an IPv4 address as an IPv4-mapped IPv6 address, in the form of the system's tables."""
    address, _, port = written.partition(":")
    if len(address) > 8:
        return written
    mark = "FFFF0000" if sys.byteorder == "little" else "0000FFFF"
    return f"{'0' * 16}{mark}{address}:{port}"
