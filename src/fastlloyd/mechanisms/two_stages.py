"""Clustering within bounds that are found first, both from one budget."""

from fractions import Fraction
from typing import Any, Final, Self

import msgspec

from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.bounds.design import BoundsSettings, divide
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism, FoundBounds
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.settings import RunSettings, Settings
from fastlloyd.records.recipe.search import found_bounds

LEEWAY: Final = Fraction(1, 1 << 30)
"""Largest extra cost of a round of the second stage, as a fraction of its planned mu^2. Scales are
planned before bounds are found, and rounding for the bounds found later may increase the cost.
"""
_KEPT_BACK = 2.0**-28  # of epsilon, which is more than that of mu^2


class TwoStages(msgspec.Struct, frozen=True):
    """Plans of both stages, made from public numbers before any budget is spent.

    first : mechanism that finds the bounds.
    later : settings of the clustering, with the remaining budget. Its domain will be replaced by
        the bounds found. No other setting will change.
    epsilon : epsilon of both stages together, at the delta that each of them has.
    searched : keys of the features of a recipe that get the bounds found.
    """

    first: BoundsMechanism
    later: Settings[Any]
    epsilon: float
    searched: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings[Any], outer: Domain, searched: tuple[str, ...] = ()) -> Self:
        """Return two stages that divide the budget of the settings.

        settings : settings whose domain is a `placeholder`.
        outer : result of `bounds.design.outer_range`.
        searched : keys of the features of a recipe that get the bounds found.

        Raises PlanError or BudgetError if a stage cannot be planned.
        """
        if settings.noise is not Noise.GAUSSIAN:
            name = settings.algorithm.name
            fault = (
                f"bounds are found with Gaussian noise, but {name} adds no noise"
                if settings.noise is Noise.NONE
                else f"bounds are found with Gaussian noise, but {name} has a guarantee without"
                " delta"
            )
            raise PlanError(
                f"{fault}; state bounds, or name another algorithm, such as momentlloyd"
            )
        shared = {name: getattr(settings, name) for name in RunSettings.__struct_fields__}
        stages = divide(BoundsSettings(**shared | {"domain": outer, "delta": settings.whole_delta}))
        later = msgspec.structs.replace(
            settings, epsilon=stages.epsilon * (1 - _KEPT_BACK), delta=settings.whole_delta
        )
        design(later)
        return cls(stages.first, later, float(settings.epsilon), searched)

    def second(self, found: FoundBounds) -> Settings[Any]:
        """Return the settings of the clustering within the bounds found.

        Raises PlanError if the bounds cannot form a domain.
        """
        box, outer = self.later.domain, self.first.domain
        grid: dict[str, Any] = {"scaling": box.scaling, "fraction_bits": box.fraction_bits}
        if box.recipe is None:
            domain = found.domain(outer, **grid)
        else:
            ends = dict(zip(outer.features, zip(*found.ends(outer), strict=True), strict=True))
            features = (
                msgspec.structs.replace(each, bounds=found_bounds(each, *ends[each.key]))
                if each.key in self.searched
                else each
                for each in box.recipe
            )
            domain = Domain.of_recipe(tuple(features), **grid)
        return msgspec.structs.replace(
            self.later, domain=domain, bounds_digest=self.first.digest.hex()
        )


class FirstStage(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds that were found before a clustering.

    mechanism : mechanism that found the bounds.
    bounds : bounds of the features.
    epsilon : epsilon of both stages together, at the delta that each of them has.
    """

    mechanism: BoundsMechanism
    bounds: FoundBounds
    epsilon: float

    @property
    def not_found(self) -> list[str]:
        """Names of the features that keep the outer range, because noise hides their records."""
        return self.bounds.missing(self.mechanism.domain)


def placeholder(outer: Domain, *, scaling: Scaling, fraction_bits: int = 16) -> Domain:
    """Return a domain to use in settings until bounds are found."""
    d = outer.n_features
    return Domain(
        features=outer.features,
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        scaling=scaling,
        fraction_bits=fraction_bits,
    )
