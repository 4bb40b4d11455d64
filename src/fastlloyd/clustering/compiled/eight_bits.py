"""Labels of records by products of bytes (`clustering/eight_bits.py`).

Records are worked on in groups whose bytes stay in the innermost cache, and whose scores stay in
the second. Every loop over bounds and features runs the same for every record; only the distances
of candidates are computed record by record. Records with many candidates come together in groups of
their own, with products in float32.
"""

import math
from typing import Any

import numpy as np
from numba import types

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.jit import (
    CENTROIDS,
    INTEGER,
    LABELS,
    REAL,
    RECORDS,
    Labels,
    Points,
    helper,
    inlined,
    kernel_by_width,
    read,
    rounded_helper,
)
from fastlloyd.clustering.compiled.byte_products import (
    LANES,
    PANEL,
    ROWS,
    add_products,
    at_most,
    lowest_bit,
)
from fastlloyd.clustering.compiled.distances import Width

FEW_RECORDS = 7  # for which float32 would take longer than exact distances to all candidates
MIDDLE = 128  # added to a byte of a record, which then has no sign
UP = 1.0 + 2.0**-20  # a factor larger than what a few roundings to float32 lose
ROUNDED = 2.0**-21  # 8 u of docs/proofs/eight-bits.md
_PACKED, _F2, _SMALL = types.int8[:, :, :, ::1], types.float32[:, ::1], types.int32[:, ::1]
_F3, _POINT = types.float32[:, :, ::1], types.int32[::1]
_CENTROIDS: Any = types.Tuple(  # type: ignore[no-untyped-call]
    (_PACKED, _F2, _F3, _F2, _SMALL, _POINT)
)
_SCRATCH: Any = types.Tuple(  # type: ignore[no-untyped-call]
    (types.uint8[:, ::1], _F2, _F2, _F2, _F2, types.float64[::1], types.int64[::1])
)


