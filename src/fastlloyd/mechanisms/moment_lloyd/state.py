"""State of MomentLloyd between two rounds, a function of noisy answers and of the plan.

The client that computes a state uses floating point, whose last digits differ between machines. It
rounds the results to integers. In a federated run it sends the integers to the other clients as
bytes. So later rounds start from the same integers everywhere. All parties also keep the noisy
sums, votes and steps (`Seen`), from which the errors of the final centroids follow.
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
    """Fields of `MomentMechanism`, for the modules that it imports.

    n_directions : number r of directions used for records of many features, or 0 for few features.
    edge : smallest eigenvalue of the noisy second moment that counts as a direction, divided by the
        largest eigenvalue of noise alone.
    """

    n_directions: int
    edge: Fraction

    @cached_property
    def fields_of_state(self) -> dict[str, Parameter]:
        """Fields of a state by name, as `fields` returns them."""
        return {field.name: field for field in _fields(self)}

    @property
    def n_candidates(self) -> int:
        """Number of candidates in the vote, in which each record votes for the candidate nearest to
        it, or 0 without a vote.
        """
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
        """Return values and deviation multiplied by `unit`.

        unit : size of the old unit, measured in the new unit.
        """
        return Noisy(self.values * unit, self.deviation * unit)


def rounded(values: FloatArray, most: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the values rounded to integers (halves to even) and clipped to [-most, most]."""
    return np.clip(np.rint(values), -np.asarray(most), np.asarray(most)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Total:
    """Noisy sum of all records without clipping, (1, d) in grid units, and their noisy number, (1,
    1).
    """

    sums: Noisy
    count: Noisy


@dataclass(frozen=True, slots=True)
class Histogram:
    """Candidates of the vote, int64 (m, r), and their noisy votes, (m, 1)."""

    candidates: IntArray
    votes: Noisy


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the clustering that used all features, not directions.

    centroids : centroids before the step, int64 (k, d).
    sums : noisy sums of offsets, (k, d).
    counts : noisy counts, (k, 1).
    """

    centroids: IntArray
    sums: Noisy
    counts: Noisy


@dataclass(frozen=True, slots=True)
class Seen:
    """Noisy sums, votes and steps of the answers so far.

    total : sum of all records from the first round, or None if that sum was clipped.
    histogram : votes, or None without a vote.
    steps : steps in all features, in order.
    asked_in : state from which the query of the last round was made.
    answer : noisy answer of the last round, or None before the first answer.
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
    """State of a run. A field without a value yet is 0.

    Distances are in grid units, squared distances in squared grid units. All parties compute `seen`
    and `loss` from the answers, so these fields are not sent.

    number : number of records, in units of 2**-16.
    centre : mean of the records, int64 (d,).
    length : typical distance of records from `centre`.
    directions : directions in which the records spread, int64 (d, r) in units of 2**-20. Columns of
        directions that were not found are 0.
    variances : variances of the records along the directions, int64 (r,).
    candidates : candidates of the vote, int64 (m, r or d).
    points : centroids along the directions, int64 (k, r).
    centroids : centroids in all features, int64 (k, d).
    sizes : number of records of each cluster, int64 (k,), in units of 2**-16.
    spread : expected mean squared distance from the nearest centroid.
    inner_spread : expected mean squared distance along the directions.
    seen : noisy sums, votes and steps of the answers so far, from which the errors of the centroids
        follow.
    loss : noisy loss, in the units of `LossRound`, or None.
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
        """Return the state before the first round. All fields are zero."""
        zeros: dict[str, Any] = {
            field.name: np.zeros(field.shape, dtype=np.int64) if field.shape else 0
            for field in fields(m)
        }
        return cls(**zeros)


def fields(m: MomentFields) -> tuple[Parameter, ...]:
    """Return the fields of this mechanism's states in order, each with its shape and range."""
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
    """Return the state with some fields replaced, after a check of each new value against its
    range.
    """
    ranges = m.fields_of_state
    return msgspec.structs.replace(
        state, **{name: ranges[name].check(value) for name, value in changes.items()}
    )


def limit(m: MomentFields, name: str) -> Any:
    """Return the largest value that an entry of the field `name` may have."""
    return m.fields_of_state[name].most


def encode(m: MomentFields, names: Container[str], state: State) -> bytes:
    """Return the fields of a state as bytes, in the order of `fields`.

    names : names of the fields to encode.

    Every number takes 4 bytes, or 8 if its range is wider, little-endian. So the length is known
    beforehand.
    """
    return b"".join(
        np.asarray(getattr(state, field.name)).astype(field.dtype).tobytes()
        for field in _named(m, names)
    )


def decode(m: MomentFields, names: Container[str], data: bytes) -> State:
    """Return the state whose fields `names` were encoded as `data`. All other fields are zeros.

    Raises OverflowRisk if the length is wrong or a number is out of its range. The message shows no
    number.
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
