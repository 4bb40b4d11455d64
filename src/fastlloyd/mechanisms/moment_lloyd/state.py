"""What MomentLloyd knows between two rounds: integers only, all of them functions of noisy answers and of the plan.

A state is all that later rounds go on from. Who works out the next one may use floating point, whose last digits are not the
same on every machine; the state is rounded to integers, and whoever has the state asks exactly the same query.
"""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np

from fastlloyd.clustering.domain import IntArray
from fastlloyd.mechanisms.queries.parameters import Parameter, Value, symmetric
from fastlloyd.mechanisms.queries.spaces import DIRECTION_BITS, Subspace, squared_diameter

if TYPE_CHECKING:
    from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism

NUMBER_BITS = 16  # numbers of records are in units of 2**-16


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Zeros stand for what is not known yet. Lengths in grid units, squared lengths in squared grid units.

    number : how many records there are, in units of 2**-16. centre : int64 (d,), their mean. length : their typical distance
    from it. directions : int64 (d, r) in units of 2**-20, those in which they spread, zeros where fewer were found; variances :
    int64 (r,), along these. candidates : int64 (m, r or d). points : int64 (k, r), centroids seen in the directions.
    centroids : int64 (k, d). sizes : int64 (k,), records per cluster, in units of 2**-16. spread : mean squared distance to be
    expected from the nearest centroid; inner_spread : the same along the directions.
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

    @classmethod
    def start(cls, m: "MomentMechanism") -> Self:
        """Nothing is known."""
        zeros: dict[str, Any] = {field.name: np.zeros(field.shape, dtype=np.int64) if field.shape else 0 for field in fields(m)}
        return cls(**zeros)


@lru_cache(maxsize=16)  # of public numbers; every party asks many times a round
def fields(m: "MomentMechanism") -> tuple[Parameter, ...]:
    """The fields of a state of this mechanism in order, each with its shape and the range of its entries."""
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


def known(m: "MomentMechanism", state: State, **changes: Value) -> State:
    """The state with some fields replaced, each checked against its range."""
    ranges = {field.name: field for field in fields(m)}
    return msgspec.structs.replace(state, **{name: ranges[name].check(value) for name, value in changes.items()})
