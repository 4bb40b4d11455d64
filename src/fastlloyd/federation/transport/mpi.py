"""MPI: rank 0 is the server, rank i the i-th client of the plan. For benchmarks and clusters, never between organisations.

MPI encrypts nothing and knows no identities: whoever is in the job can read all messages and speak as anyone. All ranks belong
to one trust domain. The sessions and their messages are those of every other transport, so with the same noise the results are
the same bit for bit. The death of one rank ends the job; for an error to do so as well, start it by
`mpirun -n 3 python -m mpi4py PROGRAM`, and otherwise the other ranks wait for ever.

Only buffers of bytes travel, never pickled objects. A message of the protocol has one tag; three others end things: a client
leaves when its run is over, the server refuses a client and says why, and in the end tells all that no more will come. Each
side receives until the other has said its last, so nothing is on its way when the job ends.
"""

import time
from collections import deque
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final

from fastlloyd.errors import NetworkError, RemoteProtocolError
from fastlloyd.federation.protocol.actions import SERVER, Action, ClientResult, Ended, Finish, Send, ServerResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Limits, decode, encode
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.transport.grpc.failures import printable
from fastlloyd.federation.transport.grpc.frames import refusal

SERVER_RANK: Final = 0
_MESSAGE, _LEAVE, _REFUSED, _END = 1, 2, 3, 4  # tags
_A_MOMENT: Final = 2e-4  # seconds after which the server draws noise ahead: clients that share its core go first


def load_mpi() -> Any:
    """The module `mpi4py.MPI`, which starts MPI when it is imported. NetworkError, in one sentence, if it cannot be."""
    try:
        return import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # the latter where mpi4py finds no library to load
        raise NetworkError(
            "MPI needs mpi4py and an MPI library such as Open MPI or MPICH: install fastlloyd[mpi] and the library of this "
            f"machine, and start the program by mpirun ({' '.join(str(error).split()):.200})"
        ) from None


def serve(session: ServerSession, comm: Any) -> ServerResult:
    """Drive the server of a run to its end; `comm`, a communicator of mpi4py, has a rank for it and for each client.

    A client that breaks the protocol is told so and is out; the others go on. Nothing gets lost here, so a deadline passes as
    soon as nobody who is awaited is left. NetworkError if `comm` has another number of ranks, or this is not rank 0.
    """
    _check(comm, session.plan.n_clients, SERVER_RANK)
    wire, names, gone = _Wire(comm, Limits.of(session.plan)), session.plan.names, set[str]()
    while session.outcome is None:
        if gone.issuperset(session.awaited):
            _send_all(wire, names, session.deadline())
            continue
        if not wire.hears_within(_A_MOMENT):
            session.draw_ahead()
        rank, tag, data = wire.receive()
        if tag == _LEAVE:
            gone.add(names[rank - 1])
        else:
            _answer(wire, session, rank, data)
    for rank in range(1, len(names) + 1):
        wire.send(rank, _END)
    while len(gone) < len(names):
        rank, tag, _ = wire.receive()
        if tag == _LEAVE:
            gone.add(names[rank - 1])
    wire.finish()
    return session.outcome


def _answer(wire: "_Wire", session: ServerSession, rank: int, data: bytes) -> None:
    names = session.plan.names
    try:
        _send_all(wire, names, session.receive(names[rank - 1], decode(data, wire.limits)))
    except RemoteProtocolError as error:
        wire.send(rank, _REFUSED, refusal(error).reason.encode())


def _send_all(wire: "_Wire", names: Sequence[str], actions: Iterable[Action]) -> None:
    for action in actions:
        if isinstance(action, Send):
            wire.send(names.index(action.to) + 1, _MESSAGE, encode(action.message))