@kernel_by_width(LANES, lambda width: types.float64(CENTROIDS, REAL, REAL, _CENTROIDS, width))
def pack(C: IntArray, scale: float, error: float, centroids: Any, width: Width) -> float:
    """Convert centroids to bytes, each with a scale of its own, and to float32.

    Returns a number that is added to the `loss` of each record (`add_products`). It covers all
    roundings to float32, except those that are proportional to the record's Euclidean norm.

    C : centroids, int64 (k, d).
    scale : scale of the bytes of records.
    error : relative error of sums in float32.
    centroids : six arrays. All but the last are output, and their entries must be 0 before the
        call. The first two are bytes as `add_products` needs them, (vectors, groups, lanes, 4), and
        their terms, (5, centroids with those that fill up the last panel). The next two are
        centroids in float32, (vectors, d, lanes), and their terms. The fifth is the centroids as
        int32. The last is a point near the centroids, (d,), the middle. Bytes and float32 represent
        the offset of a centroid from it.
    width : tuple whose length is the number of lanes.
    """
    packed, terms, floats, float_terms, small, middle = centroids
    (k, d), begin = C.shape, terms[0].view(np.int32)
    factors, constants, p, q = terms[1], terms[2], terms[3], terms[4]
    distance, most = 0.0, 0.0
    for j in range(d):
        distance += np.float64(middle[j]) * middle[j]
    float_terms[1], float_terms[2, k:], constants[k:] = -2.0, np.inf, np.inf
    for c in range(k):
        vector, lane, reach, total = packed[c // len(width)], c % len(width), 0, np.int64(0)
        for j in range(d):
            small[c, j] = np.int32(C[c, j])
            reach = max(reach, abs(small[c, j] - middle[j]))
        unit = np.float64(np.float32(max(reach, 1) / 127.0))
        square, lost, length, along = 0.0, 0.0, 0.0, 0.0
        for j in range(d):
            x = np.float64(small[c, j] - middle[j])
            floats[c // len(width), j, lane] = np.float32(x)
            byte = np.rint(x / unit)
            vector[j // 4, lane, j % 4] = np.int8(byte)
            total += np.int64(byte)
            square += x * x
            lost += (x - unit * byte) * (x - unit * byte)
            length += byte * byte
            along += middle[j] * byte
        begin[c] = np.int32(-MIDDLE * total)
        factors[c] = np.float32(-2.0 * scale * unit)
        constants[c] = np.float32(square + 2.0 * unit * along)
        p[c] = np.float32(2.0 * unit * math.sqrt(length) * UP)
        q[c] = np.float32(2.0 * math.sqrt(lost) * UP)
        most = max(most, unit * math.sqrt(length))
        size = math.sqrt(square) * UP
        float_terms[2, c], float_terms[3, c] = np.float32(square), np.float32(size)
        float_terms[4, c] = np.float32(2.0 * error * size)
    return ROUNDED * (2.0 * math.sqrt(distance) + 1.5 * most)


@kernel_by_width(
    LANES,
    lambda width: types.int64(
        RECORDS, INTEGER, _CENTROIDS, read(REAL, 1), INTEGER, _SCRATCH,
        LABELS, LABELS, width
    ),
)  # fmt: skip
def label_rows(
    X: Points,
    start: int,
    centroids: Any,
    frame: FloatArray,
    most: int,
    scratch: Any,
    labels: Labels,
    many: Labels,
    width: Width,
) -> int:
    """Set the labels of the records X[start:] to their nearest centroids.

    Returns the number of records for which products in float32 were needed: those with more than
    `most` candidates, except the first FEW_RECORDS of these.

    centroids : those of `pack`.
    frame : scale, the number that `pack` returned, relative error of sums in float32, and squared
        radius.
    scratch : memory for a group of records: bytes (rows, 4 groups of features), float32 (rows,
        features), bounds (rows, centroids), best (rows, lanes), margins (rows, 2), squares (rows,),
        and candidates (k + PANEL,). The number of rows is a multiple of ROWS.
    labels : output. The label of a record beyond the radius is k.
    many : memory for positions of records, as long as `labels`.
    width : tuple whose length is the number of lanes.
    """
    bounds, best, squares, candidates = scratch[2], scratch[3], scratch[5], scratch[6]
    C, rows, n, left = centroids[4], len(bounds), len(labels), FEW_RECORDS
    for i in range(n):
        many[i] = i
    for by_float32 in range(2):
        found = 0
        for first in range(0, n, rows):
            places = many[first : min(first + rows, n)]
            _bound(X, start, places, centroids, frame, scratch, by_float32, width)
            for i in range(len(places)):
                place, least = places[i], np.float32(np.inf)
                for lane in range(len(width)):
                    least = min(least, best[i, lane])
                count = _list(bounds[i], least, len(C) if left else most, candidates)
                if count > most and not left:
                    many[found] = place
                    found += 1
                    continue
                left -= count > most
                labels[place] = _label(
                    X, start + place, C, candidates, count, bounds, i, least, squares, frame
                )
        if not by_float32:
            n = left = found
    return n


@inlined
def _bound(
    X: Points,
    start: int,
    places: Labels,
    centroids: Any,
    frame: FloatArray,
    scratch: Any,
    by_float32: int,
    width: Width,
) -> None:
    """Set the bounds of a group of records, which are X[start + i] for each i in `places`.

    They are squared distances from the middle (`squares`), lower bounds of scores, and the least
    upper bound in each lane (`best`).
    """
    packed, terms, floats, float_terms, _, middle = centroids
    block, float_block, bounds, best, margins, squares, _ = scratch
    for i in range(len(places)):
        record, lost = X[start + places[i]], np.float32(0)
        if by_float32:
            square = _load_floats(record, middle, float_block[i])
        else:
            lost, square = _load(record, middle, block[i], np.int32(frame[0]))
        squares[i] = square
        _set_margins(lost, square, frame, margins[i])
    if by_float32:
        _multiply(float_block, len(places), margins, floats, float_terms, bounds, best, width)
    else:
        _multiply(block, len(places), margins, packed, terms, bounds, best, width)


@helper
def _load(
    record: Points, middle: Points, row: Any, scale: np.int32
) -> tuple[np.float32, np.float32]:
    """Convert a record to bytes.

    Returns two numbers. The first is the sum over the features of the squared error of the byte.
    The second is the record's squared distance from `middle`.
    """
    lost, square, share = np.float32(0), np.float32(0), np.float32(1.0 / scale)
    least, largest = np.float32(-127), np.float32(127)
    for j in range(len(record)):
        q = np.int32(np.rint(min(max(np.float32(record[j]) * share, least), largest)))
        r, z = (
            np.float32(np.int32(record[j] - q * scale)),
            np.float32(np.int32(record[j] - middle[j])),
        )
        row[j] = np.uint8(q + np.int32(MIDDLE))
        lost += r * r
        square += z * z
    return lost, square


@helper
def _load_floats(record: Points, middle: Points, row: Any) -> np.float32:
    """Convert a record's offset from `middle` to float32, and return its squared norm."""
    square = np.float32(0)
    for j in range(len(record)):
        row[j] = np.float32(np.int32(record[j] - middle[j]))
        square += row[j] * row[j]
    return square


@rounded_helper
def _set_margins(lost: np.float32, square: np.float32, frame: FloatArray, margins: Any) -> None:
    """Set the margins of a record for `add_products`: `loss` and `length` (its Euclidean norm).
    They follow from the results of `_load`.
    """
    length = math.sqrt(square * (1.0 + frame[2]))
    loss = math.sqrt(lost * (1.0 + frame[2])) + ROUNDED * length + frame[1]
    margins[0], margins[1] = np.float32(loss * UP), np.float32(length * UP)


@inlined
def _multiply(
    block: Any, m: int, margins: Any, packed: Any, terms: Any, bounds: Any, best: Any, width: Width
) -> None:
    """Set the bounds of the first m records of a block, and the least upper bound in each lane
    (`best`).

    block, packed : records and centroids, both in bytes or both in float32.
    """
    best[:] = np.inf
    vector, term = packed.strides[0], 4 * terms.shape[1]
    for c in range(0, terms.shape[1], len(width) // 4 * len(width)):
        for i in range(0, m, ROWS):
            add_products(
                block, i, margins.ctypes.data + 8 * i,
                packed.ctypes.data + c // len(width) * vector, vector,
                terms.ctypes.data + 4 * c, term,
                bounds.ctypes.data + i * term + 4 * c, best.ctypes.data + 4 * len(width) * i,
                width,
            )  # fmt: skip


@helper
def _list(bounds: Any, limit: np.float32, most: int, candidates: IntArray) -> int:
    """List the centroids whose bounds are at most `limit`.

    Returns their number, or any number above `most` if there are more than `most`.
    """
    n = 0
    for c in range(0, len(bounds), PANEL):
        bits = at_most(bounds.ctypes.data + 4 * c, limit)
        while bits and n <= most:
            candidates[n] = c + lowest_bit(bits)
            n += 1
            bits &= bits - np.uint64(1)
    return n


@inlined
def _label(
    X: Points,
    place: int,
    C: Points,
    candidates: IntArray,
    count: int,
    bounds: Any,
    i: int,
    upper: np.float32,
    squares: FloatArray,
    frame: FloatArray,
) -> np.int32:
    """Return the label of the record X[place]: its nearest candidate, or k (the number of clusters)
    if that is beyond the radius.

    count : number of candidates.
    bounds, squares : lower bounds of scores, and squared distances from the middle in float32. Row
        i is that of the record.
    upper : smallest upper bound of the score of a candidate.
    """
    lower = np.float32(np.inf)
    for a in range(count):
        lower = min(lower, bounds[i, candidates[a]])
    side = _side(squares[i], float(lower), float(upper), frame)
    if side == 0 or (side > 0 and count > 1):
        return np.int32(_nearest(X[place], C, candidates[:count], frame[3]))
    return np.int32(candidates[0] if side > 0 else len(C))


@rounded_helper
def _side(square: float, lower: float, upper: float, frame: FloatArray) -> int:
    """Return -1 if a record lies beyond the radius, 1 if it lies within it, and 0 in doubt.

    square : squared distance from the middle, in float32.
    lower, upper : bounds of the least score.
    """
    error = square * frame[2] * 2.0 + (abs(lower) + abs(upper) + square) * 2.0**-40
    if square + lower - error > frame[3]:
        return -1
    return 1 if square + upper + error < frame[3] else 0


@helper
def _nearest(x: Points, C: Points, candidates: IntArray, squared_radius: float) -> int:
    """Return the nearest candidate by exact squared distances, or k beyond the radius."""
    least, label = np.inf, len(C)
    for c in candidates:
        square = 0.0
        for j in range(len(x)):
            difference = np.float64(np.int32(x[j] - C[c, j]))
            square += difference * difference
        label = c if square < least else label
        least = min(least, square)
    return label if least <= squared_radius else len(C)
