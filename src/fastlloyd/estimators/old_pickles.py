"""The names of classes that models pickled by earlier versions use."""

import sys
from types import ModuleType
from typing import get_args

from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm, RadiusSchedule
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import Rounds
from fastlloyd.mechanisms.rounds import LossRound
from fastlloyd.reports.statement import PrivacyStatement


def let_old_pickles_be_read() -> None:
    """Register the names that models pickled by earlier versions use: a pickle holds module and
    name of every class in it.

    Models pickled today name no class but the estimator, so nothing is ever added here; what moves
    is corrected.
    """
    old_names: dict[str, list[type]] = {
        "fastlloyd.algorithms": [Algorithm, Noise, RadiusSchedule],
        "fastlloyd.clustering.initialization": [RadiusSearch],
        "fastlloyd.exchanges": [LossRound],
        "fastlloyd.guarantees": [PrivacyStatement],
        "fastlloyd.lloyd_mechanism": [LloydMechanism],
        "fastlloyd.momentlloyd.mechanism": [MomentMechanism],
        "fastlloyd.momentlloyd.rounds": [*get_args(Rounds)],
    }
    for name, classes in old_names.items():
        module = sys.modules[name] = ModuleType(
            name, "Classes that have moved, for models pickled by earlier versions."
        )
        vars(module).update({kind.__name__: kind for kind in classes})
    vars(sys.modules["fastlloyd.exchanges"])["Round"] = LloydRound
