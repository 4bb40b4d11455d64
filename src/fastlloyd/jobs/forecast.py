"""Forecast of a clustering from public numbers."""

from typing import NamedTuple, Self

from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.uncertainty import Verdict, noise_deviation


class Forecast(NamedTuple):
    """Expected error and noise of a clustering.

    error : expected error of a typical centroid, as a fraction of the radius of a cluster.
    low, high : errors between which 80 % of the runs lie. Both equal `error` if a formula gives
        it.
    count_noise : standard deviation of the noise of a count, in records or persons.
    n_rounds : number of rounds, and so of passes over the records.
    """

    error: float
    low: float
    high: float
    count_noise: float
    n_rounds: int

    @classmethod
    def of(cls, mechanism: Mechanism) -> Self:
        """Return the forecast of a mechanism, if no client misses a round."""
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
        """Verdict on the error, by the thresholds with which results are judged."""
        return Verdict.on(self.error)
