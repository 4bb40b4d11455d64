"""As much of mpi4py as the transport uses, for ranks that are threads of this process. Nothing is
lost; order is kept.
"""

from queue import SimpleQueue
from typing import Any

HANG = 60.0


class Status:
    source, tag, n_bytes = -1, -1, 0

    def Get_source(self) -> int:  # noqa: N802 - MPI's names here and below
        return self.source

    def Get_tag(self) -> int:  # noqa: N802
        return self.tag

    def Get_count(self, _kind: object) -> int:  # noqa: N802
        return self.n_bytes


class Request:
    def Test(self) -> bool:  # noqa: N802
        return True

    @staticmethod
    def Waitall(_requests: list[Any]) -> None:  # noqa: N802
        pass


class Probed:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def Recv(self, buffer: list[Any]) -> None:  # noqa: N802
        buffer[0][:] = self.data


class Rank:
    """One rank's communicator; `of` makes those of a job."""

    def __init__(self, rank: int, boxes: "list[SimpleQueue[tuple[int, int, bytes]]]") -> None:
        self.rank, self.boxes = rank, boxes

    @classmethod
    def of(cls, size: int) -> "list[Rank]":
        boxes: list[SimpleQueue[tuple[int, int, bytes]]] = [SimpleQueue() for _ in range(size)]
        return [cls(rank, boxes) for rank in range(size)]

    def Get_rank(self) -> int:  # noqa: N802
        return self.rank

    def Get_size(self) -> int:  # noqa: N802
        return len(self.boxes)

    def Dup(self) -> "Rank":  # noqa: N802
        return self

    def Free(self) -> None:  # noqa: N802
        pass

    def Isend(self, buffer: list[Any], dest: int, tag: int) -> Request:  # noqa: N802
        self.boxes[dest].put((self.rank, tag, bytes(buffer[0])))
        return Request()

    def Iprobe(self) -> bool:  # noqa: N802
        return not self.boxes[self.rank].empty()

    def Mprobe(self, status: Status) -> Probed:  # noqa: N802
        status.source, status.tag, data = self.boxes[self.rank].get(timeout=HANG)
        status.n_bytes = len(data)
        return Probed(data)


class MPI:
    """In place of the module `mpi4py.MPI`."""

    BYTE, Status, Request = None, Status, Request
