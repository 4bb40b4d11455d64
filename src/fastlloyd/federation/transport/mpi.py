"""Transport over MPI: rank 0 is the server, and rank i is the i-th client of the plan. It serves
benchmarks and clusters, never several organisations.

MPI encrypts nothing and knows no identities: every process of the job can read all messages, and
send messages in any party's name. So all ranks must trust each other. The sessions and their
messages are those of every other transport, so the same noise gives the same results, bit for bit.
If one rank dies, the job ends. Start the job with `mpirun -n 3 python -m mpi4py PROGRAM`, so that
an error in one rank ends it too. Otherwise the other ranks wait for ever.

Only buffers of bytes are sent, never pickled objects. The tag of a buffer is its `Kind`. Each side
receives until the other has sent its last message, so none is pending when the job ends.
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
    """Return the module `mpi4py.MPI`. Its import starts MPI.

    Raises NetworkError if it cannot be imported.
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
    """Drive the server's session to the end of the run, as `party.serve` does, and return the
    outcome.

    comm : communicator of mpi4py with one rank for the server and one for each client.

    Raises NetworkError if the number of ranks is wrong, or if this process is not rank 0.
    """
    wire = _Wire.of(comm, session.plan, SERVER)
    result = party.serve(session, wire)
    wire.finish()
    return result


def take_part(session: ClientSession, comm: Any) -> ClientResult | Ended:
    """Drive a client's session to the end of the run, as `party.take_part` does, and return the
    outcome.

    comm : as in `serve`.

    Raises NetworkError if the number of ranks is wrong, or if this rank is another party's.
    """
    wire = _Wire.of(comm, session.plan, session.name)
    outcome = party.take_part(session, wire)
    wire.finish()
    return outcome


class _Wire:
    """Wire that sends buffers of bytes to ranks, with the kind as their tag. Only `receive` and
    `finish` block.

    comm : communicator of mpi4py.
    names : name of the party of each rank.
    """

    def __init__(self, comm: Any, names: Sequence[str]) -> None:
        # A communicator of its own, so messages of other parts of the program, or of a later run,
        # do not come here.
        self._comm, self._mpi, self._names = comm.Dup(), load_mpi(), names
        # keeps each buffer until MPI has read it, which is when its request is done
        self._sending: deque[tuple[Any, bytes]] = deque()

    @classmethod
    def of(cls, comm: Any, plan: Plan, name: str) -> "_Wire":
        """Return the wire of the party `name`.

        Raises NetworkError unless the job has one rank for each party, and this rank is the
        party's.
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
        # Do not test earlier requests here. The test takes time, and the recipient of the first of
        # several messages could use this core meanwhile.
        self._sending.append(
            (self._comm.Isend([data, self._mpi.BYTE], dest=self._names.index(to), tag=kind), data)
        )

    def receive(self, seconds: float | None = None) -> Heard | None:
        """Return the next message from any rank, or None if none comes within `seconds`.

        A message that is too long for the run is also received in full. `decode` refuses it without
        parsing it. Open MPI 5.0.11 was seen to crash if the buffer is shorter than the message.
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
        """Wait until all sent messages have left their buffers, and free the communicator."""
        self._mpi.Request.Waitall([request for request, _ in self._sending])
        self._comm.Free()
