"""Vectors whose coordinates, clipped, come as near to an integer as any can, from below and from
above, or meet it.
"""

import math

import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray

LONGEST = math.isqrt(2**53 - 1)


def hardest(lengths: IntArray, units: int, generator: np.random.Generator) -> IntArray:
    """Vectors (3 n, 2) whose norms, rounded up, are these lengths, 1 to LONGEST: of each a norm
    three vectors.

    The first coordinate a is the largest with a units = -g, 0 or g modulo the length, g its common
    divisor with the units: no multiple of 1 / length is nearer to an integer. The second one is as
    long as it may be.
    """
    firsts = []
    for length in lengths.tolist():
        g = math.gcd(length, units)
        inverse = pow(units // g, -1, length // g)
        firsts += [r * inverse % (length // g) + (g - 1) * (length // g) for r in (-1, 0, 1)]
    a, L = np.array(firsts, dtype=np.int64), lengths.repeat(3).astype(np.int64)
    rest = L * L - a * a
    b = np.floor(np.sqrt(rest.astype(np.float64))).astype(np.int64)
    b -= b * b > rest
    Z = np.column_stack([a, b]) * generator.choice([-1, 1], (len(a), 2))
    return generator.permuted(Z, axis=1)


def multiplied(Z: IntArray, units: int, slack: float) -> FloatArray:
    """What products with units (1 + slack) / |z| give, |z| rounded up, towards zero."""
    squares = (Z * Z).sum(axis=1).astype(np.float64)
    lengths = np.floor(np.sqrt(squares))
    lengths += lengths * lengths < squares
    products: FloatArray = np.trunc(Z * (units * (1.0 + slack) / lengths)[:, None])
    return products


def compiled(Z: IntArray, radius: int, units: int) -> IntArray:
    """What compiled code gives for offsets Z (n, d)."""
    from fastlloyd.clustering.compiled.clipping import clip_offsets

    n, d = Z.shape
    clipped, XT = np.empty((d, n), dtype=np.int32), np.ascontiguousarray(Z.T, dtype=np.int32)
    owners, origin = np.zeros(n, dtype=np.int32), np.zeros((d, 1), dtype=np.int32)
    longest = clip_offsets(XT, 0, owners, origin, float(radius), float(units), clipped)
    assert longest == (clipped.astype(np.int64) ** 2).sum(axis=0).max()
    return clipped.T.astype(np.int64)
