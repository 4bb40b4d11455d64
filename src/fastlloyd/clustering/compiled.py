"""The inner loops of `kernels.py`, compiled by numba. Imported only where a computation is large enough to repay the loading.

Records are worked on in blocks that stay in the cache, feature by feature, so that the compiler turns every loop over records
into vector instructions. All numbers are integers below 2**53 held in float64: sums and products are exact in any order, so
that no result depends on how the compiler arranges them ("reassoc" and "contract" change nothing).

The key of a record x and a centroid c orders centroids by distance and then by index:

    key = L (|c|^2 - 2 x.c) + index of c,   L a power of two, at least the number of clusters.

The least key is that of the nearest centroid, ties going to the lowest index, and its low digits are the label.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from fastlloyd.clustering.domain import FloatArray, IntArray

_EXACT = float(1 << 52)  # half of 2**53: the other half covers the rounding of the bound itself

_Labels = NDArray[np.uint32]  # unsigned: the compiler need not expect a negative index
_Points = NDArray[np.int32]
_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Copies:
    """Numba's copies of machine code on disk, where what cannot be read or written costs a compilation and not the result.

    Numba passes on whatever a full disk, a damaged file, or a file of an earlier version of this package makes it raise.
    """

    def __init__(self, copies: Any) -> None:
        self._copies = copies

    def load_overload(self, *which: Any) -> Any:
        try:
            return self._copies.load_overload(*which)
        except Exception:  # noqa: BLE001 - numba unpickles the file, which can raise anything
            with suppress(Exception):
                self._copies.flush()
            return None

    def save_overload(self, *what: Any) -> None:
        with suppress(Exception):
            self._copies.save_overload(*what)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._copies, name)


def machine_code(function: _Function, **options: Any) -> _Function:
    """Compile at the first call, to run without the interpreter's lock; keep the machine code on disk if there is a place."""
    try:
        compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        if hasattr(compiled, "_cache"):
            compiled._cache = _Copies(compiled._cache)  # noqa: SLF001 - numba has no option for it
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        compiled = numba.njit(nogil=True, error_model="numpy", **options)(function)
    return cast("_Function", compiled)


def _jit(function: _Function) -> _Function:
    """For exact integers, whose sums and products the compiler may arrange as it likes."""
    return machine_code(function, fastmath={"reassoc", "contract", "nsz", "nnan"})


def _jit_rounded(function: _Function) -> _Function:
    """For real numbers: every operation rounded as it is written, so the same as in NumPy."""
    return machine_code(function)


def instructions(written: Callable[..., Any]) -> Callable[..., Any]:
    """For what compiled code can call and numba cannot write: the function says its types and writes its instructions."""
    return cast("Callable[..., Any]", intrinsic(written))


@instructions
def _add_four_at(_: Any, totals: Any, _place: Any, _a: Any, _b: Any, _c: Any, _d: Any) -> Any:
    """Add four numbers to totals[place : place + 4] as one vector, which numba does not make of four additions."""
    four = ir.VectorType(ir.DoubleType(), 4)

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        memory = context.make_array(signature.args[0])(context, builder, values[0]).data
        target = builder.bitcast(builder.gep(memory, [values[1]]), four.as_pointer())
        terms = ir.Constant(four, ir.Undefined)
        for lane, value in enumerate(values[2:]):
            terms = builder.insert_element(terms, value, ir.IntType(32)(lane))
        builder.store(builder.fadd(builder.load(target, align=8), terms), target, align=8)
        return context.get_dummy_value()

    return types.none(totals, types.intp, *[types.float64] * 4), generate


@_jit_rounded
def grid_features(XT: Any, frame: Any, grid: _Points, start: int) -> bool:
    """Fill grid[:, start:] (d, n) from records XT (d, m) as `Domain.to_grid` defines it; False if a value is not finite.

    frame : float64 (5, d), lower and upper bounds, centre, unit and half width of each feature.
    """
    finite = True
    for j in range(XT.shape[0]):
        low, high, centre, unit, box = frame[0, j], frame[1, j], frame[2, j], frame[3, j], frame[4, j]
        values, points = XT[j], grid[j, start : start + XT.shape[1]]
        for r in range(len(values)):
            x = np.float64(values[r])
            finite &= x - x == 0.0
            x = min(max(x, low), high)
            points[r] = np.int32(min(max(np.floor((x - centre) / unit + 0.5), -box), box))
    return finite


