"""The inner loops of `kernels.py`, compiled by numba. Imported only where a computation is large enough to repay the loading.

Records are worked on in blocks that stay in the cache, feature by feature, so that the compiler turns every loop over records
into vector instructions. All numbers are integers below 2**53 held in float64: sums and products are exact in any order, so
that no result depends on how the compiler arranges them ("reassoc" and "contract" change nothing).

Centroids stand in groups of L, a power of two. The key of a record x and a centroid c orders the centroids of a group by
distance and then by index:

    key = L (|c|^2 - 2 x.c) + index of c in its group.

The least key is that of the nearest centroid, ties going to the lowest index, and its low digits are the label; of two groups
the later one has it if its score, the rest of the key, is less. L follows from the range in which records *may* lie and from
the centroids, so that every key is exact (`group_size`): what is done with a record is the same for all records.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import carray  # type: ignore[attr-defined]  # it is documented, and not in __all__
from numpy.typing import NDArray

from fastlloyd.clustering.domain import FloatArray, IntArray
from fastlloyd.clustering.machine import (
    add_four_records,
    add_two_of_four_records,
    exchange,
    exchange_if,
    int32_at,
    int64_at,
    machine_code,
    read,
    take,
)

_EXACT = float(1 << 53)

_Labels = NDArray[np.uint32]  # unsigned: the compiler need not expect a negative index
_Points = NDArray[np.int32]
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _jit(function: _Function) -> _Function:
    """For exact integers, whose sums and products the compiler may arrange as it likes."""
    return machine_code(function, fastmath={"reassoc", "contract", "nsz", "nnan"})


def begin() -> None:
    """Have numba load the rest of itself, as it does at a first call."""
    withdraw(np.zeros((0, 8), dtype=np.int64), -1)


@_jit
def group_size(centroids: IntArray, limits: IntArray) -> float:
    """L for records x with |x_j| <= limits[j], an array (d,); an empty one: with |x - c|^2 < 2**53, as all kernels need it.

    The largest power of two with L (|c|^2 + 2 |x|.|c| + 1) <= 2**53: so large may a key be, and all sums on the way to it. At
    most the number of centroids, rounded up to a power of two.
    """
    k, d = centroids.shape
    reach = 0.0
    for c in range(k):
        size = 0.0
        for j in range(len(limits)):
            x = np.abs(np.float64(centroids[c, j]))
            size += x * (x + 2.0 * np.float64(limits[j]))
        reach = max(reach, size)
    L = 1.0
    while len(limits) == d and k > L and 2.0 * L * (reach + 1.0) <= _EXACT:
        L *= 2.0
    return L


@_jit
def feature_statistics(
    XT: _Points,
    start: int,
    stop: int,
    chunk: int,
    counters: IntArray,
    centroids: IntArray,
    L: float,
    squared_radius: float,
    rows: int,
    sums: IntArray,
    counts: IntArray,
) -> None:
    """Add absolute sums (k, d) and counts (k,) of the records of a span within the radius, in blocks of `rows` records.

    XT : int32 (d, n), C-contiguous. counters : int64 (2,), how many chunks, of `chunk` records each, have been taken, and how
    many were lost. Threads that call this with the same counters, and sums of their own, share the span.
    A feature that is 1 for all records stands behind the last one: its sums are the counts.
    """
    k, d = centroids.shape
    A, constants, group = _feature_keys(centroids, L)
    width = (rows + 3) // 4 * 4
    block = np.zeros((d // 4 * 4 + 4, width))
    block[d] = 1.0
    points = block[: A.shape[1]]
    squares, best, s, t = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)
    scores, found = np.empty(rows), np.empty(rows)
    signed = np.empty(width, np.int32)
    labels = signed.view(np.uint32)
    totals = np.empty((len(block) // 4, 4, k + 1, 4))  # four copies; index k takes the records beyond the radius
    begin = start + chunk * take(counters, 0, 1)
    while begin < stop:
        end = min(begin + chunk, stop)
        totals[:] = 0.0
        if d == 2 and k <= 2 and group == len(constants):
            _add_two_clusters(XT[0, begin:end], XT[1, begin:end], A, constants, L, squared_radius, totals[0, 0])
        elif d == 2 and k <= 4 and group == len(constants):
            _add_four_clusters(XT[0, begin:end], XT[1, begin:end], A, constants, L, squared_radius, totals[0, 0])
        else:
            for first in range(begin, end, rows):
                m = min(rows, end - first)
                _load(XT, first, m, block, squares)
                if group == len(constants):
                    _least_keys(points, A, constants, best, s, t, m)
                    _labels_within(best, squares, L, squared_radius, k, signed, m)
                else:
                    _least_scores(points, A, constants, group, L, scores, found, best, s, t, m)
                    _found_within(scores, found, squares, squared_radius, k, signed, m)
                signed[m : (m + 3) // 4 * 4] = k  # what an earlier block left behind the last record
                for four in range((d + 2) // 4):
                    _add_to_totals(block[4 * four : 4 * four + 4], labels, totals[four].reshape(totals[four].size), m)
                if d % 4 < 2:  # what is left are the counts, and perhaps one feature
                    _add_two_to_totals(block[d // 4 * 4 :], labels, totals[d // 4].reshape(totals[d // 4].size), m)
        _add_integers(totals, sums, counts)
        begin = start + chunk * take(counters, 0, 1)


@_jit
def _add_integers(totals: FloatArray, sums: IntArray, counts: IntArray) -> None:
    """Add the copies of all totals to sums (k, d) and counts (k,)."""
    k, d = sums.shape
    for c in range(k):
        for copy in range(4):
            counts[c] += np.int64(totals[d // 4, copy, c, d % 4])
            for j in range(d):
                sums[c, j] += np.int64(totals[j // 4, copy, c, j % 4])


# What a helper is doing, as all threads see it in state[0]; a number beyond these is the address of the counters of what it is
# offered. state[1] is that address from before it takes the offer until it has finished, otherwise 0 (`team.py`).
LOOKING, ASLEEP, CALLED, WORKING, CLAIMED = range(5)
LOOKS = 1 << 18  # about 0.1 ms
HANDOVER = 1 << 14  # looks until whoever called has left the interpreter's lock


@machine_code
def help_until_called(state: IntArray, ticket: IntArray, squared_radius: FloatArray) -> bool:
    """Look for something to do, and share what is offered; True when called, False, and ASLEEP, if nothing comes."""
    if not exchange_if(state, WORKING, LOOKING):
        exchange_if(state, ASLEEP, LOOKING)  # woken for what is no longer there
    looks = 0
    while looks < LOOKS:
        looks += 1
        now = read(state)
        if now > CLAIMED:
            exchange(state[1:], now)  # before the offer is taken: who made it, and cannot withdraw it, waits for another number
            if exchange_if(state, now, WORKING):
                _share_ticket(ticket, squared_radius[0])
                exchange_if(state, WORKING, LOOKING)
                looks = 0
            exchange(state[1:], 0)
        elif now == CALLED:
            for _ in range(HANDOVER):
                read(state)
            exchange(state, WORKING)
            return True
    return not bool(exchange_if(state, LOOKING, ASLEEP))


@machine_code
def _share_ticket(ticket: IntArray, squared_radius: float) -> None:
    """`feature_statistics` of arrays that live as long as the offer."""
    k, d = ticket[3], ticket[1]
    XT = carray(int32_at(ticket[0]), (d, ticket[2]))
    counters, centroids = carray(int64_at(ticket[4]), (2,)), carray(int64_at(ticket[5]), (k, d))
    sums, counts = carray(int64_at(ticket[6]), (k, d)), carray(int64_at(ticket[7]), (k,))
    start, stop, chunk, rows, L = ticket[8], ticket[9], ticket[10], ticket[11], np.float64(ticket[12])
    try:
        feature_statistics(XT, start, stop, chunk, counters, centroids, L, squared_radius, rows, sums, counts)
    except Exception:  # noqa: BLE001 - no memory: the chunks it took are missing
        take(counters, 1, 1)


@machine_code
def offer(state: IntArray, ticket: IntArray, squared_radius: FloatArray, numbers: IntArray, number: float) -> bool:
    """Let the helper share a computation, if it is free; whether it has to be woken.

    One call: whatever interrupts Python, no helper stays claimed, and no two write its ticket.
    """
    asleep = False
    if not exchange_if(state, LOOKING, CLAIMED):
        asleep = exchange_if(state, ASLEEP, CLAIMED)
        if not asleep:
            return False
    ticket[:] = numbers
    squared_radius[0] = number
    exchange(state, numbers[4])
    return asleep


@machine_code
def withdraw(states: IntArray, counters: int) -> None:
    """Return when no helper has anything left of the offer of these counters. One call: it cannot be interrupted in between."""
    for i in range(len(states)):
        if not exchange_if(states[i], counters, LOOKING):
            while read(states[i, 1:]) == counters:
                pass


@machine_code
def call(state: IntArray) -> bool:
    """Call the helper, whatever it is doing, unless it is just being offered something; whether it has to be woken."""
    now = read(state)
    while now != CLAIMED and not exchange_if(state, now, CALLED):
        now = read(state)
    return bool(now == ASLEEP)


@machine_code
def await_looking(state: IntArray) -> None:
    """Return when the helper has finished, or after a while."""
    for _ in range(LOOKS):
        if read(state) <= ASLEEP:
            return


@_jit
def feature_labels(
    XT: _Points, start: int, stop: int, centroids: IntArray, L: float, rows: int, labels: NDArray[np.int32]
) -> None:
    """Set labels to the index of the nearest centroid of each record of XT[:, start:stop]; otherwise as above."""
    A, constants, group = _feature_keys(centroids, L)
    k, block = len(centroids), np.zeros((A.shape[1], rows))
    squares, best, s, t = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)
    scores, found = np.empty(rows), np.empty(rows)
    for first in range(start, stop, rows):
        m = min(rows, stop - first)
        _load(XT, first, m, block, squares)
        if group == len(constants):
            _least_keys(block, A, constants, best, s, t, m)
            _labels_within(best, squares, L, np.inf, k, labels[first - start :], m)
        else:
            _least_scores(block, A, constants, group, L, scores, found, best, s, t, m)
            _found_within(scores, found, squares, np.inf, k, labels[first - start :], m)


@_jit
def load_rows(X: _Points, start: int, block: FloatArray, squares: FloatArray) -> None:
    """Copy the records X[start:] to `block` (m, d), as many as it holds, and their squared norms to `squares` (m,)."""
    records = X[start : start + len(block)]
    for r in range(len(block)):
        record, row, square = records[r], block[r], 0.0
        for j in range(len(row)):
            x = np.float64(record[j])
            row[j] = x
            square += x * x
        squares[r] = square


@_jit
def row_statistics(
    block: FloatArray,
    squares: FloatArray,
    products: FloatArray,
    constants: FloatArray,
    L: float,
    squared_radius: float,
    sums: FloatArray,
    counts: FloatArray,
) -> None:
    """Add the records of `block` (m, d) to sums (k + 1, d) and counts (k + 1,), given products = A block^T (k, m)."""
    signed = np.empty(len(block), np.int32)
    row_labels(squares, products, constants, L, squared_radius, signed)
    labels = signed.view(np.uint32)
    for r in range(len(block)):
        row, total = block[r], sums[labels[r]]
        counts[labels[r]] += 1.0
        for j in range(len(row)):
            total[j] += row[j]


@_jit
def row_labels(
    squares: FloatArray, products: FloatArray, constants: FloatArray, L: float, squared_radius: float, labels: NDArray[np.int32]
) -> None:
    """Set labels (m, or more) to the index of the nearest centroid of each record, or to k beyond the radius."""
    m, k, group = len(squares), len(constants), np.intp(L)
    best = np.empty(m)
    _least_products(products[:group], constants[:group], best)
    if group >= k:
        _labels_within(best, squares, L, squared_radius, k, labels, m)
        return
    scores, found = np.empty(m), np.empty(m)
    scores[:] = np.inf
    for first in range(0, k, group):
        if first:
            _least_products(products[first : first + group], constants[first : first + group], best)
        _keep_lesser(best, L, np.float64(first), scores, found, m)
    _found_within(scores, found, squares, squared_radius, k, labels, m)


@_jit
def keys(centroids: IntArray, L: float, multiple: int, n_columns: int) -> tuple[FloatArray, FloatArray, int]:
    """A, constants and rows of a group: the keys of x are A x + constants.

    Groups are padded to a multiple of so many rows, with centroids whose keys are infinite, and centroids to n_columns
    features, with such that are 0.
    """
    k, d = centroids.shape
    size = min(int(L), k)
    group = (size + multiple - 1) // multiple * multiple
    last = k - (k - 1) // size * size  # centroids in the last group
    n_rows = (k - 1) // size * group + (last + multiple - 1) // multiple * multiple
    A, constants = np.zeros((n_rows, n_columns)), np.full(n_rows, np.inf)
    for c in range(k):
        row, norm = c // size * group + c % size, 0.0
        for j in range(d):
            x = np.float64(centroids[c, j])
            A[row, j] = -2.0 * L * x
            norm += x * x
        constants[row] = L * norm + c % size
    return A, constants, group


@_jit
def _feature_keys(centroids: IntArray, L: float) -> tuple[FloatArray, FloatArray, int]:
    """Keys padded as `_least_keys` needs them."""
    d = centroids.shape[1]
    if d <= 2:
        return keys(centroids, L, 4, 2)
    if d == 5:
        return keys(centroids, L, 2, 5)
    return keys(centroids, L, 2, d + d % 2)


@_jit
def _load(XT: _Points, start: int, m: int, block: FloatArray, squares: FloatArray) -> None:
    """Copy m records to `block` (features, rows) and their squared norms to `squares`."""
    squares[:m] = 0.0
    for j in range(XT.shape[0]):
        feature, target = XT[j, start : start + m], block[j]
        for r in range(m):
            x = np.float64(feature[r])
            target[r] = x
            squares[r] += x * x


@_jit
def _least_scores(
    block: FloatArray,
    A: FloatArray,
    constants: FloatArray,
    group: int,
    L: float,
    scores: FloatArray,
    found: FloatArray,
    best: FloatArray,
    s: FloatArray,
    t: FloatArray,
    m: int,
) -> None:
    """Set scores[r] to the least score of record r among several groups, and found[r] to the index of its centroid."""
    scores[:m] = np.inf
    start = 0.0
    for first in range(0, len(constants), group):
        _least_keys(block, A[first : first + group], constants[first : first + group], best, s, t, m)
        _keep_lesser(best, L, start, scores, found, m)
        start += L


@_jit
def _least_keys(
    block: FloatArray, A: FloatArray, constants: FloatArray, best: FloatArray, s: FloatArray, t: FloatArray, m: int
) -> None:
    """Set best[r] to the least key of record r. `block` has an even number of features; see `_feature_keys`."""
    best[:m] = np.inf
    if len(block) == 2:
        _plane(block[0], block[1], A, constants, best, m)
        return
    if len(block) <= 6:
        for c in range(0, len(constants), 2):
            if len(block) == 4:
                _four_features(block, constants[c], constants[c + 1], A[c], A[c + 1], best, m)
            elif len(block) == 5:
                _five_features(block, constants[c], constants[c + 1], A[c], A[c + 1], best, m)
            else:
                _six_features(block, constants[c], constants[c + 1], A[c], A[c + 1], best, m)
        return
    last = (len(block) - 1) // 4 * 4
    for c in range(0, len(constants), 2):
        _open_four(s, t, constants[c], constants[c + 1], block[:4], A[c, :4], A[c + 1, :4], m)
        for j in range(4, last, 4):
            _add_four(s, t, block[j : j + 4], A[c, j : j + 4], A[c + 1, j : j + 4], m)
        if len(block) - last == 2:
            _close_two(s, t, block[last:], A[c, last:], A[c + 1, last:], best, m)
        else:
            _close_four(s, t, block[last:], A[c, last:], A[c + 1, last:], best, m)


@_jit
def _plane(x: FloatArray, y: FloatArray, A: FloatArray, constants: FloatArray, best: FloatArray, m: int) -> None:
    """Two features: four centroids at a time, everything in registers."""
    for c in range(0, len(constants), 4):
        n0, n1, n2, n3 = constants[c], constants[c + 1], constants[c + 2], constants[c + 3]
        a0, a1, a2, a3 = A[c, 0], A[c + 1, 0], A[c + 2, 0], A[c + 3, 0]
        b0, b1, b2, b3 = A[c, 1], A[c + 1, 1], A[c + 2, 1], A[c + 3, 1]
        for r in range(m):
            u, v = n0 + a0 * x[r] + b0 * y[r], n1 + a1 * x[r] + b1 * y[r]
            w, z = n2 + a2 * x[r] + b2 * y[r], n3 + a3 * x[r] + b3 * y[r]
            best[r] = min(best[r], min(min(u, v), min(w, z)))  # noqa: PLW3301 - a tree: two of them at the same time


@_jit
def _add_two_clusters(
    x: _Points,
    y: _Points,
    A: FloatArray,
    constants: FloatArray,
    L: float,
    squared_radius: float,
    totals: FloatArray,
) -> None:
    """All at once, within registers, for two features and up to two clusters: sums and counts, set in totals (k + 1, 4).

    `in0` is 1 for a record of the first cluster, otherwise 0.
    """
    n0, n1, a0, a1, b0, b1, share = constants[0], constants[1], A[0, 0], A[1, 0], A[0, 1], A[1, 1], 1.0 / L
    x0, y0, c0, x1, y1, c1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(len(x)):
        p, q = np.float64(x[r]), np.float64(y[r])
        square, u, v = p * p + q * q, n0 + a0 * p + b0 * q, n1 + a1 * p + b1 * q
        best = min(u, v)
        within = 1.0 if square + np.floor(best * share) <= squared_radius else 0.0
        in0, in1 = within if u == best else 0.0, within if v == best else 0.0
        x0 += in0 * p
        y0 += in0 * q
        c0 += in0
        x1 += in1 * p
        y1 += in1 * q
        c1 += in1
    totals[0, 0], totals[0, 1], totals[0, 2] = x0, y0, c0
    totals[1, 0], totals[1, 1], totals[1, 2] = x1, y1, c1


@_jit
def _add_four_clusters(
    x: _Points,
    y: _Points,
    A: FloatArray,
    constants: FloatArray,
    L: float,
    squared_radius: float,
    totals: FloatArray,
) -> None:
    """The same for three or four."""
    n0, n1, n2, n3, share = constants[0], constants[1], constants[2], constants[3], 1.0 / L
    a0, a1, a2, a3 = A[0, 0], A[1, 0], A[2, 0], A[3, 0]
    b0, b1, b2, b3 = A[0, 1], A[1, 1], A[2, 1], A[3, 1]
    x0, y0, c0, x1, y1, c1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    x2, y2, c2, x3, y3, c3 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for r in range(len(x)):
        p, q = np.float64(x[r]), np.float64(y[r])
        square = p * p + q * q
        u, v, w, z = n0 + a0 * p + b0 * q, n1 + a1 * p + b1 * q, n2 + a2 * p + b2 * q, n3 + a3 * p + b3 * q
        best = min(min(u, v), min(w, z))  # noqa: PLW3301 - a tree: two of them at the same time
        within = 1.0 if square + np.floor(best * share) <= squared_radius else 0.0
        in0, in1 = within if u == best else 0.0, within if v == best else 0.0
        in2, in3 = within if w == best else 0.0, within if z == best else 0.0
        x0 += in0 * p
        y0 += in0 * q
        c0 += in0
        x1 += in1 * p
        y1 += in1 * q
        c1 += in1
        x2 += in2 * p
        y2 += in2 * q
        c2 += in2
        x3 += in3 * p
        y3 += in3 * q
        c3 += in3
    totals[0, 0], totals[0, 1], totals[0, 2] = x0, y0, c0
    totals[1, 0], totals[1, 1], totals[1, 2] = x1, y1, c1
    totals[2, 0], totals[2, 1], totals[2, 2] = x2, y2, c2
    totals[3, 0], totals[3, 1], totals[3, 2] = x3, y3, c3


@_jit
def _four_features(x: FloatArray, u: float, v: float, a: FloatArray, b: FloatArray, best: FloatArray, m: int) -> None:
    """Four features: two centroids at a time, in registers; u and v are their constants."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    a0, a1, a2, a3, b0, b1, b2, b3 = a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]
    for r in range(m):
        s = u + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]
        t = v + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]
        best[r] = min(best[r], s, t)


