"""Streams of the connected clients. Only the newest stream of each client counts. The server
remembers which process was at the other end of it.
"""

from collections.abc import Callable, Iterable

from fastlloyd.errors import OldCopyError, RemoteProtocolError
from fastlloyd.federation.protocol.messages import printable
from fastlloyd.federation.transport.grpc import endings, frames, places
from fastlloyd.federation.transport.grpc.log import SparingLog
from fastlloyd.federation.transport.grpc.outbox import Outbox
from fastlloyd.federation.transport.grpc.places import Place


class Streams:
    """Newest stream of each connected client.

    outboxes : outbox of each connected client, by name.
    left : names of the clients that have left the run permanently.

    Parameters
    ----------
    left : names of the clients that left before this process started.
    log : receives a line when a client connects, disconnects or is replaced.
    moved : function that is called when a client connects or disconnects.
    """

    def __init__(self, left: Iterable[str], log: SparingLog, moved: Callable[[], None]) -> None:
        self.outboxes: dict[str, Outbox] = {}
        self.left = set(left)
        self._log, self._moved = log, moved
        self._places: dict[str, Place] = {}  # process of each client that is or was connected
        self._told: dict[Outbox, int] = {}  # number of awaited clients sent since the last answer

    def attach(self, name: str, outbox: Outbox, place: Place) -> None:
        """Register a new stream, unless the client has a stream from another process."""
        # Another process replaces it only with its first message. It may still find that its store
        # does not match the server's position, and end.
        if name not in self.outboxes or self._places[name].number == place.number:
            self.register(name, outbox, place)

    def register(self, name: str, outbox: Outbox, place: Place) -> None:
        """Make a stream the newest of its client, and close the older one.

        If the stream is closed, or is the newest already, nothing happens.

        name : name of the client.
        outbox : outbox of the stream.
        place : process at the other end.
        """
        if outbox.closed.is_set() or (older := self.outboxes.get(name)) is outbox:
            return
        if older is not None:
            there = self._places[name]
            refuse(older, places.replaced(there, place))
            if there.number != place.number:
                self._log.warning(name, "%s", places.seen_twice(name, there, place))
                if there.host != place.host:
                    outbox.put(frames.encode_frame(frames.Twice(printable(there.host))))
        self.outboxes[name], self._places[name] = outbox, place
        self.left.discard(name)  # the client left with other keys, and joins again
        self._moved()
        self._log.info(name, "client %s is connected", name)

    def drop(self, name: str, outbox: Outbox) -> None:
        """Close a stream. If it was the newest of client `name`, the client is disconnected."""
        outbox.close()
        self._told.pop(outbox, None)
        if self.outboxes.get(name) is outbox:
            del self.outboxes[name]
            self._moved()
            self._log.info(name, "client %s is gone", name)

    def drop_all(self) -> None:
        """Close the streams of all clients."""
        for name, outbox in list(self.outboxes.items()):
            self.drop(name, outbox)

    def post(self, name: str, frame: bytes) -> None:
        """Put a frame into the outbox of client `name`. If the client is not connected, the frame
        is dropped: the client asks again when it is back.
        """
        if name in self.outboxes:
            self._told.pop(self.outboxes[name], None)
            self.outboxes[name].put(frame)

    def tell_waiting(self, n_awaited: int) -> None:
        """Send the number of awaited clients to each connected client that does not know it. No
        names are sent.
        """
        for outbox in list(self.outboxes.values()):
            if n_awaited and self._told.get(outbox) != n_awaited:
                self._told[outbox] = n_awaited
                outbox.put(frames.encode_frame(frames.Waiting(n_awaited)))

    def refusal(self, name: str, error: RemoteProtocolError, place: Place | None) -> str:
        """Return the reason for which client `name` is refused.

        If its store is an old copy, the reason also names the host on which another process with
        this identity was seen.

        error : the refusal.
        place : process of the client, or None if it is not known.
        """
        there = self._places.get(name)
        if not isinstance(error, OldCopyError) or place is None or there is None:
            return str(error)
        is_other = place.is_other(there, is_connected=name in self.outboxes)
        return places.refused_old(error.fact, place, there) if is_other else str(error)

    def other_place(self, name: str, code: int, place: Place) -> str:
        """Return a clause about another process with the identity of client `name`, or "".

        The clause is for a client that stops because its store is an old copy. It names the hosts
        of both processes.

        code : code of the frame Stop.
        place : process that stops.
        """
        there = self._places.get(name)
        is_other = place.is_other(there, is_connected=name in self.outboxes)
        if code != endings.StopCode.OLD_STORE or there is None or not is_other:
            return ""
        return (
            f"; the client is at {place.host}, and another process with its identity was last seen"
            f" at {there.host}"
        )


def refuse(outbox: Outbox, reason: object) -> None:
    """End a stream, and send the client `reason` without unprintable characters."""
    outbox.close(frames.encode_frame(frames.Refused(printable(reason))))
