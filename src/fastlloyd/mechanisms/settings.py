"""Settings of a mechanism: algorithm, public numbers and choices, checked in one frozen record."""

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
    """Algorithm with its name and the distribution of its noise. A subclass adds fields that can be
    varied.
    """

    name: str
    noise: Noise

    @property
    def alpha(self) -> Fraction:
        """Planned radius of a cluster, divided by the radius of a cube, if n_clusters equal cubes
        fill the domain.
        """
        raise NotImplementedError

    @property
    def fewest_iterations(self) -> int | None:
        """Smallest number of iterations that the planner chooses.

        None if the error does not depend on the number of iterations.
        """
        raise NotImplementedError

    def check(self) -> None:
        """Raise PlanError if a field is out of range."""

    def check_use(self, settings: Mapping[str, object]) -> None:
        """Raise PlanError for the first given setting that has no effect on the algorithm.

        settings : settings by name. A setting that is None is not given.
        """

    def varied(self, **fields: Any) -> Self:
        """Return the algorithm with some fields replaced. Raises PlanError if a value is not
        possible, or if the algorithm has no such field.

        fields : new values as words and numbers. None keeps the value of a field.
        """
        raise NotImplementedError


A_co = TypeVar("A_co", bound=AnyAlgorithm, covariant=True)


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """Choices of a preset for settings that the user leaves open.

    initialization : search method for the packing of initial centroids.
    min_count : smallest noisy count of a centroid that moves, or None for the planner's choice.
    paper_delta : whether delta is 1 / (N ln N) instead of 1 / (100 N), where N is the cap on
        records. This delta allows one exposed record in about ln N data sets, so it is for
        comparison only.
    algorithm : name of the algorithm if the user names none.
    """

    initialization: RadiusSearch
    min_count: Fraction | None
    paper_delta: bool
    algorithm: str

    def delta(self, n_records: int) -> float:
        """Return the preset's delta.

        n_records : public cap on the number of records.
        """
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
    """Settings of every run.

    epsilon, delta : guarantee. If `delta` is None, the default delta is used. Without noise epsilon
        has no effect.
    persons : persons and their caps, if all rows of a person are protected together, or None.
    n_records : public cap on the number of records, or of persons.
    n_expected : public guess of the number of records or persons, or None for n_records.
    public_seed : seed of all public randomness, such as the initial centroids.
    taken_from_the_data : a sentence for each setting that is not public, or None.
    count_bits, delta_slack : numbers of a federated run, which its planner chooses.

    Raises BudgetError if the guarantee is not possible, and PlanError if another setting is not.
    The message names the setting.
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
        """Convert integers of NumPy to Python's.

        In the planner's exact arithmetic, integers of NumPy would wrap around.
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
        """Distribution of the noise: Gaussian, Laplace or none."""
        raise NotImplementedError

    @property
    def default_delta(self) -> float:
        """Default delta of Gaussian noise."""
        return 1 / (100 * self.n_records)

    @property
    def number_bits(self) -> int:
        """Number of fraction bits of counts: their unit is 2**-number_bits records, or persons."""
        return self.count_bits + share_bits(self.persons)

    @property
    def expected(self) -> int:
        """Number of records for which the run is planned."""
        return self.n_records if self.n_expected is None else self.n_expected

    @property
    def whole_delta(self) -> float:
        """Delta of the guarantee of the whole run: the stated delta, or the default delta if none
        is stated. It is 0 without Gaussian noise.
        """
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
        """The mu of one person at one client, with which the noise must be compared. The mu of a
        person at c clients is c times as large. The result is None without Gaussian noise.
        """
        return None if self.mu is None else self.mu / max_clients(self.persons)

    @property
    def planned_epsilon(self) -> float:
        """Epsilon of one person at one client, as in `planned_mu`."""
        return self.epsilon / max_clients(self.persons)

    @property
    def budget(self) -> Fraction:
        """Exact budget: epsilon with Laplace noise, mu^2 with Gaussian noise, or 0 without
        noise.
        """
        return (
            Fraction(self.epsilon) if self.noise is Noise.LAPLACE else Fraction(self.mu or 0) ** 2
        )

    @property
    def fields(self) -> dict[str, Any]:
        """Values of the fields that every `PrivateRun` has, by name."""
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
    """Settings from which `catalogue.design` makes a clustering mechanism.

    delta : delta of the guarantee. None stands for the preset's, or for 0 without Gaussian noise.
    n_iterations : number of iterations, or None for the algorithm's rule.
    initialization : search method for initial centroids, or None for the preset's.
    min_count : smallest noisy count of a centroid that moves, or None for the preset's.
    estimate_loss : whether the loss is estimated.
    loss_share : share of the budget for the loss, or None for `loss.planned_share`. The budget is
        mu^2, or epsilon with Laplace noise.
    bounds_digest : digest of the mechanism that found the bounds within the same budget, 64 hex
        digits, or None.

    Other fields are as in `RunSettings`. Raises BudgetError if the guarantee is not possible, and
    PlanError if another setting is not. The message names the setting.
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
        """Type of the algorithm, by which `catalogue.design` chooses a design function."""
        return type(self.algorithm)

    @property
    def noise(self) -> Noise:
        """Distribution of the noise: Gaussian, Laplace or none."""
        return self.algorithm.noise

    @property
    def default_delta(self) -> float:
        """Default delta of the preset."""
        return self.preset.delta(self.n_records)

    @property
    def fields(self) -> dict[str, Any]:
        """Values of the fields of a `Mechanism` that do not depend on its algorithm, by name."""
        return super().fields | {"n_clusters": self.n_clusters, "bounds_digest": self.bounds_digest}


def check_expected(n_expected: int | None, n_records: int, persons: Persons | None = None) -> None:
    """Raise PlanError if n_expected is below 1 or above the cap `n_records`.

    The message does not show the cap, because it may have been taken from the data.
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
