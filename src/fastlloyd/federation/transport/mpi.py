"""MPI: rank 0 is the server, rank i the i-th client of the plan. For benchmarks and clusters, never
between organisations.

MPI encrypts nothing and knows no identities: whoever is in the job can read all messages and speak
as anyone. All ranks belong to one trust domain. The sessions and their messages are those of every
other transport, so with the same noise the results are the same bit for bit. The death of one rank
ends the job; for an error to do so as well, start it by `mpirun -n 3 python -m mpi4py PROGRAM`, and
otherwise the other ranks wait for ever.

Only buffers of bytes travel, never pickled objects. A message of the protocol has one tag; three
others end things: a client leaves when its run is over, the server refuses a client and says why,
and in the end tells all that no more will come. Each side receives until the other has said its
last, so nothing is on its way when the job ends.
"""

import time
from collections import deque
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fastlloyd.errors import NetworkError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import SERVER, ClientResult, Ended, ServerResult
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Message, encode
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.transport import party
from fastlloyd.federation.transport.party import Heard, Kind


def load_mpi() -> Any:
    """The module `mpi4py.MPI`, which starts MPI when it is imported. NetworkError, in one sentence,
    if it cannot be.
    """
    try:
        return import_module("mpi4py.MPI")
    except Exception as error:  # noqa: BLE001 - RuntimeError where mpi4py finds no library to load
        raise NetworkError(
            "MPI needs mpi4py and an MPI library such as Open MPI or MPICH: install fastlloyd[mpi]"
            " and the library of this machine, and start the program by mpirun"
            f" ({' '.join(str(error).split()):.200})"
        ) from None


def serve(session: ServerSession, comm: Any) -> ServerResult:
    """Drive the server of a run to its end; `comm`, a communicator of mpi4py, has a rank for it and
    for each client.

    See `party.serve`. NetworkError if `comm` has another number of ranks, or this is not rank 0.
    """
    wire = _Wire.of(comm, session.plan, SERVER)
    result = party.serve(session, wire)
    wire.finish()
    return result


def take_part(session: ClientSession, comm: Any) -> ClientResult | Ended:
    """Drive one client of a run to its end. See `party.take_part`; raises as `serve` does."""
    wire = _Wire.of(comm, session.plan, session.name)
    outcome = party.take_part(session, wire)
    wire.finish()
    return outcome


class _Wire:
    """Buffers of bytes to and from ranks, the kind as their tag. Only `receive` blocks: who sends
    waits for nobody.

    names : by rank.
    """

    def __init__(self, comm: Any, names: Sequence[str]) -> None:
        # of its own: nothing else in the program, and no run after this one, can be heard in this
        # one
        self._comm, self._mpi, self._names = comm.Dup(), load_mpi(), names
        self._sending: deque[tuple[Any, bytes]] = (
            deque()
        )  # MPI reads a buffer until its request is done

    @classmethod
    def of(cls, comm: Any, plan: Plan, name: str) -> "_Wire":
        """The wire of the party of that name; NetworkError unless the job has its ranks, and this
        one is that party's.
        """
        names = (SERVER, *plan.names)
        rank = names.index(name)
        if comm.Get_size() != len(names):
            raise NetworkError(
                f"this MPI job has {comm.Get_size()} ranks; a run of {plan.n_clients} clients needs"
                f" {len(names)}: start it by mpirun -n {len(names)}"
            )
        if comm.Get_rank() != rank:
            who = SERVER if rank == 0 else f"client {rank} of the plan"
            raise NetworkError(
                f"rank {comm.Get_rank()} was given the part of {who}; that is rank {rank}"
            )
        return cls(comm, names)

    def send(self, to: str, message: Message) -> None:
        self._put(to, Kind.MESSAGE, encode(message))

    def tell(self, to: str, kind: Kind, reason: str = "") -> None:
        self._put(to, kind, reason.encode())

    def _put(self, to: str, kind: Kind, data: bytes) -> None:
        # nothing is asked of MPI in between: while it looks, who got the first of several messages
        # could take this core
        self._sending.append(
            (self._comm.Isend([data, self._mpi.BYTE], dest=self._names.index(to), tag=kind), data)
        )

    def receive(self, seconds: float | None = None) -> Heard | None:
        """The next from any rank, with its tag and its bytes.

        One that is too long for the run is taken in whole as well, and refused unread by `decode`:
        nothing else gets it out of the way, as Open MPI 5.0.11 was seen to crash when a buffer is
        shorter than what comes.
        """
        if seconds is not None and not self.hears_within(seconds):
            return None
        while self._sending and self._sending[0][0].Test():
            self._sending.popleft()
        status = self._mpi.Status()
        message = self._comm.Mprobe(status=status)
        buffer = bytearray(status.Get_count(self._mpi.BYTE))
        message.Recv([buffer, self._mpi.BYTE])
        return Heard(self._names[status.Get_source()], Kind(status.Get_tag()), bytes(buffer))

    def hears_within(self, seconds: float) -> bool:
        """Whether something comes in that time."""
        end = time.monotonic() + seconds
        while not (heard := self._comm.Iprobe()) and time.monotonic() < end:
            pass
        return bool(heard)

    def finish(self) -> None:
        """Wait until all that was sent has left its buffers."""
        self._mpi.Request.Waitall([request for request, _ in self._sending])
        self._comm.Free()
