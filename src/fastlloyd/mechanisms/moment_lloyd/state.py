"""State of MomentLloyd between two rounds: functions of noisy answers and of the plan.

Later rounds continue from integers alone. The client that computes them uses floating point, whose
last digits differ between machines. It rounds the results to integers, which in a federated run are
sent to the others as bytes. In addition all parties keep the findings of the answers, from which
the errors of the final centroids follow.
"""

import math
from collections.abc import Container
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.errors import OverflowRisk
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.queries.parameters import Parameter, Value, symmetric
from fastlloyd.mechanisms.queries.spaces import DIRECTION_BITS, Subspace, squared_diameter

NUMBER_BITS = 16  # numbers of records are in units of 2**-16


class MomentFields(Mechanism, frozen=True, kw_only=True):
    """The fields of `MomentMechanism`, for the modules that it calls.

    n_directions : r, number of directions that are kept for records of many features, 0 for few
    features. edge : an eigenvalue of the noisy second moment counts as a direction if it is at
    least this many times the largest one of noise alone.
    """

    n_directions: int
    edge: Fraction

    @cached_property
    def fields_of_state(self) -> dict[str, Parameter]:
        """Fields of a state, by name (`fields`)."""
        return {field.name: field for field in _fields(self)}

    @property
    def n_candidates(self) -> int:
        """Return the number of candidates of the vote, 0 without a vote."""
        raise NotImplementedError

    @property
    def sum_deviation(self) -> float:
        """Standard deviation of the noise in a coordinate of the sum of all records, grid units."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Noisy:
    """One part of a noisy answer.

    values : noisy values, float64.
    deviation : standard deviation of the noise in each entry, in the units of the values.
    """

    values: FloatArray
    deviation: float

    def scaled(self, unit: float) -> "Noisy":
        """Return values and deviation times `unit`, the present unit in terms of the new one."""
        return Noisy(self.values * unit, self.deviation * unit)


def rounded(values: FloatArray, most: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the nearest integers within [-most, most]; halves are rounded to even."""
    return np.clip(np.rint(values), -np.asarray(most), np.asarray(most)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Total:
    """Noisy sum of all records without clipping, grid units (1, d), and their noisy number (1,
    1).
    """

    sums: Noisy
    count: Noisy


@dataclass(frozen=True, slots=True)
class Histogram:
    """Candidates of the vote, int64 (m, r), and the noisy votes (m, 1)."""

    candidates: IntArray
    votes: Noisy


@dataclass(frozen=True, slots=True)
class Step:
    """One step among all features: its centroids, int64 (k, d), and its noisy sums of offsets (k,
    d) and counts (k, 1).
    """

    centroids: IntArray
    sums: Noisy
    counts: Noisy


@dataclass(frozen=True, slots=True)
class Seen:
    """Findings of the answers so far.

    total : first sum, or None if it was clipped.
    histogram : votes, or None without a vote.
    steps : steps among all features, in order.
    asked_in : state at the query of the last round.
    answer : noisy answer of the last round, or None before there is one.
    """

    total: Total | None = None
    histogram: Histogram | None = None
    steps: tuple[Step, ...] = ()
    asked_in: "State | None" = None
    answer: IntArray | None = None

    def with_total(self, sums: Noisy, count: Noisy) -> Self:
        """Return a copy with this sum of all records."""
        return replace(self, total=Total(sums, count))

    def with_votes(self, candidates: IntArray, votes: Noisy) -> Self:
        """Return a copy with these votes."""
        return replace(self, histogram=Histogram(candidates, votes))

    def with_step(self, centroids: IntArray, sums: Noisy, counts: Noisy) -> Self:
        """Return a copy with this step added."""
        return replace(self, steps=(*self.steps, Step(centroids, sums, counts)))


class State(msgspec.Struct, frozen=True, kw_only=True):
    """State of a run, with zeros for what is not known yet. Lengths are in grid units, squared
    lengths in squared grid units.

    number : number of records, in units of 2**-16.
    centre : int64 (d,), their mean.
    length : their typical distance from it.
    directions : int64 (d, r) in units of 2**-20, directions of their spread, zeros if fewer were
        found.
    variances : int64 (r,), along these.
    candidates : int64 (m, r or d).
    points : int64 (k, r), centroids in the directions.
    centroids : int64 (k, d).
    sizes : int64 (k,), records per cluster, in units of 2**-16.
    spread : expected mean squared distance from the nearest centroid.
    inner_spread : the same along the directions.
    seen : findings of the answers.
    loss : noisy loss, in the units of `LossRound`.

    seen and loss are not sent, because every party has them from the answers.
    """

    number: int
    centre: IntArray
    length: int
    directions: IntArray
    variances: IntArray
    candidates: IntArray
    points: IntArray
    centroids: IntArray
    sizes: IntArray
    spread: int
    inner_spread: int
    seen: Seen = Seen()
    loss: int | None = None

    @classmethod
    def start(cls, m: MomentFields) -> Self:
        """Return the state before the first round: all zeros."""
        zeros: dict[str, Any] = {
            field.name: np.zeros(field.shape, dtype=np.int64) if field.shape else 0
            for field in fields(m)
        }
        return cls(**zeros)


def fields(m: MomentFields) -> tuple[Parameter, ...]:
    """Return the fields of a state of this mechanism in order, each with its shape and the range of
    its entries.
    """
    return tuple(m.fields_of_state.values())


def _fields(m: MomentFields) -> tuple[Parameter, ...]:
    d, k, r = m.n_features, m.n_clusters, m.n_directions
    B = m.domain.half_widths
    diameter2 = squared_diameter(B)
    diameter = math.isqrt(diameter2 - 1) + 1
    most = m.n_records << NUMBER_BITS
    inner = Subspace(domain=m.domain, n_directions=r).limits if r else np.zeros(0, dtype=np.int64)
    one = 1 << DIRECTION_BITS
    return (
        Parameter(name="number", shape=(), least=0, most=most),
        symmetric("centre", (d,), B),
        Parameter(name="length", shape=(), least=0, most=diameter),
        Parameter(name="directions", shape=(d, r), least=-one, most=one, column_square=one * one),
        Parameter(name="variances", shape=(r,), least=0, most=diameter2),
        symmetric("candidates", (m.n_candidates, r or d), inner if r else B),
        symmetric("points", (k, r), inner),
        symmetric("centroids", (k, d), B),
        Parameter(name="sizes", shape=(k,), least=0, most=most),
        Parameter(name="spread", shape=(), least=0, most=diameter2),
        Parameter(name="inner_spread", shape=(), least=0, most=diameter2),
    )


def known(m: MomentFields, state: State, **changes: Value) -> State:
    """Return the state with some fields replaced, each checked against its range."""
    ranges = m.fields_of_state
    return msgspec.structs.replace(
        state, **{name: ranges[name].check(value) for name, value in changes.items()}
    )


def limit(m: MomentFields, name: str) -> Any:
    """Return the largest entry of the field."""
    return m.fields_of_state[name].most


def encode(m: MomentFields, names: Container[str], state: State) -> bytes:
    """Return the fields of these names as bytes, in the order of `fields`.

    Every number takes 4 bytes, or 8 if its range is wider, little-endian, so the length is known
    beforehand.
    """
    return b"".join(
        np.asarray(getattr(state, field.name)).astype(field.dtype).tobytes()
        for field in _named(m, names)
    )


def decode(m: MomentFields, names: Container[str], data: bytes) -> State:
    """Read the bytes that `encode` wrote. All other fields are zeros.

    Raises OverflowRisk, without showing a value, if the length is wrong or a number is out of its
    range.
    """
    if len(data) != n_bytes(m, names):
        raise OverflowRisk(f"the parameters have {len(data)} bytes; expected {n_bytes(m, names)}")
    values: dict[str, Any] = {}
    for field in _named(m, names):
        dtype = field.dtype
        part, data = data[: field.size * dtype.itemsize], data[field.size * dtype.itemsize :]
        numbers = np.frombuffer(part, dtype=dtype).astype(np.int64)
        values[field.name] = numbers.reshape(field.shape) if field.shape else int(numbers[0])
    return known(m, State.start(m), **values)


def n_bytes(m: MomentFields, names: Container[str]) -> int:
    """Return the number of bytes that `encode` writes."""
    return sum(field.size * field.dtype.itemsize for field in _named(m, names))


def _named(m: MomentFields, names: Container[str]) -> list[Parameter]:
    return [field for field in fields(m) if field.name in names]
