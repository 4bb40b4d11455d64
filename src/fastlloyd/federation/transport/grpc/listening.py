"""Reasons why the server cannot listen at an address.

gRPC gives no reason. So this module tries to listen with a socket, whose error has a number.
"""

import errno
import socket
from contextlib import suppress

_IN_USE = (
    "another program listens at that port, perhaps an earlier server of this run:"
    " stop the other program, or pass another port with --listen and forward the"
    " plan's port to that port"
)
_NO_RIGHT = (
    "this user may not listen at that port, because systems reserve the ports"
    " below 1024: pass a higher port with --listen, such as [::]:8443, and"
    " forward the plan's port to that port, or give the service the right to"
    " listen (AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit)"
)
_NOT_HERE = (
    "the address does not belong to this machine; if a router or firewall"
    " forwards the plan's address to this machine, pass --listen [::]:PORT"
)
_NO_HOST = (
    "the host name cannot be resolved; pass an address of this machine with"
    " --listen, or [::]:PORT for all its addresses"
)
_NO_FAMILY = (
    "this machine has no addresses of that kind (IPv6 may be switched off); pass"
    " --listen 0.0.0.0:PORT for all addresses that it has"
)
_REASONS = {
    errno.EADDRINUSE: _IN_USE,
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.EADDRNOTAVAIL: _NOT_HERE,
    errno.EAFNOSUPPORT: _NO_FAMILY,
}
_NOW_FREE = (
    "the address could not be used a moment ago, but is free now; run the same command again"
)


def why_not(address: str) -> str:
    """Return the reason why no server can listen at an address, and a remedy, as the end of a
    sentence.

    address : "HOST:PORT".
    """
    host, _, port = address.rpartition(":")
    try:
        places = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (socket.gaierror, UnicodeError):  # UnicodeError: DNS cannot have such a name
        return _NO_HOST
    reasons = [_reason(family, place) for family, _, _, _, place in places]
    return next((reason for reason in reasons if reason), _NOW_FREE)


def check_free(address: str) -> None:
    """Raise RuntimeError if another program listens at one of the addresses that HOST:PORT names.
    gRPC would listen at the others alone, and clients would reach the other program.
    """
    if why_not(address) == _IN_USE:
        raise RuntimeError(_IN_USE)


def _reason(family: int, place: tuple[object, ...]) -> str:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as listening:
            with suppress(AttributeError, OSError):  # as gRPC does
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            listening.bind(place)
            listening.listen(1)
    except OSError as error:
        return _REASONS.get(error.errno or 0, f"the system refuses it ({error.strerror})")
    return ""
