"""MPI: rank 0 is the server, rank i the i-th client of the plan. For benchmarks and clusters, never
between organisations.

MPI encrypts nothing and knows no identities: every process in the job can read all messages and
send under any name. So all ranks must trust each other. The sessions and their messages are those
of every other transport, so the same noise gives the same results, bit for bit. The death of one
rank ends the job. For an error to end it as well, start it with `mpirun -n 3 python -m mpi4py
PROGRAM`; otherwise the other ranks wait forever.

Only buffers of bytes travel, never pickled objects. A message of the protocol has one tag. Three
other tags end things: a client leaves when its run is over, the server refuses a client with a
reason, and at the end it tells all clients that no message follows. Each side receives until the
other has sent its last message, so none is pending when the job ends.
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
    """Return the module `mpi4py.MPI`; its import starts MPI.

    Raises NetworkError, in one sentence, if it cannot be imported.
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
    """Drive the server of a run to its end, as `party.serve` does.

    comm : communicator of mpi4py with a rank for the server and for each client.

    Raises NetworkError if it has another number of ranks, or this is not rank 0.
    """
    wire = _Wire.of(comm, session.plan, SERVER)
    result = party.serve(session, wire)
    wire.finish()
    return result


def take_part(session: ClientSession, comm: Any) -> ClientResult | Ended:
    """Drive one client of a run to its end, as `party.take_part` does. Raises errors as `serve`
    does.
    """
    wire = _Wire.of(comm, session.plan, session.name)
    outcome = party.take_part(session, wire)
    wire.finish()
    return outcome


class _Wire:
    """Buffers of bytes to and from ranks, with the kind as their tag. Only `receive` blocks.

    names : by rank.
    """

    def __init__(self, comm: Any, names: Sequence[str]) -> None:
        # of its own: nothing else in the program, and no run after this one, can be heard in this
        # one
        self._comm, self._mpi, self._names = comm.Dup(), load_mpi(), names
        # MPI reads a buffer until its request is done
        self._sending: deque[tuple[Any, bytes]] = deque()

    @classmethod
    def of(cls, comm: Any, plan: Plan, name: str) -> "_Wire":
        """Return the wire of the party of that name.

        Raises NetworkError unless the job has a rank for each party, and this rank is that party's.
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
                f"rank {comm.Get_rank()} was started in the role of {who}, which belongs to"
                f" rank {rank}"
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
        """Return the next message from any rank, with its tag and bytes.

        A message that is too long for the run is received in full too, and `decode` refuses it
        without parsing it. Open MPI 5.0.11 was seen to crash if the buffer is shorter than the
        message.
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
        """Return whether a message comes within this time."""
        end = time.monotonic() + seconds
        while not (heard := self._comm.Iprobe()) and time.monotonic() < end:
            pass
        return bool(heard)

    def finish(self) -> None:
        """Wait until all sent messages have left their buffers."""
        self._mpi.Request.Waitall([request for request, _ in self._sending])
        self._comm.Free()
