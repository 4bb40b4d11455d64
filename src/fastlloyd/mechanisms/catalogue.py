"""Names of all algorithms, mechanisms and presets.

Functions design a mechanism from settings, or read a mechanism from a file.
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
    """Return the mechanism for these settings: rounds, with the noise that their guarantee needs.

    Raises BudgetError if no noise gives the guarantee, and PlanError if a setting cannot be used.
    """
    return _DESIGNS[settings.designed_as](settings)


def read_mechanism(text: str, source: str = "mechanism.toml") -> AnyMechanism:
    """Return the mechanism in the text of `mechanism.toml`.

    Parameters
    ----------
    source : str
        Name of the file, for error messages.

    Raises
    ------
    PlanError
        If the text was changed, or its noise is too small for the guarantee it states.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[20.0, 1.0], [60.0, 4.0]], 500, axis=0)
    >>> from fastlloyd import MomentLloyd, read_mechanism
    >>> model = MomentLloyd(2, bounds=([0, 0], [100, 5]), n_records=2000).fit(X)
    >>> read_mechanism(model.mechanism_.to_toml()) == model.mechanism_
    True
    """
    kinds: Any = AnyMechanism
    mechanism: AnyMechanism = from_toml(text, kinds, source)
    return mechanism


def preset(name: str) -> Preset:
    """Return the preset of that name. Raises PlanError for an unknown name, with the nearest
    name.
    """
    return named(PRESETS, name, "preset")


def algorithm(name: str) -> AnyAlgorithm:
    """Return the algorithm of that name, in upper or lower case.

    Raises PlanError for an unknown name, with the nearest name.
    """
    return ALGORITHMS.get(name.lower()) or named(ALGORITHMS, name, "algorithm")