@_jit
def _five_features(x: FloatArray, u: float, v: float, a: FloatArray, b: FloatArray, best: FloatArray, m: int) -> None:
    """The same with five."""
    x0, x1, x2, x3, x4 = x[0], x[1], x[2], x[3], x[4]
    a0, a1, a2, a3, a4, b0, b1, b2, b3, b4 = a[0], a[1], a[2], a[3], a[4], b[0], b[1], b[2], b[3], b[4]
    for r in range(m):
        s = u + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r] + a4 * x4[r]
        t = v + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r] + b4 * x4[r]
        best[r] = min(best[r], s, t)


@_jit
def _six_features(x: FloatArray, u: float, v: float, a: FloatArray, b: FloatArray, best: FloatArray, m: int) -> None:
    """The same with six."""
    x0, x1, x2, x3, x4, x5 = x[0], x[1], x[2], x[3], x[4], x[5]
    a0, a1, a2, a3, a4, a5 = a[0], a[1], a[2], a[3], a[4], a[5]
    b0, b1, b2, b3, b4, b5 = b[0], b[1], b[2], b[3], b[4], b[5]
    for r in range(m):
        s = u + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r] + a4 * x4[r] + a5 * x5[r]
        t = v + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r] + b4 * x4[r] + b5 * x5[r]
        best[r] = min(best[r], s, t)