@_jit_rounded
def grid_rows(X: Any, frame: Any, grid: _Points, start: int) -> bool:
    """The same record by record: X is (m, d), grid (n, d)."""
    finite = True
    low, high, centre, unit, box = frame[0], frame[1], frame[2], frame[3], frame[4]
    for r in range(X.shape[0]):
        record, point = X[r], grid[start + r]
        for j in range(X.shape[1]):
            x = np.float64(record[j])
            finite &= x - x == 0.0
            x = min(max(x, low[j]), high[j])
            point[j] = np.int32(min(max(np.floor((x - centre[j]) / unit[j] + 0.5), -box[j]), box[j]))
    return finite


@_jit
def is_within(XT: _Points, half_widths: IntArray) -> bool:
    """Whether all points of XT (d, n) lie in the box [-half_widths, half_widths]."""
    beyond = False
    for j in range(len(XT)):
        points, high = XT[j], np.int32(half_widths[j])
        for r in range(len(points)):
            beyond |= (points[r] > high) | (points[r] < -high)
    return not beyond


@_jit
def feature_statistics(
    XT: _Points, start: int, stop: int, centroids: IntArray, squared_radius: float, rows: int
) -> tuple[bool, IntArray, IntArray]:
    """Absolute sums (k, d) and counts (k,) of the records XT[:, start:stop] within the radius, in blocks of `rows` records.

    XT : int32 (d, n), C-contiguous. The first result is False, and the others are of no use, if some key would not be exact.
    A feature that is 1 for all records stands behind the last one: its sums are the counts.
    """
    k, d = centroids.shape
    A, constants, L, reach = _feature_keys(centroids)
    block = np.zeros((d // 4 * 4 + 4, rows))
    block[d] = 1.0
    points = block[: A.shape[1]]
    squares, best, s, t = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)
    signed = np.empty(rows, np.int32)
    labels = signed.view(np.uint32)
    totals = np.zeros((len(block) // 4, 4, k + 1, 4))  # four copies; index k takes the records beyond the radius
    sums, counts = np.zeros((k, d), np.int64), np.zeros(k, np.int64)
    for first in range(start, stop, rows):
        m = min(rows, stop - first)
        _load(XT, first, m, block, squares)
        if not _is_exact(squares, m, reach, L):
            return False, sums, counts
        _least_keys(points, A, constants, best, s, t, m)
        _labels_within(best, squares, L, squared_radius, k, signed, m)
        for four in range(len(totals)):
            _add_to_totals(block[4 * four : 4 * four + 4], labels, totals[four].reshape(totals[four].size), m)
    for c in range(k):
        for copy in range(4):
            counts[c] += np.int64(totals[d // 4, copy, c, d % 4])
            for j in range(d):
                sums[c, j] += np.int64(totals[j // 4, copy, c, j % 4])
    return True, sums, counts


@_jit
def feature_labels(XT: _Points, start: int, stop: int, centroids: IntArray, rows: int, labels: NDArray[np.int32]) -> bool:
    """Set labels to the index of the nearest centroid of each record of XT[:, start:stop]; otherwise as above."""
    A, constants, L, reach = _feature_keys(centroids)
    block = np.zeros((A.shape[1], rows))
    squares, best, s, t = np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)
    for first in range(start, stop, rows):
        m = min(rows, stop - first)
        _load(XT, first, m, block, squares)
        if not _is_exact(squares, m, reach, L):
            return False
        _least_keys(block, A, constants, best, s, t, m)
        _labels_within(best, squares, L, np.inf, len(centroids), labels[first - start :], m)
    return True


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
    reach: float,
    squared_radius: float,
    sums: FloatArray,
    counts: FloatArray,
) -> bool:
    """Add the records of `block` (m, d) to sums (k + 1, d) and counts (k + 1,), given products = A block^T (k, m)."""
    m, k = len(block), len(constants)
    best, signed = np.empty(m), np.empty(m, np.int32)
    if not _is_exact(squares, m, reach, L):
        return False
    _least_products(products, constants, best)
    _labels_within(best, squares, L, squared_radius, k, signed, m)
    labels = signed.view(np.uint32)
    for r in range(m):
        row, total = block[r], sums[labels[r]]
        counts[labels[r]] += 1.0
        for j in range(len(row)):
            total[j] += row[j]
    return True


@_jit
def row_labels(
    squares: FloatArray, products: FloatArray, constants: FloatArray, L: float, reach: float, labels: NDArray[np.int32]
) -> bool:
    """Set labels (m, or more) to the index of the nearest centroid of each record; otherwise as `row_statistics`."""
    m, k = len(squares), len(constants)
    best = np.empty(m)
    if not _is_exact(squares, m, reach, L):
        return False
    _least_products(products, constants, best)
    _labels_within(best, squares, L, np.inf, k, labels, m)
    return True


@_jit
def keys(centroids: IntArray, n_rows: int, n_columns: int) -> tuple[FloatArray, FloatArray, float, float]:
    """A, constants, L and reach: the keys of x are A x + constants, and `reach` is the largest |c|.

    Padded to n_rows centroids whose keys are infinite, and n_columns features that are 0.
    """
    k, d = centroids.shape
    L = 1.0
    while k > L:
        L *= 2.0
    A, constants, reach = np.zeros((n_rows, n_columns)), np.full(n_rows, np.inf), 0.0
    for c in range(k):
        norm = 0.0
        for j in range(d):
            x = np.float64(centroids[c, j])
            A[c, j] = -2.0 * L * x
            norm += x * x
        constants[c] = L * norm + c
        reach = max(reach, np.sqrt(norm))
    return A, constants, L, reach


@_jit
def _feature_keys(centroids: IntArray) -> tuple[FloatArray, FloatArray, float, float]:
    """Keys padded as `_least_keys` needs them."""
    k, d = centroids.shape
    if d <= 2:
        return keys(centroids, (k + 3) // 4 * 4, 2)
    return keys(centroids, k + k % 2, d + d % 2)


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
def _is_exact(squares: FloatArray, m: int, reach: float, L: float) -> bool:
    """Whether all keys are below 2**53: | |c|^2 - 2 x.c | <= (|x| + |c|)^2, and so are all sums on the way."""
    largest = 0.0
    for r in range(m):
        largest = max(largest, squares[r])
    return bool((np.sqrt(largest) + reach) ** 2 * L < _EXACT)


@_jit
def _least_keys(
    block: FloatArray, A: FloatArray, constants: FloatArray, best: FloatArray, s: FloatArray, t: FloatArray, m: int
) -> None:
    """Set best[r] to the least key of record r. `block` has an even number of features; see `_feature_keys`."""
    best[:m] = np.inf
    if len(block) == 2:
        _plane(block[0], block[1], A, constants, best, m)
        return
    last = (len(block) - 1) // 4 * 4
    for c in range(0, len(constants), 2):
        if last == 0:
            s[:m] = constants[c]
            t[:m] = constants[c + 1]
        else:
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
    """Split each key into score and label; the label of a record beyond the radius becomes k."""
    share, beyond = 1.0 / L, float(k)  # exact: L is a power of two
    for r in range(m):
        score = np.floor(best[r] * share)
        label = best[r] - score * L
        labels[r] = np.int32(label if squares[r] + score <= squared_radius else beyond)


@_jit
def _add_to_totals(x: FloatArray, labels: _Labels, totals: FloatArray, m: int) -> None:
    """Add four features of each record to the total of its label, as one vector.

    x : (4, rows); totals : (4, k + 1, 4) as one line. Neighbouring records of one cluster go to different copies of its total,
    so that none waits for another.
    """
    x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
    copy, whole = len(totals) // 4, m // 4 * 4
    for r in range(0, whole, 4):
        p, q, s, t = np.intp(labels[r]), np.intp(labels[r + 1]), np.intp(labels[r + 2]), np.intp(labels[r + 3])
        _add_four_at(totals, 4 * p, x0[r], x1[r], x2[r], x3[r])
        _add_four_at(totals, 4 * q + copy, x0[r + 1], x1[r + 1], x2[r + 1], x3[r + 1])
        _add_four_at(totals, 4 * s + 2 * copy, x0[r + 2], x1[r + 2], x2[r + 2], x3[r + 2])
        _add_four_at(totals, 4 * t + 3 * copy, x0[r + 3], x1[r + 3], x2[r + 3], x3[r + 3])
    for r in range(whole, m):
        _add_four_at(totals, 4 * np.intp(labels[r]), x0[r], x1[r], x2[r], x3[r])
