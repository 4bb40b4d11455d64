"""Vectors that are clipped to a radius and normalised to integers, which bounds their Euclidean
norm.

Compiled code in `clustering/compiled/clipping.py` gives the same integers.

    clip(z) = z units / max(radius, |z|)

Each coordinate is rounded towards zero, and |z| is rounded up to an integer. So each coordinate is
at most units |z_i| / |z| in magnitude. The norm of the integer vector is never above `units`,
without any rounding error. Float64 holds only integers, apart from the quotient and the root. For
these two, IEEE 754's correct rounding suffices:

- For integers 0 <= a, 0 < b, a + b < 2**53, floor(fl(a / b)) = floor(a / b).
- For integers 0 <= n < 2**53, floor(fl(sqrt(n))) is the integer root of n or one more. A comparison
  of its square with n decides.

Proofs are in docs/proofs/clipped-queries.md.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray, GridArray, IntArray
from fastlloyd.clustering.kernels import blocks
from fastlloyd.clustering.sums import feature_major
from fastlloyd.errors import PlanError

# its square times 2**18 records of a block is exact in float64, times 2**30 records in int64
MAX_UNITS = 1 << 16
CLIPPED_CELLS = 1 << 16  # of vectors that compiled code clips at once: 256 KB
LEAST_ROWS = 256  # of them


def centred(X: GridArray, centre: IntArray) -> Iterator[FloatArray]:
    """Yield x - centre for all records x of X (n, d), in blocks.

    A block is float64 (n_i, d), in the memory order of X.
    """
    g = centre.astype(np.float64)
    for start, stop in blocks(len(X), X.shape[1], None):
        Z = X[start:stop].astype(np.float64)
        Z -= g
        yield Z


def clipped_offsets(
    X: GridArray,
    start: int,
    stop: int,
    owners: NDArray[np.int32],
    C: IntArray,
    radius: int,
    units: int,
) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """Yield the clipped offsets of the records X[start:stop] from their points, by compiled code.

    Each block comes with the position of its first record. A block is int32 (d, n_i), and the next
    one overwrites it.

    owners : index of the point of each record, (n,).
    C : points, (k, d).
    radius, units : as in `clip`.
    """
    from fastlloyd.clustering.compiled.clipping import clip_offsets

    CT = np.ascontiguousarray(C.T, dtype=np.int32)
    rows = max(LEAST_ROWS, CLIPPED_CELLS // len(CT))
    Z = np.empty(min(rows, stop - start) * len(CT), dtype=np.int32)
    for XT, (first, last), place in feature_major(X, start, stop):
        for a in range(first, last, rows):
            m, here = min(rows, last - a), place + a - first
            some = Z[: m * len(CT)].reshape(len(CT), m)
            check_largest(
                clip_offsets(XT, a, owners[here : here + m], CT, float(radius), float(units), some),
                units,
            )
            yield here, some


def clip(Z: FloatArray, radius: int, units: int) -> FloatArray:
    """Return the clipped and normalised rows of Z: integers with squared norms of at most units**2.

    Z : integers with squared norms below 2**53, float64 (n, r), which are overwritten.
    radius : radius from 1 to 2**27, in the units of Z.
    units : largest norm of a clipped row.
    """
    lengths = np.maximum(ceil_norms(Z), radius)
    Z *= units
    Z /= lengths[:, None]
    _round_towards_zero(Z)
    _check_lengths(Z, units)
    return Z


def clipped_lengths(Z: FloatArray, radius: int, units: int) -> FloatArray:
    """Return floor(units * min(|z|, radius) / radius) for each row z of Z: integers from 0 to
    `units`. Before that, |z| is rounded down to an integer.
    """
    lengths = np.minimum(floor_norms(Z), radius)
    scaled: FloatArray = np.floor(lengths * units / radius)
    return scaled


def squared_norms(Z: FloatArray) -> FloatArray:
    """Return the squared norms of the rows of Z.

    For integers below 2**53 they are exact, in any order of addition.
    """
    squares: FloatArray = np.einsum("ij,ij->i", Z, Z)
    return squares


def floor_norms(Z: FloatArray) -> FloatArray:
    """Return the norm of each row of Z, rounded down to an integer."""
    return integer_roots(squared_norms(Z))


def ceil_norms(Z: FloatArray) -> FloatArray:
    """Return the norm of each row of Z, rounded up to an integer."""
    squares = squared_norms(Z)
    roots = integer_roots(squares)
    roots += roots * roots < squares
    return roots


def integer_roots(squares: FloatArray) -> FloatArray:
    """Return floor(sqrt(n)) of integers 0 <= n < 2**53."""
    roots = np.floor(np.sqrt(squares))
    roots -= roots * roots > squares
    return roots


def check_units(units: int) -> None:
    """Raise PlanError if products of integers up to `units` would not be exact.

    `units` must be even, so that half its square is an integer.
    """
    if type(units) is not int or not 2 <= units <= MAX_UNITS or units % 2:
        raise PlanError(f"units is {units!r:.40}; expected an even number from 2 to {MAX_UNITS}")


def _round_towards_zero(values: FloatArray) -> None:
    np.trunc(values, out=values)


def _check_lengths(Z: FloatArray, units: int) -> None:
    """Raise AssertionError if the norm of a clipped vector is above `units`.

    The bound is proven for IEEE 754. Privacy depends on it, so it is checked on each machine.
    """
    check_largest(squared_norms(Z).max(initial=0.0), units)


def check_largest(square: float, units: int) -> None:
    """Raise AssertionError if `square`, the largest squared norm of some clipped vectors, exceeds
    units**2.
    """
    if square > units**2:
        raise AssertionError(
            "this machine does not divide as IEEE 754 requires: a clipped vector is too long"
        )
