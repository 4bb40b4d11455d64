"""Initial centroids by sphere packing, from a public seed and without data.

Sources are Su et al. 2016, and Section 5.3.1 of the paper.
"""

import enum
import functools

import msgspec
import numpy as np

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.base.randomness import PublicSeed, PublicStream, Spans
from fastlloyd.clustering.domain import Domain, finest_bits

ATTEMPTS = 100  # "after 100 repeated attempts"
BLOCK_WORDS = 1 << 12  # drawn at once: 32 KiB
CALLS = 1 << 11  # steps that the calls of NumPy for a point, some ten, take besides
PACKING_BITS = 16  # of the grid on which centroids are packed where that of the domain is coarser


class RadiusSearch(enum.Enum):
    """Method of the search for the packing radius `a`.

    Departs from the paper: its text says binary search, but its published code only halves the
    radius. Random numbers are integers from a public stream, which are equal on every machine, and
    not floats of a library. The radius 0 is allowed, so a packing always exists.
    """

    BISECTION = "bisection"  # the largest feasible a, as the paper's text says
    HALVING = "halving"  # a = B, B/2, B/4, ...: what the published experiments ran


def initial_centroids(
    domain: Domain, n_clusters: int, seed: PublicSeed, search: RadiusSearch
) -> IntArray:
    """Return the initial centroids of a run, int64 (n_clusters, n_features) in grid units.

    They are the result of `sphere_packing` inside the bounds. On a grid of less than 16 bits, the
    packing is computed with 16 bits and rounded half up. So one seed gives the same initial
    centroids on every grid. A packing on the coarse grid would give quite different points. A
    comparison of two grids would then in fact compare two sets of initial centroids.
    """
    finer = min(PACKING_BITS, finest_bits(domain.n_features)) - domain.fraction_bits
    if finer <= 0:
        return sphere_packing(domain.half_widths, n_clusters, seed, search)
    packed_in, unit = (
        msgspec.structs.replace(domain, fraction_bits=domain.fraction_bits + finer),
        1 << finer,
    )
    points = (sphere_packing(packed_in.half_widths, n_clusters, seed, search) + unit // 2) // unit
    return np.clip(points, -domain.half_widths, domain.half_widths)  # whose widths are rounded, too


def sphere_packing(
    half_widths: IntArray, n_clusters: int, seed: PublicSeed, search: RadiusSearch
) -> IntArray:
    """Return points whose distance is at least `a` from the walls and at least `2 * a` from each
    other, int64 (n_clusters, n_features).

    The search finds the radius `a`. It always succeeds, because `a = 0` is possible. If the half
    width of a feature is at most `a`, every point is in the middle of this feature. Only integers
    and a ChaCha20 stream are used, so the result is the same on every machine.

    half_widths : half widths B_i of the box [-B_i, B_i] in grid units, int64 (n_features,).
    """
    return _packed(tuple(half_widths.tolist()), n_clusters, seed, search).copy()


@functools.lru_cache(
    maxsize=64
)  # the same start is checked whenever its mechanism is read or a client joins
def _packed(
    widths: tuple[int, ...], n_clusters: int, seed: PublicSeed, search: RadiusSearch
) -> IntArray:
    half_widths = np.array(widths, dtype=np.int64)
    match search:
        case RadiusSearch.HALVING:
            return _packed_by_halving(half_widths, n_clusters, int(half_widths.max()), seed)
        case RadiusSearch.BISECTION:
            return _packed_by_bisection(half_widths, n_clusters, seed)


def _packed_by_halving(
    half_widths: IntArray, n_clusters: int, radius: int, seed: PublicSeed
) -> IntArray:
    while (points := pack(half_widths, n_clusters, radius, seed)) is None:
        radius //= 2
    return points


def _packed_by_bisection(half_widths: IntArray, n_clusters: int, seed: PublicSeed) -> IntArray:
    feasible, infeasible, best = 0, int(half_widths.max()) + 1, None
    while infeasible - feasible > 1:
        middle = (feasible + infeasible) // 2
        points = pack(half_widths, n_clusters, middle, seed)
        if points is None:
            infeasible = middle
        else:
            feasible, best = middle, points
    return _packed_by_halving(half_widths, n_clusters, 0, seed) if best is None else best


def pack(half_widths: IntArray, n_clusters: int, radius: int, seed: PublicSeed) -> IntArray | None:
    """Return packed points, or None if a point finds no place after 100 attempts.

    The points are placed one after another.

    radius : distance a from the walls, and half the distance between two points.
    """
    points = np.empty((n_clusters, len(half_widths)))  # whole numbers
    reach, label = (
        half_widths - np.minimum(radius, half_widths),
        b"fastlloyd/v1/sphere-packing" + radius.to_bytes(8, "little"),
    )
    placed = None
    if is_compiled(
        n_clusters * (CALLS + ATTEMPTS * points.size // 8)
    ):  # rarely all attempts, beside half of the points
        placed = _placed_by_compiled_code(points, reach, PublicStream(seed, label), 4 * radius**2)
    if placed is None:
        placed = _placed(points, reach, PublicStream(seed, label), 4 * radius**2)
    return points.astype(np.int64) if placed else None


def _placed_by_compiled_code(
    points: FloatArray, reach: IntArray, stream: PublicStream, squared_gap: int
) -> bool | None:
    """Place the points as `_placed` does, by compiled code.

    Returns None if `PublicStream.integers` would reject a word and take others. A rejection has a
    probability of at most 1 / 2**31 for each word.
    """
    from fastlloyd.clustering.compiled.packing import place

    k, d = points.shape
    together = max(1, BLOCK_WORDS // (ATTEMPTS * d))
    for first in range(0, k, together):
        words = stream.words(min(together, k - first) * ATTEMPTS * d)
        placed = place(words, reach, points, first, ATTEMPTS, float(squared_gap))
        if placed != 1:
            return None if placed < 0 else False
    return True


def _placed(points: FloatArray, reach: IntArray, stream: PublicStream, squared_gap: int) -> bool:
    """Place the points (k, d), each after at most 100 attempts. Return False if there is no place
    for a point.
    """
    spans, shape = Spans.of(-reach, reach), (ATTEMPTS, len(reach))
    for n in range(len(points)):
        candidates = stream.within(spans, shape).astype(np.float64)
        place = _first_free(candidates, points[:n], squared_gap) if n else candidates[0]
        if place is None:
            return False
        points[n] = place
    return True


def _first_free(candidates: FloatArray, points: FloatArray, squared_gap: int) -> FloatArray | None:
    """Return the first candidate that is far enough from all points, or None.

    Candidates are searched in batches that grow, because an early candidate is usually free.
    Squares and products are whole numbers below 2**53, so any order of addition is exact. `einsum`
    adds them in this thread, because threads of a matrix library wait for each other on a busy
    machine.
    """
    doubled, lengths = 2.0 * points, np.einsum("nd,nd->n", points, points)
    room = np.einsum("ld,ld->l", candidates, candidates) - squared_gap
    start, lot = 0, 2
    while start < len(candidates):
        some = candidates[start : start + lot]
        free = (np.einsum("ld,nd->ln", some, doubled) - lengths).max(axis=1) <= room[
            start : start + lot
        ]
        first = int(free.argmax())
        if free[first]:
            place: FloatArray = some[first]
            return place
        start, lot = start + lot, 2 * lot
    return None
