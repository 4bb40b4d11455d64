"""Settings of a mechanism: an algorithm, public numbers and choices, in one frozen record that
checks them.
"""

import math
import operator
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Generic, Self, TypeVar

import msgspec

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError, PlanError
from fastlloyd.mechanisms.mechanism import check_clusters
from fastlloyd.mechanisms.persons import Persons, max_clients, share_bits, unit
from fastlloyd.mechanisms.private_run import MAX_ROUNDS, check_grid, check_numbers, usable_delta


class AnyAlgorithm(msgspec.Struct, frozen=True, kw_only=True):
    """Algorithm with its name and the law of its noise; subclasses add what can be varied."""

    name: str
    noise: Noise

    @property
    def alpha(self) -> Fraction:
        """Planned radius of a cluster, divided by that of n_clusters equal cubes that fill the
        domain.
        """
        raise NotImplementedError

    @property
    def fewest_iterations(self) -> int | None:
        """Return the least number of iterations that the planner chooses, or None if the error does
        not depend on it.
        """
        raise NotImplementedError

    def check(self) -> None:
        """Raise PlanError if a field is out of range."""

    def check_use(self, settings: Mapping[str, object]) -> None:
        """Raise PlanError naming the first of these settings that is given (not None) and has no
        effect on the algorithm.
        """

    def varied(self, **fields: Any) -> Self:
        """Return the algorithm with some fields replaced, given in words and numbers; None keeps a
        field.

        Raises PlanError.
        """
        raise NotImplementedError


