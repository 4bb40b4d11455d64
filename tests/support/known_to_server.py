"""Messages that a server's session keeps, whichever of its phases has begun."""

from fastlloyd.federation.protocol.messages import Broadcast, Confirmation, Hello, Upload
from fastlloyd.federation.protocol.server import ServerSession


def hellos_of(server: ServerSession) -> dict[str, Hello]:
    """Hellos that were taken, by client."""
    return server._joining.hellos


def uploads_of(server: ServerSession) -> dict[str, Upload]:
    """Uploads of the open round, by client."""
    return {} if server._rounds is None else server._rounds.uploads


def broadcasts_of(server: ServerSession) -> list[Broadcast]:
    """Sums of the closed rounds."""
    return [] if server._rounds is None else server._rounds.broadcasts


def confirmations_of(server: ServerSession) -> dict[str, Confirmation]:
    """Confirmations that came, by client."""
    return {} if server._confirming is None else server._confirming.confirmations


def durable_in(server: ServerSession) -> dict[str, object]:
    """All that a server knows, except what clients say again: other Hellos, keys, uploads,
    confirmations.
    """
    sharing, rounds, confirming = server._sharing, server._rounds, server._confirming
    return {
        "state": server.state,
        "outcome": server.outcome,
        "deal": sharing and sharing.key_set.deal,
        "present": sharing and sharing.present,
        "sealed": sharing and sharing.sealed,
        "all ready": sharing and sharing.all_ready,
        "served": sharing and sharing.served,
        "broadcasts": rounds and rounds.broadcasts,
        "included": rounds and rounds.included,
        "parameters": rounds and rounds.parameters,
        "relayed": confirming and confirming.relayed,
    }
