"""Settings are checked once, before anything is designed, and a preset decides where they say
nothing.
"""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError, PlanError
from fastlloyd.mechanisms.catalogue import ALGORITHMS, design, preset
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, LLOYD, SULLOYD
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm, Settings

BOX = Domain(features=("x", "y"), lower=(0.0, 0.0), upper=(1.0, 2.0))
SEVEN = Fraction(7)


def settings(algorithm: AnyAlgorithm = FASTLLOYD, **others: Any) -> Settings[AnyAlgorithm]:
    said: dict[str, Any] = {
        "n_clusters": 3,
        "n_records": 1000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
    } | others
    return Settings(algorithm=algorithm, domain=BOX, **said)


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.name)
def test_a_mechanism_has_the_fields_and_the_budget_of_its_settings(algorithm: AnyAlgorithm) -> None:
    asked = settings(algorithm, estimate_loss=True)
    m = design(asked)
    assert m.name == algorithm.name
    assert {name: getattr(m, name) for name in asked.fields} == asked.fields
    spent = (
        m.accountant().pure_epsilon + m.accountant().mu_squared if m.noise is not Noise.NONE else 0
    )
    assert spent <= asked.budget


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"n_clusters": 0}, PlanError, "n_clusters is 0; expected 1 to 1000"),
        ({"epsilon": math.nan}, BudgetError, "epsilon is nan"),
        ({"delta": 1.0}, BudgetError, "delta is 1.0"),
        ({"n_expected": 0}, PlanError, "n_expected is 0"),
        ({"n_iterations": 1001}, PlanError, "n_iterations is 1001; expected 1 to 1000"),
        ({"estimate_loss": True, "loss_share": 1.0}, BudgetError, "loss_share is 1.0"),
        ({"loss_share": 0.1}, PlanError, "ask for the estimate too"),
        ({"algorithm": FASTLLOYD.varied(alpha=5)}, PlanError, "alpha is 5"),
        (
            {"algorithm": MOMENTLLOYD, "n_iterations": 3},
            PlanError,
            "n_iterations has no effect: momentlloyd chooses its own settings",
        ),
        (
            {"algorithm": MOMENTLLOYD, "min_count": Fraction(1)},
            PlanError,
            "min_count has no effect",
        ),
    ],
)
def test_what_is_out_of_range_or_of_no_use_is_refused_by_its_name(
    wrong: dict[str, Any], error: type, says: str
) -> None:
    with pytest.raises(error, match=says):
        settings(**wrong)


def test_integers_of_numpy_become_those_of_python() -> None:
    asked = settings(
        n_clusters=np.int8(3),
        n_records=np.int16(1000),
        n_expected=np.int32(900),
        n_iterations=np.uint8(4),
    )
    numbers = asked.n_clusters, asked.n_records, asked.n_expected, asked.n_iterations
    assert [type(number) for number in numbers] == [int] * 4


def test_the_preset_decides_what_is_left_open_and_nothing_else() -> None:
    paper = preset("paper")
    open_, said = (
        settings(preset=paper),
        settings(preset=paper, initialization=RadiusSearch.BISECTION, delta=1e-6, min_count=SEVEN),
    )
    chosen, named = design(open_), design(said)
    assert isinstance(chosen, LloydMechanism)
    assert isinstance(named, LloydMechanism)
    assert (chosen.initialization, chosen.min_count, chosen.delta) == (
        RadiusSearch.HALVING,
        Fraction(0),
        1 / (1000 * math.log(1000)),
    )
    assert (named.initialization, named.min_count, named.delta) == (
        RadiusSearch.BISECTION,
        SEVEN,
        1e-6,
    )


def test_delta_is_of_gaussian_noise_only() -> None:
    assert settings().whole_delta == 1e-5
    assert [settings(algorithm, delta=0.5).whole_delta for algorithm in (SULLOYD, LLOYD)] == [0, 0]
