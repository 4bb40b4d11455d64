"""Forecast of a clustering, from public numbers alone."""

from typing import NamedTuple, Self

from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.uncertainty import Verdict, noise_deviation


class Forecast(NamedTuple):
    """Expected error and noise of a clustering.

    error : of a typical centroid, as a share of the radius of a cluster.
    low, high : four of five runs lie between them, both equal to error where it is a closed form.
    count_noise : standard deviation of a count, records or persons.
    n_rounds : passes over the records.
    """

    error: float
    low: float
    high: float
    count_noise: float
    n_rounds: int

    @classmethod
    def of(cls, mechanism: Mechanism) -> Self:
        """Return the forecast of a mechanism whose rounds no client misses."""
        expected = mechanism.expected_error(1.0)
        return cls(
            expected.typical,
            expected.low,
            expected.high,
            noise_deviation(mechanism).counts,
            mechanism.n_rounds,
        )

    @property
    def verdict(self) -> Verdict:
        """Return the error in words, by the thresholds that results are judged by."""
        return Verdict.on(self.error)
