"""A fit of one stage, or of two: bounds are found first, and the clustering within them is designed
after that.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import listing
from fastlloyd.dp.noise import Noise, NoiseSource
from fastlloyd.errors import FastLloydError
from fastlloyd.estimators.charging import Drawing
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import AllRecords
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.two_stages import TwoStages
from fastlloyd.reports.bounds_result import BoundsResult, FirstStage
from fastlloyd.reports.outside import COVERS_ESTIMATOR, THIS_ESTIMATOR
from fastlloyd.reports.statement import (
    PrivacyStatement,
    mechanism_statement,
    with_radius,
)

Charge = Callable[..., AbstractContextManager[Drawing]]  # `charged`, of a data set


def narrowed(
    planned: TwoStages, mine: AllRecords, drawing: Drawing, noise: NoiseSource
) -> tuple[FirstStage, Mechanism]:
    """Find bounds, which spends the first part of the budget, and design the clustering within
    them.
    """
    found = central.release(planned.first, mine, noise, drawing.first)
    result = BoundsResult(mechanism=planned.first, bounds=found)
    first = FirstStage(result=result, epsilon=planned.epsilon)
    try:
        return first, design(planned.second(found))
    except FastLloydError as error:
        raise type(error)(f"{error}; {first.stays_spent}") from None


def hidden(first: FirstStage | None) -> list[str]:
    """What is doubtful in bounds that were found."""
    hidden = [] if first is None else first.result.not_found
    return (
        [f"noise hides where the records are in {listing(hidden)}: the outer range stands there"]
        if hidden
        else []
    )


class Spent(NamedTuple):
    """What a fit has spent, kept for its statement, which takes longer to work out than a fit of a
    few thousand records.

    first : of a fit of two stages. data_set : what
    it was charged to, if any. radius : of the intervals, if there is one.
    """

    mechanism: Mechanism
    first: FirstStage | None
    data_set: str | None
    radius: FloatArray | None

    def statement(self) -> PrivacyStatement:
        """The privacy statement of the fit."""
        said = with_radius(mechanism_statement(self.mechanism), self.radius)
        said = said if self.first is None else self.first.with_second(said, self.mechanism)
        if self.mechanism.loss is not None:
            said["loss_estimate"]["standard_error"] = self.mechanism.loss_deviation
        if self.mechanism.noise is not Noise.NONE:
            said["covers"] = THIS_ESTIMATOR
            said["cautions"] = [*said["cautions"], COVERS_ESTIMATOR]
        return PrivacyStatement(said | {"data_set": self.data_set})