A_co = TypeVar("A_co", bound=AnyAlgorithm, covariant=True)


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of a preset for settings that the user leaves open.

    algorithm : used if none is named. min_count None: the planner's floor under noisy counts.
    paper_delta: delta = 1 / (N ln N) instead of 1 / (100 N). It allows one exposed record in about
    ln N data sets, so it is for comparison only.
    """

    initialization: RadiusSearch
    min_count: Fraction | None
    paper_delta: bool
    algorithm: str

    def delta(self, n_records: int) -> float:
        """Return the delta for a public cap on the number of records."""
        return (
            1 / (n_records * math.log(n_records))
            if self.paper_delta and n_records > 2
            else 1 / (100 * n_records)
        )


PRESETS = {
    "default": Preset(
        initialization=RadiusSearch.BISECTION,
        min_count=None,
        paper_delta=False,
        algorithm="momentlloyd",
    ),
    "paper": Preset(
        initialization=RadiusSearch.HALVING,
        min_count=Fraction(0),
        paper_delta=True,
        algorithm="fastlloyd",
    ),
}


class RunSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of every run with noise.

    epsilon, delta : the guarantee; delta is None for the default. Without noise epsilon has no
        effect.
    persons : unit of protection, if all rows of a person are protected together.
    n_records : public cap on the number of records, or of persons.
    n_expected : public guess of that number, or None for n_records.
    public_seed : of all public randomness, such as the initial centroids.
    taken_from_the_data : a sentence for each setting that is not public, or None.
    count_bits, delta_slack : of a federated run, chosen by its planner.

    Raises BudgetError or PlanError, with the setting.
    """

    domain: Domain
    n_records: int
    epsilon: float
    public_seed: PublicSeed
    delta: float | None = None
    n_expected: int | None = None
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    count_bits: int = 0
    delta_slack: float = 0.0
    persons: Persons | None = None
    taken_from_the_data: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self._become_ints("n_records", "n_expected", "count_bits")
        check_numbers(self.n_records, self.epsilon, self.noise)
        check_grid(self.expected, self.count_bits)
        if self.noise is Noise.GAUSSIAN:
            usable_delta(self.whole_delta, self.delta_slack)

    def _become_ints(self, *names: str) -> None:
        """Convert NumPy's integers to Python's, because NumPy's would wrap around in the planner's
        exact arithmetic.
        """
        for name in names:
            if (number := getattr(self, name)) is not None:
                msgspec.structs.force_setattr(self, name, operator.index(number))

    @property
    def designed_as(self) -> type:
        """Return the class of settings by which `catalogue.design` chooses a design function."""
        return type(self)

    @property
    def noise(self) -> Noise:
        """The law of the noise."""
        raise NotImplementedError

    @property
    def default_delta(self) -> float:
        """Delta of Gaussian noise if none is given."""
        return 1 / (100 * self.n_records)

    @property
    def number_bits(self) -> int:
        """Fraction bits of counts in an answer, whose unit is 2**-number_bits records, or
        persons.
        """
        return self.count_bits + share_bits(self.persons)

    @property
    def expected(self) -> int:
        """Number of records for which the run is planned."""
        return self.n_records if self.n_expected is None else self.n_expected

    @property
    def whole_delta(self) -> float:
        """The delta of the guarantee."""
        if self.noise is not Noise.GAUSSIAN:
            return 0.0
        return self.default_delta if self.delta is None else self.delta

    @property
    def mu(self) -> float | None:
        """Gaussian budget, or None without Gaussian noise."""
        if self.noise is not Noise.GAUSSIAN:
            return None
        return gdp_mu(self.epsilon, usable_delta(self.whole_delta, self.delta_slack))

    @property
    def planned_mu(self) -> float | None:
        """`mu` of one person at one client, which the noise compares with. For c clients it is c
        times as large.
        """
        return None if self.mu is None else self.mu / max_clients(self.persons)

    @property
    def planned_epsilon(self) -> float:
        """Epsilon of one person at one client, as in `planned_mu`."""
        return self.epsilon / max_clients(self.persons)

    @property
    def budget(self) -> Fraction:
        """Return the exact budget: epsilon with Laplace noise, squared mu with Gaussian noise, 0
        without noise.
        """
        return (
            Fraction(self.epsilon) if self.noise is Noise.LAPLACE else Fraction(self.mu or 0) ** 2
        )

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields that every `PrivateRun` has."""
        return {
            "domain": self.domain,
            "n_records": self.n_records,
            "n_expected": self.expected,
            "epsilon": math.inf if self.noise is Noise.NONE else float(self.epsilon),
            "delta": float(self.whole_delta),
            "delta_slack": float(self.delta_slack),
            "neighboring_relation": self.neighboring_relation,
            "public_seed": self.public_seed.hex(),
            "count_bits": self.count_bits,
            "persons": self.persons,
            "taken_from_the_data": self.taken_from_the_data or None,
        }


class Settings(RunSettings, Generic[A_co], frozen=True, kw_only=True):
    """Settings from which `catalogue.design` makes a clustering.

    delta : None for the preset's, or for 0 without Gaussian noise.
    n_iterations : None for the algorithm's rule.
    initialization, min_count : None for the preset's. min_count is the smallest noisy count of a
        centroid that moves.
    estimate_loss, loss_share : whether the loss is estimated, and with which share of mu^2, or of
        epsilon with Laplace noise. None for `loss.planned_share`.
    bounds_digest : of the mechanism that found the bounds within the same budget, 64 hex digits, or
        None.

    Other fields are as in `RunSettings`. Raises BudgetError or PlanError, with the setting.
    """

    algorithm: A_co
    n_clusters: int
    n_iterations: int | None = None
    preset: Preset = PRESETS["default"]
    initialization: RadiusSearch | None = None
    min_count: Fraction | None = None
    estimate_loss: bool = False
    loss_share: float | Fraction | None = None
    bounds_digest: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._become_ints("n_clusters", "n_iterations")
        check_clusters(self.n_clusters, self.n_records)
        self.algorithm.check()
        self.algorithm.check_use({"n_iterations": self.n_iterations, "min_count": self.min_count})
        if self.n_iterations is not None and not 1 <= self.n_iterations <= MAX_ROUNDS:
            raise PlanError(
                f"n_iterations is {self.n_iterations}; expected 1 to {MAX_ROUNDS}, or nothing for"
                " the planner's choice"
            )
        if self.loss_share is None:
            return
        if not self.estimate_loss:
            raise PlanError(
                "loss_share has an effect only with an estimate of the loss; ask for the"
                " estimate too, or leave loss_share out"
            )
        if not 0 < self.loss_share < 1:  # NaN included
            raise BudgetError(
                f"loss_share is {self.loss_share}; expected a share of the budget, above 0 and"
                " below 1, such as 0.05"
            )

    @property
    def designed_as(self) -> type[AnyAlgorithm]:
        """Type of the algorithm, which decides the design."""
        return type(self.algorithm)

    @property
    def noise(self) -> Noise:
        """Return the law of the algorithm's noise."""
        return self.algorithm.noise

    @property
    def default_delta(self) -> float:
        """Return the default delta of the preset."""
        return self.preset.delta(self.n_records)

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of a `Mechanism` that do not depend on its algorithm."""
        return super().fields | {"n_clusters": self.n_clusters, "bounds_digest": self.bounds_digest}


def check_expected(n_expected: int | None, n_records: int, persons: Persons | None = None) -> None:
    """Raise PlanError for a guess below 1 or above the cap. The cap may have been taken from the
    data, so it is not shown.
    """
    if n_expected is None:
        return
    many = unit(persons).many
    if n_expected < 1:
        raise PlanError(
            f"n_expected is {n_expected}; expected 1 or more, an honest guess of the number of"
            f" {many}"
        )
    if n_expected > n_records:
        raise PlanError(
            f"n_expected is {n_expected}, above n_records, the cap on the number of {many}; expect"
            " fewer, or raise the cap"
        )