def take_part(session: ClientSession, comm: Any) -> ClientResult | Ended:
    """Drive one client of a run to its end. Raises as `serve` does.

    A server that breaks the protocol ends the run for this client, and so does one that refuses it.
    """
    _check(comm, session.plan.n_clients, session.plan.names.index(session.name) + 1)
    wire = _Wire(comm, Limits.of(session.plan))
    outcome, tag = _act(wire, session.start()), _MESSAGE
    while outcome is None:
        _, tag, data = wire.receive()
        outcome = _hear(wire, session, tag, data)
    wire.send(SERVER_RANK, _LEAVE)
    while tag != _END:
        _, tag, _ = wire.receive()
    wire.finish()
    return outcome


def _hear(wire: "_Wire", session: ClientSession, tag: int, data: bytes) -> ClientResult | Ended | None:
    """What one buffer means for a client: how the run ended for it, if it did."""
    if tag != _MESSAGE:
        ended = _act(wire, session.deadline())
        reason = printable(data.decode("latin-1"))
        return Ended(f"the server refuses this client: {reason}") if tag == _REFUSED else ended
    try:
        return _act(wire, session.receive(decode(data, wire.limits)))
    except RemoteProtocolError as error:
        return _act(wire, session.ending()) or Ended(str(error))


def _act(wire: "_Wire", actions: Iterable[Action]) -> ClientResult | Ended | None:
    """Send what a client wants sent. What it wants recorded is not: who is interrupted here is not taken up again."""
    outcome: ClientResult | Ended | None = None
    for action in actions:
        match action:
            case Send(_, message):
                wire.send(SERVER_RANK, _MESSAGE, encode(message))
            case Finish((ClientResult() | Ended()) as outcome):
                pass
    return outcome


class _Wire:
    """Buffers of bytes to and from ranks, in order per pair. Only `receive` blocks: two that send never wait for each other."""

    def __init__(self, comm: Any, limits: Limits) -> None:
        # of its own: nothing else in the program, and no run after this one, can be heard in this one
        self._comm, self._mpi, self.limits = comm.Dup(), load_mpi(), limits
        self._sending: deque[tuple[Any, bytes]] = deque()  # MPI reads a buffer until its request is done

    def send(self, rank: int, tag: int, data: bytes = b"") -> None:
        # nothing is asked of MPI in between: while it looks, who got the first of several messages could take this core
        self._sending.append((self._comm.Isend([data, self._mpi.BYTE], dest=rank, tag=tag), data))

    def hears_within(self, seconds: float) -> bool:
        """Whether something comes in that time."""
        end = time.monotonic() + seconds
        while not (heard := self._comm.Iprobe()) and time.monotonic() < end:
            pass
        return bool(heard)

    def receive(self) -> tuple[int, int, bytes]:
        """The next from any rank: who sent it, its tag, its bytes.

        One that is too long for the run is taken in whole as well, and refused unread by `decode`: nothing else gets it out of
        the way, as Open MPI 5.0.11 was seen to crash when a buffer is shorter than what comes.
        """
        while self._sending and self._sending[0][0].Test():
            self._sending.popleft()
        status = self._mpi.Status()
        message = self._comm.Mprobe(status=status)
        buffer = bytearray(status.Get_count(self._mpi.BYTE))
        message.Recv([buffer, self._mpi.BYTE])
        return status.Get_source(), status.Get_tag(), bytes(buffer)

    def finish(self) -> None:
        """Wait until all that was sent has left its buffers."""
        self._mpi.Request.Waitall([request for request, _ in self._sending])
        self._comm.Free()


def _check(comm: Any, n_clients: int, rank: int) -> None:
    if comm.Get_size() != n_clients + 1:
        raise NetworkError(
            f"this MPI job has {comm.Get_size()} ranks; a run of {n_clients} clients needs {n_clients + 1}: start it by "
            f"mpirun -n {n_clients + 1}"
        )
    if comm.Get_rank() != rank:
        who = SERVER if rank == SERVER_RANK else f"client {rank} of the plan"
        raise NetworkError(f"rank {comm.Get_rank()} was given the part of {who}; that is rank {rank}")
