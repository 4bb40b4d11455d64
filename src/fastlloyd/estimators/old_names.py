"""The names that models pickled by earlier versions use: a pickle holds the module and the name of every class in it.

Models pickled today name no class but the estimator, so nothing is ever added here; what moves is corrected.
"""

import sys
from types import ModuleType

from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.lloyd.algorithm import Algorithm, RadiusSchedule
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.mechanisms.moment_lloyd import rounds
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.rounds import LossRound
from fastlloyd.reports.statement import PrivacyStatement

_OLD_NAMES: dict[str, dict[str, type]] = {
    "fastlloyd.algorithms": {"Algorithm": Algorithm, "Noise": Noise, "RadiusSchedule": RadiusSchedule},
    "fastlloyd.clustering.initialization": {"RadiusSearch": RadiusSearch},
    "fastlloyd.exchanges": {"LossRound": LossRound, "Round": LloydRound},
    "fastlloyd.guarantees": {"PrivacyStatement": PrivacyStatement},
    "fastlloyd.lloyd_mechanism": {"LloydMechanism": LloydMechanism},
    "fastlloyd.momentlloyd.mechanism": {"MomentMechanism": MomentMechanism},
    "fastlloyd.momentlloyd.rounds": {
        "LengthsRound": rounds.LengthsRound,
        "MeanRound": rounds.MeanRound,
        "SecondMomentRound": rounds.SecondMomentRound,
        "SquaresRound": rounds.SquaresRound,
        "StepRound": rounds.StepRound,
        "VotesRound": rounds.VotesRound,
    },
}


def register() -> None:
    """Let the old names be found; unpickling a model imports `fastlloyd.estimators` first, which calls this."""
    for name, classes in _OLD_NAMES.items():
        module = ModuleType(name, "Classes that have moved, for models pickled by earlier versions.")
        vars(module).update(classes)
        sys.modules[name] = module
