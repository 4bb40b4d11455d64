"""Directions in which the records spread, and the variances along them (step 2 of
docs/momentlloyd.md).

Both come from the noisy second moment.
"""

from fractions import Fraction

import numpy as np

from fastlloyd.base.arrays import FloatArray
from fastlloyd.mechanisms.moment_lloyd.location import divisor, squared_length
from fastlloyd.mechanisms.moment_lloyd.state import MomentFields, Noisy, State, known, rounded
from fastlloyd.mechanisms.queries.spaces import DIRECTION_BITS, squared_diameter

# above, variances along directions that noise has found are reckoned differently
MANY_FEATURES = 32
SURE = 0.05  # of the squared typical length: below such noise in the trace it is believed


def directions(
    m: MomentFields, state: State, radius: Fraction, diagonal: Noisy, above: Noisy
) -> State:
    """Return the state with the leading eigenvectors of the noisy second moment.

    These are the eigenvectors whose eigenvalues are above the noise, up to `m.n_directions` of
    them. If there is none, the first eigenvector is used.

    radius : radius of the round, divided by the typical distance of records from their mean
        (`State.length`).
    diagonal, above : noisy entries on the diagonal of the second moment, and above it.
    """
    d, n, R2 = m.n_features, divisor(m, state), squared_length(state)
    M = np.zeros((d, d))
    M[np.triu_indices(d, 1)] = above.values[0] / n
    M += M.T
    M[np.diag_indices(d)] = diagonal.values[0] / n
    deviation = diagonal.deviation / n
    full = (2 * d) ** 0.5 * deviation  # the largest eigenvalue of the noise alone
    cut = float(m.edge) * full
    values, vectors = np.linalg.eigh(M)
    found = int(np.clip((values > cut).sum(), 1, m.n_directions))
    values, vectors = values[::-1][:found], vectors[:, ::-1][:, :found]
    believed = d**0.5 * deviation < SURE * float(state.length) ** 2
    trace = float(np.trace(M)) if believed else R2 * min(1.0, 0.55 + 0.5 * (float(radius) - 0.7))
    # undoes the clipping
    variances = _variances(values, d, R2, full, cut) * max(1.0, R2 / max(trace, 1.0))
    one = float(m.domain.squared_half_diagonal) / d  # a squared half width
    V = np.zeros((d, m.n_directions), dtype=np.int64)
    # towards zero: no column becomes longer than 1
    V[:, :found] = np.trunc(vectors * 2**DIRECTION_BITS)
    ll = np.zeros(m.n_directions)
    ll[:found] = np.clip(variances, 1e-4 * d * one, max(R2, 1e-4 * d * one))
    return known(
        m, state, directions=V, variances=rounded(ll, squared_diameter(m.domain.half_widths))
    )


def _variances(values: FloatArray, d: int, R2: float, full: float, cut: float) -> FloatArray:
    """Return estimated variances along the eigenvectors with the given noisy eigenvalues.

    Noise enlarges large eigenvalues, which the estimate corrects.

    values : noisy eigenvalues.
    R2 : typical squared distance of a record from the mean.
    full : largest eigenvalue of noise alone.
    cut : eigenvalue above which a direction counts.
    """
    if d <= MANY_FEATURES:
        return np.where(values > cut, _without_noise(values, cut), R2 / d)
    clean = _without_noise(values, full)
    safe = np.where(values > full, clean, 1.0)
    return np.where(values > full, clean - full**2 / (4 * safe), 0.0) + R2 / d


def _without_noise(values: FloatArray, edge: float) -> FloatArray:
    """Return estimates of the eigenvalues without noise: for each value, the t that solves t +
    edge^2 / (4 t) = value.

    edge : largest eigenvalue of noise alone.
    """
    inner: FloatArray = np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    return (values + inner) / 2


def used(state: State) -> int:
    """Return the number of directions that were found.

    In any real run it is at least one if the mechanism has directions.
    """
    n_directions: int = state.directions.shape[1]
    return max(int(state.directions.any(axis=0).sum()), min(1, n_directions))


def basis(state: State) -> FloatArray:
    """Return the directions found, as columns, float64 (d, found)."""
    return state.directions[:, : used(state)] / 2.0**DIRECTION_BITS


def deviations(state: State) -> FloatArray:
    """Return the standard deviations of the fitted Gaussian along the directions found."""
    return np.sqrt(state.variances[: used(state)].astype(np.float64))
