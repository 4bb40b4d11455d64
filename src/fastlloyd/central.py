"""The central model: one holder of all records drives the loop and adds the noise itself."""

from collections.abc import Iterable

import numpy as np

from fastlloyd.algorithms import Clustering
from fastlloyd.clustering.domain import GridArray, IntArray
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import DataError
from fastlloyd.mechanism import Mechanism
from fastlloyd.queries import Query


def cluster(mechanism: Mechanism, X: GridArray | Iterable[GridArray], noise: NoiseSource) -> Clustering:
    """Run the mechanism on grid points X (n, n_features): one array, or blocks of them that are read anew in each round.

    The result satisfies the mechanism's guarantee if `noise` is `SystemNoise`. Raises DataError when X is not made of grid
    points of the domain, when there are more records than the public cap `mechanism.n_records`, or when their number changes
    between two rounds.
    """
    blocks = [X] if isinstance(X, np.ndarray) else X
    loop = mechanism.loop()
    query = next(loop)
    n: int | None = None
    for exchange in mechanism.exchanges:
        answer = np.zeros(mechanism.shape(exchange), dtype=np.int64)
        n = _add_up(mechanism, query, blocks, n, answer)
        answer += mechanism.draw_noise(exchange, noise)
        try:
            query = loop.send(answer)
        except StopIteration as end:
            clustering: Clustering = end.value
            return clustering
    raise AssertionError("the loop asks one query per exchange")


def _add_up(mechanism: Mechanism, query: Query, blocks: Iterable[GridArray], expected: int | None, answer: IntArray) -> int:
    """Add the exact answer for every block to `answer`. Returns the number of records, which must be the expected one."""
    n = 0
    for block in blocks:
        mechanism.domain.check_grid(block)
        answer += query.evaluate(block)
        n += len(block)
        check_cap(n, mechanism.n_records)
    if expected not in (None, n):
        raise DataError("the number of records changed between two passes; leave the file alone while it is read")
    return n


def check_cap(n: int, cap: int) -> None:
    """Refuse more records than the cap; the message does not say how many there are."""
    if n > cap:
        raise DataError(
            f"there are more records than the cap of {cap}; agree on a higher cap (n_records), or leave records out at random"
        )
