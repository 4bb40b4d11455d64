"""States as bytes: of a length that the plan fixes, whatever was found out.

Before each round only those fields travel that it or a later one needs. Every number takes 4 bytes, or 8 where its range is
wider, little-endian; all are checked against their ranges when they are read.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from fastlloyd.errors import OverflowRisk
from fastlloyd.mechanisms.moment_lloyd.rounds import LengthsRound, SecondMomentRound, SquaresRound, StepRound, VotesRound
from fastlloyd.mechanisms.moment_lloyd.state import State, fields, known
from fastlloyd.mechanisms.queries.parameters import Parameter

if TYPE_CHECKING:
    from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism


def encode(m: "MomentMechanism", index: int, state: State) -> bytes:
    """The state before the round of that index, from 0; after the last one with the number of rounds as index."""
    return b"".join(np.asarray(getattr(state, field.name)).astype(_dtype(field)).tobytes() for field in travelling(m, index))


def decode(m: "MomentMechanism", index: int, data: bytes) -> State:
    """Read what `encode` wrote; fields that do not travel are zeros. Raises OverflowRisk; no value is shown."""
    if len(data) != n_bytes(m, index):
        raise OverflowRisk(f"the parameters have {len(data)} bytes; expected {n_bytes(m, index)}")
    values: dict[str, Any] = {}
    for field in travelling(m, index):
        dtype = _dtype(field)
        part, data = data[: field.size * dtype.itemsize], data[field.size * dtype.itemsize :]
        numbers = np.frombuffer(part, dtype=dtype).astype(np.int64)
        values[field.name] = numbers.reshape(field.shape) if field.shape else int(numbers[0])
    return known(m, State.start(m), **values)


def n_bytes(m: "MomentMechanism", index: int) -> int:
    """How many bytes the state before that round takes."""
    return sum(field.size * _dtype(field).itemsize for field in travelling(m, index))


def travelling(m: "MomentMechanism", index: int) -> list[Parameter]:
    """The fields that the round of that index or a later one needs, in the order of `fields`."""
    names = _names(m, index)
    return [field for field in fields(m) if field.name in names]


def _names(m: "MomentMechanism", index: int) -> set[str]:
    if index == len(m.rounds):
        return {"centroids", "sizes"}
    frame = {"centre", "directions"} if m.n_directions else set()
    match m.rounds[index]:
        case SquaresRound() | LengthsRound():
            return {"number", "centre"}
        case SecondMomentRound():
            return {"number", "centre", "length"}
        case VotesRound():
            return {"number", "candidates"} | ({*frame, "variances", "length"} if frame else set())
        case StepRound(in_directions=True):
            return {"number", "spread", "inner_spread", "points", *frame}
        case StepRound():
            return {"number", "spread", "centroids", *frame}
    raise AssertionError("nothing is known before the mean is asked for")


def _dtype(field: Parameter) -> np.dtype[np.signedinteger]:
    reach = max(int(np.abs(field.least).max(initial=0)), int(np.abs(field.most).max(initial=0)))
    return np.dtype("<i4") if reach < 1 << 31 else np.dtype("<i8")
