"""All the central model needs to be private, in one frozen record: the only source of noise scales.

Sensitivities, noise scales and what the accountant is told come from the same object, so they cannot disagree. A mechanism
read from a file is checked the same way as one just designed: the rational cost of its rounds must fit its epsilon and delta.
"""

import hashlib
import math
import re
from collections.abc import Iterable
from fractions import Fraction

import msgspec
import numpy as np

from fastlloyd.algorithms import Algorithm, Noise
from fastlloyd.clustering.domain import Domain, IntArray
from fastlloyd.clustering.initialization import RadiusSearch, sphere_packing
from fastlloyd.documents import digest, from_toml, to_toml
from fastlloyd.dp.accountant import Accountant, GaussianRelease, GeometricRelease
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import MAX_SCALE, NoiseSource
from fastlloyd.errors import BudgetError, OverflowRisk, PlanError
from fastlloyd.expander import PublicSeed
from fastlloyd.queries import Sensitivity, sensitivity

# Departs from the paper, where noise scales are reals, delta is 1 / (N ln N) and neighbours differ by an added record only:
# scales are multiples of 1/65536 grid unit, rounded up, so that the cost of a mechanism is an exact rational; delta defaults to
# 1 / (100 N); replacing a record is available.
SCALE_UNITS = 1 << 16
MAX_RECORDS = 1 << 40
MAX_CLUSTERS = 10_000  # packing them takes time quadratic in their number, also for whoever only reads the file
MAX_COUNT_BITS = 32
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_ROUNDS = 1000
Release = GaussianRelease | GeometricRelease


