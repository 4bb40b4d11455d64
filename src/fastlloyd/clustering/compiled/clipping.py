"""Offsets of records from points, clipped to a largest Euclidean norm and normalised to integers.

The integers equal those of `mechanisms/queries/clipping.py`.
"""

import numpy as np
from numba import types
from numpy.typing import NDArray

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.jit import (
    INTEGER,
    LABELS,
    REAL,
    RECORDS,
    Labels,
    Points,
    helper,
    kernel,
    read,
    rounded_helper,
)

# of records worked on together: their offsets from a few features stay in the innermost cache
ROWS = 512

_Unsigned = NDArray[np.uint32]  # labels of which the compiler need not expect that one is negative
_CLIPPED = types.int32[:, ::1]


@kernel(REAL(RECORDS, INTEGER, read(LABELS.dtype, 1), RECORDS, REAL, REAL, _CLIPPED), exact=False)
def clip_offsets(
    XT: Points, start: int, owners: Labels, CT: Points, radius: float, units: float, clipped: Points
) -> float:
    """Set `clipped` to the clipped offsets of records from their points. Return the largest squared
    norm.

    XT : records feature by feature, (d, n). The m records from position `start` onwards are used.
    owners : index of the point of each record, (m,), from 0 to k - 1.
    CT : points, (d, k).
    radius, units : as in `mechanisms/queries/clipping.py`.
    clipped : output, (d, m).

    Let z be an offset. Its length is its norm or the radius, whichever is larger. A clipped
    coordinate is x = |z_i| units / length, rounded down, with the sign of z_i. The code computes
    the product of |z_i| and a factor that is slightly too large and the same for all i. The product
    is between x and x (1 + 2**-47), and no integer other than x is between them (lemma 4 of
    docs/proofs/clipped-queries.md). The compiler keeps the order in which root, quotient and
    product are computed and rounded.
    """
    d, more_than_units = len(XT), units * (1.0 + 2.0**-48)
    offsets, scratch, longest = np.empty((d, ROWS)), np.empty((2, ROWS)), np.zeros(ROWS)
    for first in range(0, clipped.shape[1], ROWS):
        m = min(ROWS, clipped.shape[1] - first)
        own, factors, norms = (
            owners[first : first + m].view(np.uint32),
            scratch[0, :m],
            scratch[1, :m],
        )
        norms[:] = 0.0
        for j in range(0, d - 3, 4):
            _offset_four(
                XT[j : j + 4], start + first, own, CT[j : j + 4], offsets[j : j + 4], norms
            )
        for j in range(d // 4 * 4, d):
            _offset(XT[j, start + first :], own, CT[j], offsets[j], norms)
        _find_factors(norms, radius, more_than_units, factors)
        norms[:] = 0.0
        for j in range(d):
            _clip(offsets[j], factors, clipped[j, first : first + m], norms)
        for r in range(m):
            longest[r] = max(longest[r], norms[r])
    return float(longest.max())


@helper
def _offset_four(
    XT: Points, start: int, owners: _Unsigned, CT: Points, offsets: FloatArray, norms: FloatArray
) -> None:
    """Set four features of the offsets, and add their squares to the squared norms (m,)."""
    m = len(norms)
    x0, x1, x2, x3 = (
        XT[0, start : start + m],
        XT[1, start : start + m],
        XT[2, start : start + m],
        XT[3, start : start + m],
    )
    c0, c1, c2, c3 = CT[0], CT[1], CT[2], CT[3]
    z0, z1, z2, z3 = offsets[0], offsets[1], offsets[2], offsets[3]
    for r in range(m):
        c = np.intp(owners[r])
        s, t = np.float64(np.int32(x0[r] - c0[c])), np.float64(np.int32(x1[r] - c1[c]))
        u, v = np.float64(np.int32(x2[r] - c2[c])), np.float64(np.int32(x3[r] - c3[c]))
        z0[r] = s
        z1[r] = t
        z2[r] = u
        z3[r] = v
        norms[r] += s * s + t * t + u * u + v * v


@helper
def _offset(
    x: Points, owners: _Unsigned, c: Points, offsets: FloatArray, norms: FloatArray
) -> None:
    """Set one feature of the offsets, as `_offset_four` does for four."""
    for r in range(len(norms)):
        z = np.float64(np.int32(x[r] - c[np.intp(owners[r])]))
        offsets[r] = z
        norms[r] += z * z


@rounded_helper
def _find_factors(
    squares: FloatArray, radius: float, more_than_units: float, factors: FloatArray
) -> None:
    """Set the factor of each offset: `more_than_units` divided by a length. The length is the norm
    of the offset, rounded up to an integer, or the radius if that is larger.

    squares : squared norms of the offsets.
    """
    for r in range(len(squares)):
        # the integer root, or one more: then it is the ceiling of a square that has none
        root = np.floor(np.sqrt(squares[r]))
        root += 1.0 if root * root < squares[r] else 0.0
        factors[r] = more_than_units / max(root, radius)


@rounded_helper
def _clip(offsets: FloatArray, factors: FloatArray, clipped: Points, norms: FloatArray) -> None:
    """Set one feature of the clipped offsets, and add its square to the squared norms."""
    for r in range(len(norms)):
        z = np.trunc(offsets[r] * factors[r])
        clipped[r] = np.int32(z)
        norms[r] += z * z
