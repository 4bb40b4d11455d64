"""The exchanges of a run: one query each, and one noisy answer. Rounds of the clustering and, if asked for, one for its loss.

Whatever drives the loop (the central model, clients, the server) treats all exchanges alike: an answer is a matrix whose
columns come in parts, and every entry of a part carries noise of the same scale. `Mechanism` says which parts an exchange has.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import msgspec
import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.dp.noise import Noise, NoiseSource

# Departs from the paper, where noise scales are reals: they are multiples of 1/65536 grid unit, rounded up, so that the cost of
# a mechanism is an exact rational.
SCALE_UNITS = 1 << 16


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One query and its noisy answer; kinds of it are below, and in `mechanisms/moment_lloyd/rounds.py`."""


class Round(Exchange, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, cache_hash=True):
    """One iteration: its squared radius H2 (None: no radius) and the total noise its answer must carry.

    sum_scale in grid units, count_scale in units of 2**-count_bits records: standard deviations of Gaussian noise, or scales of
    two-sided geometric noise; 0 without noise.
    """

    sum_scale: Fraction
    count_scale: Fraction
    squared_radius: int | None = None


class LossRound(Exchange, frozen=True, kw_only=True, forbid_unknown_fields=True, cache_hash=True):
    """The exchange after the last iteration that estimates the loss: what one record counts at most, and the noise of the sum.

    # Departs from the paper, which has no private estimate of the loss.

    scale (as in `Round`) and cap in units of 2**shift squared grid units: a record farther from its centroid than
    sqrt(cap << shift) grid units counts as if it were that far away.
    """

    scale: Fraction
    cap: int
    shift: int

    @property
    def squared_cap(self) -> int:
        """The most that one squared distance counts, squared grid units."""
        return self.cap << self.shift

    def unit(self, fraction_bits: int) -> float:
        """One unit of the answer in squared half widths of the domain, exactly."""
        return math.ldexp(1.0, self.shift - 2 * fraction_bits)


def sqrt_up(square: Fraction) -> Fraction:
    """The square root rounded up to a multiple of 1 / SCALE_UNITS, exactly: no float is involved."""
    units = square * SCALE_UNITS**2
    root = math.isqrt(math.ceil(units))
    return Fraction(root if root * root >= units else root + 1, SCALE_UNITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerNoise:
    """What is known of a noisy answer beside its numbers.

    deviations : of the noise, one per part, in units of the answer. share : the caps of the clients whose records are in the
    answer, over those of the clients in the first answer of the run; 1 in the central model.
    """

    deviations: tuple[float, ...]
    share: float


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Columns of an answer with the same noise: how many, its scale, and by how much one record moves one entry at most."""

    n_columns: int
    scale: Fraction
    bound: int


def draw(noise: Noise, n_rows: int, columns: Iterable[tuple[int, Fraction]], source: NoiseSource) -> IntArray:
    """Noise for one answer, int64 (n_rows, number of columns); columns : (how many, scale), drawn part by part."""
    parts = []
    for n_columns, scale in columns:
        match noise:
            case Noise.NONE:
                values = np.zeros(n_rows * n_columns, dtype=np.int64)
            case Noise.GAUSSIAN:
                values = source.gaussian(scale, n_rows * n_columns)
            case Noise.LAPLACE:
                values = source.two_sided_geometric(scale, n_rows * n_columns)
        parts.append(values.reshape(n_rows, n_columns))
    return np.concatenate(parts, axis=1)
