"""Privacy statement of a fit, worked out when it is first asked for."""

from __future__ import annotations

from typing import NamedTuple

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.names import listing
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.two_stages import FirstStage
from fastlloyd.reports.bounds_result import both_stages
from fastlloyd.reports.outside import COVERS_ESTIMATOR, THIS_ESTIMATOR
from fastlloyd.reports.statement import PrivacyStatement, mechanism_statement, with_radius


def hidden(first: FirstStage | None) -> list[str]:
    """Return what is doubtful in bounds that were found."""
    names = [] if first is None else first.not_found
    return (
        [f"noise hides where the records are in {listing(names)}: the outer range is used there"]
        if names
        else []
    )


class Spent(NamedTuple):
    """Privacy budget of a fit, kept for its statement, which takes longer to work out than a fit of
    a few thousand records.

    first : first stage of a fit of two stages. data_set : name of the account, if any. radius : of
    the intervals, if there is one.
    """

    mechanism: Mechanism
    first: FirstStage | None
    data_set: str | None
    radius: FloatArray | None

    def statement(self) -> PrivacyStatement:
        """The privacy statement of the fit."""
        said = with_radius(mechanism_statement(self.mechanism), self.radius)
        if (first := self.first) is not None:
            said = both_stages(
                said, first.mechanism, self.mechanism, first.epsilon, first.not_found
            )
        if self.mechanism.loss is not None:
            said["loss_estimate"]["standard_error"] = self.mechanism.loss_deviation
        if self.mechanism.noise is not Noise.NONE:
            said["covers"] = THIS_ESTIMATOR
            said["cautions"] = [*said["cautions"], COVERS_ESTIMATOR]
        return PrivacyStatement(said | {"data_set": self.data_set})