@_jit
def _open_four(s: FloatArray, t: FloatArray, u: float, v: float, x: FloatArray, a: FloatArray, b: FloatArray, m: int) -> None:
    """The first four features of two centroids, whose constants are u and v."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    a0, a1, a2, a3, b0, b1, b2, b3 = a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]
    for r in range(m):
        s[r] = u + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]
        t[r] = v + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]


@_jit
def _add_four(s: FloatArray, t: FloatArray, x: FloatArray, a: FloatArray, b: FloatArray, m: int) -> None:
    """Add the products of four features to the keys of two centroids."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    a0, a1, a2, a3, b0, b1, b2, b3 = a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]
    for r in range(m):
        s[r] = s[r] + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]
        t[r] = t[r] + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]


@_jit
def _close_four(s: FloatArray, t: FloatArray, x: FloatArray, a: FloatArray, b: FloatArray, best: FloatArray, m: int) -> None:
    """The last four features of two centroids; the lesser key is kept."""
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    a0, a1, a2, a3, b0, b1, b2, b3 = a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]
    for r in range(m):
        u = s[r] + a0 * x0[r] + a1 * x1[r] + a2 * x2[r] + a3 * x3[r]
        v = t[r] + b0 * x0[r] + b1 * x1[r] + b2 * x2[r] + b3 * x3[r]
        best[r] = min(best[r], u, v)


