"""Names of all algorithms, mechanisms and presets; design of mechanisms from settings, and reading
of mechanism files.
"""

from collections.abc import Callable
from typing import Any, overload

from fastlloyd.base.names import named
from fastlloyd.base.sealed_toml import from_toml
from fastlloyd.mechanisms.bounds import design as bounds
from fastlloyd.mechanisms.bounds.design import BoundsSettings
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism
from fastlloyd.mechanisms.lloyd import design as lloyd
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd import design as moment_lloyd
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD, MomentAlgorithm
from fastlloyd.mechanisms.settings import PRESETS, AnyAlgorithm, Preset, RunSettings, Settings

AnyMechanism = LloydMechanism | MomentMechanism
ALGORITHMS: dict[str, AnyAlgorithm] = {
    each.name: each for each in (MOMENTLLOYD, FASTLLOYD, GLLOYD, SULLOYD, LLOYD)
}
AnyPlanned = AnyMechanism | BoundsMechanism  # what a plan may hold
_DESIGNS: dict[type, Callable[[Any], AnyPlanned]] = {
    Algorithm: lloyd.design,
    MomentAlgorithm: moment_lloyd.design,
    BoundsSettings: bounds.design,
}


@overload
def design(settings: Settings[Algorithm]) -> LloydMechanism: ...
@overload
def design(settings: Settings[MomentAlgorithm]) -> MomentMechanism: ...
@overload
def design(settings: Settings[AnyAlgorithm]) -> AnyMechanism: ...
@overload
def design(settings: BoundsSettings) -> BoundsMechanism: ...
@overload
def design(settings: RunSettings) -> AnyPlanned: ...


def design(settings: RunSettings) -> AnyPlanned:
    """Return the mechanism of these settings, with rounds and noise for their guarantee.

    Raises BudgetError or PlanError.
    """
    return _DESIGNS[settings.designed_as](settings)


def read_mechanism(text: str, source: str = "mechanism.toml") -> AnyMechanism:
    """Read `mechanism.toml`. Raises PlanError if it was changed or cannot give the guarantee it
    states.
    """
    kinds: Any = AnyMechanism
    mechanism: AnyMechanism = from_toml(text, kinds, source)
    return mechanism


def preset(name: str) -> Preset:
    """Return the preset of that name. Raises PlanError, with the nearest name, if there is none."""
    return named(PRESETS, name, "preset")


def algorithm(name: str) -> AnyAlgorithm:
    """Return the algorithm of that name (any case). Raises PlanError, with the nearest name, if
    there is none.
    """
    return ALGORITHMS.get(name.lower()) or named(ALGORITHMS, name, "algorithm")