class Round(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One iteration: its squared radius H2 (None: no radius) and the total noise its answer must carry.

    sum_scale in grid units, count_scale in units of 2**-count_bits records: standard deviations of Gaussian noise, or scales of
    two-sided geometric noise; 0 without noise.
    """

    sum_scale: Fraction
    count_scale: Fraction
    squared_radius: int | None = None


class Mechanism(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A private clustering, fully determined but for the records and the noise.

    Made by `design_mechanism`. Neighbouring relation: `neighboring_relation`; the unit of protection is one record (one row).

    epsilon, delta : the guarantee; every (D, D') of neighbours satisfies P[M(D) in S] <= e^epsilon P[M(D') in S] + delta.
    delta_slack : the part of delta set aside for adding up rounded shares of noise; 0 in the central model.
    n_records : public cap on the number of records; n_expected : public guess used to plan the iterations.
    min_count : centroids whose noisy count is below it stay where they are; 0 is the paper's rule (divide by anything but 0).
    count_bits : counts travel in units of 2**-count_bits records.
    """

    algorithm: Algorithm
    domain: Domain
    n_clusters: int
    n_records: int
    n_expected: int
    epsilon: float
    delta: float
    delta_slack: float
    neighboring_relation: NeighboringRelation
    initialization: RadiusSearch
    public_seed: str
    min_count: Fraction
    count_bits: int
    initial_centroids_digest: str
    rounds: tuple[Round, ...]

    def __post_init__(self) -> None:
        _check_sizes(self)
        if self.initial_centroids_digest != centroids_digest(self.initial_centroids()).hex():
            raise PlanError(
                "initial_centroids_digest does not match the centroids this version derives from public_seed; "
                "everyone must run the same version of fastlloyd"
            )
        _check_guarantee(self)

    @property
    def n_features(self) -> int:
        """d."""
        return self.domain.n_features

    @property
    def n_released(self) -> int:
        """K = T k (d + 1), how many noisy numbers are released."""
        return len(self.rounds) * self.n_clusters * (self.n_features + 1)

    def initial_centroids(self) -> IntArray:
        """Where every run of this mechanism starts, int64 (n_clusters, n_features), grid units; no data involved."""
        seed = PublicSeed.from_hex(self.public_seed)
        return sphere_packing(self.domain.half_widths, self.n_clusters, seed, self.initialization)

    def sensitivity(self, round: Round) -> Sensitivity:
        """Of the round's query, one record added or removed."""
        return sensitivity(self.domain, round.squared_radius, self.count_bits)

    def releases(self) -> list[Release]:
        """Everything the run reveals, for an accountant that knows nothing of clusters."""
        return [release for round in self.rounds for release in self._releases(round)]

    def accountant(self) -> Accountant:
        """An accountant that has seen the whole run."""
        accountant = Accountant(self.neighboring_relation)
        accountant.compose(self.releases())
        return accountant

    def draw_noise(self, round: Round, source: NoiseSource) -> IntArray:
        """The total noise of one answer, int64 (n_clusters, n_features + 1): all sums first, then all counts."""
        return draw(self.algorithm.noise, round.sum_scale, round.count_scale, (self.n_clusters, self.n_features), source)

    def to_toml(self) -> str:
        """The file `mechanism.toml`."""
        return to_toml(self, "A fastlloyd mechanism: settings, no records. The last line seals the content.")

    @classmethod
    def from_toml(cls, text: str, source: str = "mechanism.toml") -> "Mechanism":
        """Read `mechanism.toml`; raises PlanError if it was changed or cannot give the guarantee it states."""
        return from_toml(text, cls, source)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical content, 32 bytes."""
        return digest(self)

    def _releases(self, round: Round) -> list[Release]:
        s = self.sensitivity(round)
        match self.algorithm.noise:
            case Noise.NONE:
                return []
            case Noise.LAPLACE:
                # Replacing a record moves at most twice the l1 sensitivity of sums and of counts.
                r = 2 if self.neighboring_relation is NeighboringRelation.REPLACE_ONE else 1
                return [
                    GeometricRelease(Fraction(r * s.l1), round.sum_scale),
                    GeometricRelease(Fraction(r * s.count), round.count_scale),
                ]
            case Noise.GAUSSIAN:
                return [*self._gaussian_releases(round)]

    def _gaussian_releases(self, round: Round) -> list[GaussianRelease]:
        s = self.sensitivity(round)
        sums = GaussianRelease(Fraction(s.squared_l2), round.sum_scale**2)
        counts = GaussianRelease(Fraction(s.count**2), round.count_scale**2)
        if self.neighboring_relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
            return [sums, counts]
        # Within one cluster the sum moves by twice the radius and the count not at all; across two, both move once.
        within = [GaussianRelease(4 * sums.squared_sensitivity, sums.variance)]
        across = [
            GaussianRelease(2 * sums.squared_sensitivity, sums.variance),
            GaussianRelease(2 * counts.squared_sensitivity, counts.variance),
        ]
        return max(within, across, key=_mu_squared)


def _mu_squared(releases: Iterable[GaussianRelease]) -> Fraction:
    return sum((r.squared_sensitivity / r.variance for r in releases), Fraction(0))


def draw(noise: Noise, sum_scale: Fraction, count_scale: Fraction, shape: tuple[int, int], source: NoiseSource) -> IntArray:
    """Noise for one answer of `shape` (n_clusters, n_features) plus counts: int64 (n_clusters, n_features + 1)."""
    k, d = shape
    match noise:
        case Noise.NONE:
            return np.zeros((k, d + 1), dtype=np.int64)
        case Noise.GAUSSIAN:
            sums, counts = source.gaussian(sum_scale, k * d), source.gaussian(count_scale, k)
        case Noise.LAPLACE:
            sums, counts = source.two_sided_geometric(sum_scale, k * d), source.two_sided_geometric(count_scale, k)
    return np.column_stack([sums.reshape(k, d), counts])


def centroids_digest(centroids: IntArray) -> bytes:
    """SHA-256 of centroids as little-endian int64 with their shape, 32 bytes."""
    shape = b"".join(n.to_bytes(8, "little") for n in centroids.shape)
    return hashlib.sha256(b"fastlloyd/v1/centroids" + shape + centroids.astype("<i8").tobytes()).digest()


def usable_delta(delta: float, delta_slack: float) -> float:
    """What is left of delta for the Gaussian itself, rounded down."""
    if not 0 < delta < 1:
        raise BudgetError(f"delta is {delta}; expected a number above 0 and below 1, such as 1 / (100 n_records)")
    if not delta_slack >= 0:  # NaN included
        raise BudgetError(f"delta_slack is {delta_slack}; expected a part of delta, 0 or more: design the plan anew")
    if delta_slack == 0:
        return delta
    left = math.nextafter(delta - delta_slack, 0)
    if left <= 0.5 * delta:
        raise BudgetError(
            f"epsilon is so large that adding up shares of noise would use up delta {delta}; "
            "use a smaller epsilon or server-noise"
        )
    return left


def check_numbers(n_clusters: int, n_records: int, epsilon: float, algorithm: Algorithm) -> None:
    """Refuse numbers out of range, naming the setting."""
    if not 1 <= n_records <= MAX_RECORDS:
        raise PlanError(f"n_records is {n_records}; expected 1 to {MAX_RECORDS}")
    if not 1 <= n_clusters <= min(n_records, MAX_CLUSTERS):
        raise PlanError(f"n_clusters is {n_clusters}; expected 1 to {min(n_records, MAX_CLUSTERS)} (n_records is {n_records})")
    if algorithm.noise is not Noise.NONE and not 0 < epsilon < math.inf:
        raise BudgetError(f"epsilon is {epsilon}; expected a finite number above 0, such as 1.0")
    if not 0 < algorithm.alpha <= 4:
        raise PlanError(f"alpha is {algorithm.alpha}; expected a number above 0 and at most 4 (the paper uses 0.8)")


def check_grid(n_expected: int, count_bits: int) -> None:
    """The same for the expected number of records and the grid of the counts."""
    if not 1 <= n_expected <= MAX_RECORDS:
        raise PlanError(f"n_expected is {n_expected}; expected 1 to {MAX_RECORDS}")
    if not 0 <= count_bits <= MAX_COUNT_BITS:
        raise PlanError(f"count_bits is {count_bits}; expected 0 to {MAX_COUNT_BITS}")


def _check_sizes(m: Mechanism) -> None:
    check_numbers(m.n_clusters, m.n_records, m.epsilon, m.algorithm)
    if not 1 <= len(m.rounds) <= MAX_ROUNDS:
        raise PlanError(f"there are {len(m.rounds)} rounds; expected 1 to {MAX_ROUNDS}")
    check_grid(m.n_expected, m.count_bits)
    if not NAME.fullmatch(m.algorithm.name):
        raise PlanError(f"the algorithm's name {m.algorithm.name!r:.80} is not usable; expected letters, digits, dash or dot")
    if m.min_count < 0:
        raise PlanError(f"min_count is {m.min_count}; expected 0 (the paper's rule) or more")
    for number, round in enumerate(m.rounds, 1):
        if round.squared_radius is not None and not 0 <= round.squared_radius < 1 << 53:
            raise PlanError(f"squared_radius of round {number} is {round.squared_radius}; expected 0 to 2**53")


def _check_guarantee(m: Mechanism) -> None:
    if m.algorithm.noise is not Noise.GAUSSIAN and not m.delta == m.delta_slack == 0:
        raise PlanError(f"delta is {m.delta} and delta_slack {m.delta_slack}; expected 0 and 0 without Gaussian noise")
    if m.algorithm.noise is Noise.NONE:
        if m.epsilon != math.inf:
            raise PlanError(f"epsilon is {m.epsilon}; expected inf: {m.algorithm.name} adds no noise and promises nothing")
        return
    if any(round.sum_scale <= 0 or round.count_scale <= 0 for round in m.rounds):
        raise PlanError(f"a round of {m.algorithm.name} has no noise; expected positive scales in every round")
    largest = max(max(round.sum_scale, round.count_scale) for round in m.rounds)
    if largest > MAX_SCALE:
        raise OverflowRisk(
            f"epsilon {m.epsilon} needs noise of about 2^{math.ceil(largest).bit_length() - 1} grid units, above 2^44; "
            "use fewer fraction_bits or a larger epsilon"
        )
    accountant = m.accountant()
    if m.algorithm.noise is Noise.LAPLACE:
        fits = accountant.pure_epsilon <= Fraction(m.epsilon)
    else:
        fits = accountant.mu_squared <= Fraction(gdp_mu(m.epsilon, usable_delta(m.delta, m.delta_slack))) ** 2
    if not fits:
        raise PlanError(
            f"the noise scales do not give epsilon {m.epsilon} and delta {m.delta}; "
            "the file was not made by fastlloyd: design the mechanism anew"
        )