@_jit
def _close_two(s: FloatArray, t: FloatArray, x: FloatArray, a: FloatArray, b: FloatArray, best: FloatArray, m: int) -> None:
    """The last two features of two centroids; the lesser key is kept."""
    x0, x1, a0, a1, b0, b1 = x[0], x[1], a[0], a[1], b[0], b[1]
    for r in range(m):
        u, v = s[r] + a0 * x0[r] + a1 * x1[r], t[r] + b0 * x0[r] + b1 * x1[r]
        best[r] = min(best[r], u, v)


@_jit
def _least_products(products: FloatArray, constants: FloatArray, best: FloatArray) -> None:
    """Set best[r] to the least key of record r from A block^T, one row per centroid."""
    best[:] = np.inf
    for c in range(len(products)):
        row, constant = products[c], constants[c]
        for r in range(len(best)):
            best[r] = min(best[r], row[r] + constant)


@_jit
def _labels_within(
    best: FloatArray, squares: FloatArray, L: float, squared_radius: float, k: int, labels: NDArray[np.int32], m: int
) -> None:
    """Split each key into score and label; the label of a record beyond the radius becomes k.

    A record out of range, which nobody should pass, has some label: no label is too large, for it says where to write.
    """
    share, beyond, last = 1.0 / L, float(k), k - 1.0  # exact: L is a power of two
    for r in range(m):
        score = np.floor(best[r] * share)
        label = min(best[r] - score * L, last)
        labels[r] = np.int32(label if squares[r] + score <= squared_radius else beyond)


