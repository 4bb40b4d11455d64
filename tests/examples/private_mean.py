"""The mean of all records, with Gaussian noise: one question, one noisy answer, one division."""

from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering import update
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.mechanism import Clustering, ExpectedError, Mechanism, check_sizes
from fastlloyd.mechanisms.private_run import check_guarantee
from fastlloyd.mechanisms.queries.query import Query, ask
from fastlloyd.mechanisms.queries.relative import Moments
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise, Round, sqrt_up
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings

COUNT_SHARE = Fraction(1, 5)  # of squared mu


class MeanAlgorithm(AnyAlgorithm, frozen=True, kw_only=True):
    """One cluster, whose centroid is the mean."""

    name: str = "mean"
    noise: Noise = Noise.GAUSSIAN

    @property
    def alpha(self) -> Fraction:
        """All of the domain."""
        return Fraction(1)

    @property
    def fewest_iterations(self) -> None:
        """There is one, whoever plans."""

    def varied(self, **fields: Any) -> Self:
        """Itself: nothing can be varied."""
        if any(value is not None for value in fields.values()):
            raise PlanError(f"{', '.join(fields)} have no effect on {self.name}; leave them out")
        return self


MEAN = MeanAlgorithm()


class SumRound(Round, frozen=True, kw_only=True, forbid_unknown_fields=True, cache_hash=True):
    """The sum of all records and how many they are; scales in grid units and in units of
    2**-count_bits records.
    """

    moves_centroids: ClassVar[bool] = True
    counts_records: ClassVar[bool] = True
    scales: tuple[Fraction, ...]

    def question(self, m: Any) -> Moments:
        """One cluster of all records."""
        return Moments(domain=m.domain, n_clusters=1, squared_radius=None, count_bits=m.count_bits)

    def query(self, m: "MeanMechanism", state: Clustering) -> Query:
        """Around the one centroid there is, which changes nothing."""
        return ask(self.question(m), centroids=state.centroids)

    def advance(
        self,
        m: "MeanMechanism",
        state: Clustering,
        answer: Answer,
        noise: AnswerNoise,  # noqa: ARG002
    ) -> Clustering:
        """Divide, in integers, by the noisy count or by one record."""
        counts = np.maximum(answer[:, -1], 1 << m.count_bits)
        mean = update.divide(answer[:, :-1], counts, m.count_bits)
        inside: IntArray = np.clip(mean, -m.domain.half_widths, m.domain.half_widths).astype(
            np.int64
        )
        return Clustering(inside, state.centroids, answer, np.ones(1, dtype=np.bool_))

    def facts(self, m: "MeanMechanism") -> dict[str, Any]:
        """What it costs."""
        corners = self.question(m).sensitivity.corners(m.neighboring_relation)
        return {
            "squared_sensitivities": [list(corner) for corner in corners],
            "noise_scales_exact": [str(s) for s in self.scales],
        }


class MeanMechanism(
    Mechanism, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="mean"
):
    """See `Mechanism`."""

    rounds: tuple[SumRound, ...]

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.n_clusters != 1 or len(self.rounds) != 1:
            raise PlanError("a mean takes one cluster and one round")
        check_guarantee(self)

    name: ClassVar[str] = MEAN.name
    noise: ClassVar[Noise] = MEAN.noise
    radius_share: ClassVar[Fraction] = MEAN.alpha
    sums_are_relative: ClassVar[bool] = False

    def start(self) -> Clustering:
        """The middle of the box."""
        zeros = np.zeros((1, self.n_features), dtype=np.int64)
        return Clustering(
            zeros,
            zeros,
            np.zeros((1, self.n_features + 1), dtype=np.int64),
            np.zeros(1, dtype=np.bool_),
        )

    def last_clustering(self, state: Clustering) -> Clustering:
        """The state after the round."""
        return state

    def expected_error(self, noise_factor: float = 1.0) -> ExpectedError:
        """The length of the noise in the mean of the expected records, over the planned radius."""
        error = (
            noise_factor
            * float(self.rounds[0].scales[0])
            * self.n_features**0.5
            / self.n_expected
            / self.planned_radius
        )
        return ExpectedError(typical=error, low=error, high=error)

    def planning(self, noise_factor: float) -> list[Fact]:  # noqa: ARG002 - nothing was
        """Nothing is left to choose."""
        return [Fact.of("planned"), Fact.of("one round", share_of_count=COUNT_SHARE)]


def design(settings: Settings[MeanAlgorithm]) -> MeanMechanism:
    """A fifth of the budget for the number of records, the rest for their sum."""
    question = Moments(
        domain=settings.domain, n_clusters=1, squared_radius=None, count_bits=settings.count_bits
    )
    stated = question.sensitivity
    shares = [(1 - COUNT_SHARE) * settings.budget, COUNT_SHARE * settings.budget]
    variances = [
        Fraction(change) / share for change, share in zip(stated.added[0], shares, strict=True)
    ]
    costs = [
        sum(Fraction(a) / v for a, v in zip(corner, variances, strict=True))
        for corner in stated.corners(settings.neighboring_relation)
    ]
    dearest = max(costs) / settings.budget  # above 1 where a record may be replaced
    scales = tuple(sqrt_up(variance * dearest) for variance in variances)
    return MeanMechanism(**settings.fields, rounds=(SumRound(scales=scales),))
