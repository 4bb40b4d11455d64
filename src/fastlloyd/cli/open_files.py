"""How many files and connections the system lets this process have open at a time."""

import sys
from contextlib import suppress
from typing import Final

from fastlloyd.errors import NetworkError

OWN_FILES: Final = 64  # what a server has open besides its clients' connections: the store, its lock, the log, gRPC's own


def allow_connections(needed: int, wanted: int) -> int:
    """Raise the soft limit of open files as far as it goes and helps: how many of the `wanted` connections there is room for.

    Raises NetworkError where the hard limit leaves room for fewer than `needed`.
    """
    try:
        import resource
    except ImportError:
        return wanted  # Windows: sockets are no files there
    soft, hard = (_number(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if hard < needed + OWN_FILES:
        raise NetworkError(
            f"the system lets this process open {hard} files, and a server of this plan's clients needs {needed + OWN_FILES}; "
            f"raise the hard limit: `ulimit -Hn {needed + OWN_FILES}` as root, or LimitNOFILE={needed + OWN_FILES} in the unit"
        )
    if soft < (best := min(hard, wanted + OWN_FILES)):
        with suppress(ValueError, OSError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (best, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
            soft = best
    return min(wanted, max(soft - OWN_FILES, needed))


def _number(limit: int) -> int:
    """A limit as a number: the system writes "no limit" as -1."""
    return sys.maxsize if limit < 0 else limit