@_jit
def _keep_lesser(best: FloatArray, L: float, start: float, scores: FloatArray, found: FloatArray, m: int) -> None:
    """Of the least keys of a group, whose first centroid is `start`, and what earlier groups have: the lesser scores."""
    share = 1.0 / L
    for r in range(m):
        score = np.floor(best[r] * share)
        label = best[r] - score * L + start
        found[r] = label if score < scores[r] else found[r]
        scores[r] = min(score, scores[r])


@_jit
def _found_within(
    scores: FloatArray, found: FloatArray, squares: FloatArray, squared_radius: float, k: int, labels: NDArray[np.int32], m: int
) -> None:
    """The labels that were found; that of a record beyond the radius becomes k."""
    beyond, last = float(k), k - 1.0
    for r in range(m):
        labels[r] = np.int32(min(found[r], last) if squares[r] + scores[r] <= squared_radius else beyond)


@_jit
def _add_to_totals(x: FloatArray, labels: _Labels, totals: FloatArray, m: int) -> None:
    """Add four features of each record to the total of its label.

    x : (4, rows), rows a multiple of 4, and labels up to the next multiple of m. totals : (4, k + 1, 4) as one line.
    Neighbouring records of one cluster go to different copies of its total, so that none waits for another.
    """
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    copy = len(totals) // 4
    for r in range(0, m, 4):
        p, q, s, t = np.intp(labels[r]), np.intp(labels[r + 1]), np.intp(labels[r + 2]), np.intp(labels[r + 3])
        add_four_records(totals, 4 * p, 4 * q + copy, 4 * s + 2 * copy, 4 * t + 3 * copy, x0, x1, x2, x3, r)


@_jit
def _add_two_to_totals(x: FloatArray, labels: _Labels, totals: FloatArray, m: int) -> None:
    """The same with the first two of four features."""
    x0, x1 = x[0], x[1]
    copy = len(totals) // 4
    for r in range(0, m, 4):
        p, q, s, t = np.intp(labels[r]), np.intp(labels[r + 1]), np.intp(labels[r + 2]), np.intp(labels[r + 3])
        add_two_of_four_records(totals, 4 * p, 4 * q + copy, 4 * s + 2 * copy, 4 * t + 3 * copy, x0, x1, r)
