"""Forecast of a clustering from public numbers."""

import math
from typing import Self

import msgspec

from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.uncertainty import NoiseDeviation, Verdict, noise_deviation


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict, error bars, noise and rounds that a clustering will probably have.

    An *error bar* is half of the interval that a result shows for a coordinate of a centroid: two
    standard errors. It is for a centroid whose interval is reliable (settled), and for a feature
    with weight 1. It is given as a fraction of the width of the bounds.

    epsilon, delta : budget of the run.
    verdict : effect of the noise on a typical cluster.
    bar : median of the error bars in simulated runs. Infinite if hardly any interval would be
        reliable.
    bar_low, bar_high : ends of the range that contains the error bar in 80 % of the simulated runs.
    size : expected number of records or persons in a typical cluster, n_expected / n_clusters.
    count_noise : standard deviation of a count in the last round, in records or persons.
    sum_noise : standard deviation of one coordinate of a sum in the last round, in units of half
        the width of the bounds. None for MomentLloyd, which finds the unit of its sums during the
        run.
    loss_noise : standard deviation of the estimated loss per record, in units of the squared half
        width of the bounds. None if the loss is not estimated.
    radius : planned radius of a cluster, in units of half the width of the bounds.
    n_iterations : number of rounds that move the centroids.
    n_rounds : number of rounds of the clustering. Each reads all records once.
    """

    epsilon: float
    delta: float
    verdict: Verdict
    bar: float
    bar_low: float
    bar_high: float
    size: float
    count_noise: float
    sum_noise: float | None
    loss_noise: float | None
    radius: float
    n_iterations: int
    n_rounds: int

    @classmethod
    def of(cls, m: Mechanism, noise: NoiseDeviation | None = None, factor: float = 1.0) -> Self:
        """Return the forecast of a mechanism, if no client misses a round.

        noise : deviation of the noise in the last round, or None for the deviation in the central
            model.
        factor : scale of the noise, divided by the scale that the guarantee needs.
        """
        noise = noise_deviation(m) if noise is None else noise
        half_width, expected = 2**m.domain.fraction_bits, m.expected_error(factor)
        bar = m.planned_radius / half_width / math.sqrt(m.n_features)
        size = m.n_expected / m.n_clusters
        return cls(
            epsilon=m.epsilon,
            delta=m.delta,
            verdict=Verdict.on(expected.typical, size, noise.counts),
            bar=expected.typical * bar,
            bar_low=expected.low * bar,
            bar_high=expected.high * bar,
            size=size,
            count_noise=noise.counts,
            sum_noise=noise.sums / half_width if m.sums_are_in_grid_units else None,
            loss_noise=factor * m.loss_deviation / m.n_expected if m.loss else None,
            radius=m.planned_radius / half_width,
            n_iterations=m.n_iterations,
            n_rounds=len(m.rounds),
        )
