"""Proxy settings in the environment: which of them gRPC uses, and which it ignores.

gRPC takes the first of three settings, in lower case, and uses it if it begins with `http://`
(https://github.com/grpc/grpc/blob/master/doc/environment_variables.md). Messages show only names of
settings, because a value may contain a password.
"""

import os
from contextlib import suppress
from ipaddress import ip_address, ip_network
from typing import Final

SETTINGS: Final = ("grpc_proxy", "https_proxy", "http_proxy")
_EXCEPTIONS: Final = ("no_grpc_proxy", "no_proxy")
_OF_OTHERS: Final = (*(name.upper() for name in SETTINGS), "all_proxy", "ALL_PROXY")


def in_between(address: str) -> str:
    """Return the name of the setting that sends a connection to `address` through a proxy, or "".

    address : "HOST:PORT".
    """
    name = _first(SETTINGS)
    is_used = name and os.environ[name].startswith("http://") and not _is_excepted(address)
    return name if is_used else ""


def hint() -> str:
    """Return how the proxy settings affect a failed connection, as the end of a sentence. Return ""
    if there are no such settings.
    """
    if name := _first(SETTINGS):
        if os.environ[name].startswith("http://"):
            return (
                f"; the environment sets {name}, so a proxy is asked unless no_proxy names the host"
            )
        return (
            f"; the environment sets {name}, and no proxy is asked, because its value does not"
            " begin with 'http://'; only HTTP proxies can be used, written as http://HOST:PORT"
        )
    if name := _first(_OF_OTHERS):
        return (
            f"; the environment sets {name}, and no proxy is asked, because only https_proxy in"
            " lower case counts here: set it to http://HOST:PORT if the network needs a proxy"
        )
    return ""


def _first(names: tuple[str, ...]) -> str:
    return next((name for name in names if os.environ.get(name)), "")


def _is_excepted(address: str) -> bool:
    """Return whether `no_proxy` excludes this address from the proxy. The setting may contain the
    host, its domain, or a range of addresses.
    """
    host = address.rpartition(":")[0].strip("[]").lower()
    entries = os.environ.get(_first(_EXCEPTIONS), "").lower().replace(" ", "").split(",")
    return any(
        f".{host}".endswith(f".{entry.removeprefix('.')}") or _is_within(host, entry)
        for entry in filter(None, entries)
    )


def _is_within(host: str, entry: str) -> bool:
    with suppress(ValueError):
        return "/" in entry and ip_address(host) in ip_network(entry, strict=False)
    return False
