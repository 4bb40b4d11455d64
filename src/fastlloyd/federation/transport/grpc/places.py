"""Processes of clients and their hosts. If processes on two machines use one identity, both the
processes and the operator of the server are told.
"""

from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Place:
    """Process of a client, and its host.

    number : random number that the process drew when it started.
    host : network address of the process.
    """

    number: bytes
    host: str

    @classmethod
    def of(cls, number: bytes, peer: str) -> "Place":
        """Return the `Place` of a process.

        number : random number that the process drew when it started.
        peer : gRPC's name of its connection, such as `ipv4:192.0.2.7:51234`.
        """
        host = unquote(peer).partition(":")[2].rpartition(":")[0]
        return cls(number, host.strip("[]") or "an unknown address")

    def is_other(self, other: "Place | None", *, is_connected: bool) -> bool:
        """Return whether two processes use the identity at the same time. A process that was
        restarted does not count as two.

        other : process that was seen before, or None.
        is_connected : whether `other` is still connected.
        """
        if other is None or other.number == self.number:
            return False
        return is_connected or other.host != self.host


_ONE_MACHINE = "An identity belongs to one machine, and to one store"


def replaced(older: Place, newer: Place) -> str:
    """Return the message to a process that another process with the same identity has replaced."""
    if older.number == newer.number:
        return "another connection of this process took the place of this one"
    return (
        "another process with the same identity took the place of this process: the"
        f" other process is at {newer.host}, and this process is at {older.host}."
        f" {_ONE_MACHINE}: stop one of the two for good, and do not start both in"
        " turn; if neither process is yours, stop and make a new identity"
    )


def seen_twice(name: str, older: Place, newer: Place) -> str:
    """Return the message to the server's operator: a client's process was replaced by another
    process with the same identity.
    """
    return (
        f"the identity of client {name} is used twice: a process at {newer.host}"
        f" took the place of a process at {older.host}. Ask the owner of the identity"
        " to stop one of the two for good"
    )


def came_twice(host: str) -> str:
    """Return the message to a process that has replaced another process with the same identity.

    host : host of the other process.
    """
    return (
        "until now another process with this identity was connected to the server,"
        f" from {host}. {_ONE_MACHINE}: make sure that the other process is stopped"
        " for good; if the other process is not yours, stop this process too and make"
        " a new identity"
    )


def refused_old(what: str, here: Place, there: Place) -> str:
    """Return the message to a process whose store is behind the store of another process, or
    differs from it.

    what : words for the fault of the store.
    here : process that is refused.
    there : the other process.
    """
    return (
        f"{what}. The identity is used on two machines, or with two stores: the other"
        f" process was last seen at {there.host}, and this process is at {here.host}."
        " Continue only with the other process, and do not start this process again; if the"
        " other process is not yours, stop and make a new identity"
    )
