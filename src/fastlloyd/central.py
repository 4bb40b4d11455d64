"""The central model: one holder of all records drives the loop and adds the noise itself."""

from fastlloyd.algorithms import Clustering, lloyd
from fastlloyd.clustering.domain import IntArray
from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import DataError
from fastlloyd.mechanism import Mechanism


def cluster(mechanism: Mechanism, X: IntArray, noise: NoiseSource) -> Clustering:
    """Run the mechanism on grid points X, int64 (n, n_features).

    The result satisfies the mechanism's guarantee if `noise` is `SystemNoise`. Raises DataError when X is not made of grid
    points of the domain, or there are more records than the public cap `mechanism.n_records`.
    """
    mechanism.domain.check_grid(X)
    check_cap(len(X), mechanism.n_records)
    loop = lloyd(mechanism)
    query = next(loop)
    for exchange in mechanism.exchanges:
        answer = query.evaluate(X) + mechanism.draw_noise(exchange, noise)
        try:
            query = loop.send(answer)
        except StopIteration as end:
            clustering: Clustering = end.value
            return clustering
    raise AssertionError("the loop asks one query per exchange")


def check_cap(n: int, cap: int) -> None:
    """Refuse more records than the cap; the message does not say how many there are."""
    if n > cap:
        raise DataError(
            f"there are more records than the cap of {cap}; agree on a higher cap (n_records), or leave records out at random"
        )
