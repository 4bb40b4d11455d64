"""scikit-learn's own checks of estimators: all pass but for noise, and which ones noise may fail is
said.
"""

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import (
    check_clustering,
    check_estimator,
    check_fit_idempotent,
    check_methods_sample_order_invariance,
    check_methods_subset_invariance,
    estimator_checks_generator,
)

from fastlloyd import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd
from fastlloyd.dp.noise import SystemNoise
from fastlloyd.testing import UNREPEATABLE_CHECKS, SeededNoise, expected_failed_checks

ESTIMATORS = [MomentLloyd, FastLloyd, GLloyd, SuLloyd, Lloyd]
# Most checks need bounds and numbers of records that are theirs; that these leak is tested
# elsewhere.
pytestmark = [
    pytest.mark.usefixtures("repeatable_noise"),
    pytest.mark.filterwarnings("ignore:.*taken from the data:fastlloyd.errors.PrivacyLeakWarning"),
    pytest.mark.filterwarnings(
        "ignore:epsilon is 1e.(10|12|15|22):fastlloyd.errors.WeakGuaranteeWarning"
    ),
]


class Repeatable:
    """Says that its results can be repeated, so that no check is left out."""

    def __sklearn_tags__(self) -> Any:
        # a mixin: the estimator comes after it
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.non_deterministic = False
        return tags


class RepeatableMomentLloyd(Repeatable, MomentLloyd): ...


class RepeatableFastLloyd(Repeatable, FastLloyd): ...


class RepeatableGLloyd(Repeatable, GLloyd): ...


class RepeatableSuLloyd(Repeatable, SuLloyd): ...


REPEATABLE = [
    RepeatableMomentLloyd,
    RepeatableFastLloyd,
    RepeatableGLloyd,
    RepeatableSuLloyd,
    Lloyd,
]


class SmallNoise(SystemNoise):
    """Genuine noise that rounds to zero: a scale below 1/50 gives any other value with probability
    below 1e-21.

    2 Phi(-25) < 1e-136 for the Gaussian, 2 exp(-50) < 1e-21 for the two-sided geometric; fewer than
    1e6 values are drawn.
    """

    def gaussian(self, scale: Fraction, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        assert scale < Fraction(1, 50)
        return super().gaussian(scale, size)

    def two_sided_geometric(
        self, scale: Fraction, size: int
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        assert scale < Fraction(1, 50)
        return super().two_sided_geometric(scale, size)


@pytest.mark.parametrize(
    ("kind", "epsilon"),
    [
        *((kind, 1e15) for kind in REPEATABLE if kind is not RepeatableMomentLloyd),
        (
            RepeatableMomentLloyd,
            1e22,
        ),  # it counts in units of which 2^26 are a radius squared, whatever the grid
    ],
)
def test_every_check_passes_where_the_noise_rounds_to_zero(
    kind: type[FastLloyd], epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", SmallNoise)
    every_check_passes(kind(epsilon=epsilon, delta=1e-6, fraction_bits=16))


def every_check_passes(estimator: FastLloyd) -> None:
    results = check_estimator(estimator, expected_failed_checks={}, on_skip=None)
    outcome = {result["check_name"]: result["status"] for result in results}
    assert outcome.pop("check_array_api_input", "skipped") in (
        "passed",
        "skipped",
    )  # runs only where SCIPY_ARRAY_API is set
    assert set(outcome.values()) == {"passed"}
    assert {
        "check_methods_subset_invariance",
        "check_pipeline_consistency",
        "check_transformer_general",
    } < outcome.keys()


class WithinReach:
    """Any value that genuine noise takes but with probability 2 Phi(-8.5) < 2e-17; in half of the
    arrays only the farthest.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def gaussian(self, scale: Fraction, size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        reach = math.floor(
            8.5 * scale + 0.5
        )  # |noise| > reach: before rounding it is at least reach + 1/2 > 8.5 scale
        values = [-reach, reach] if self._generator.integers(2) else np.arange(-reach, reach + 1)
        return self._generator.choice(values, size).astype(np.int64)

    def two_sided_geometric(
        self, scale: Fraction, size: int
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        assert scale < Fraction(1, 50)  # another value than 0 has probability below 2 exp(-50)
        return np.zeros(size, dtype=np.int64)


@pytest.fixture
def any_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other noise in every fit, whatever is within reach of genuine noise, and the same in every
    run of this test.
    """
    seeds = itertools.count()
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: WithinReach(next(seeds)))


@pytest.mark.usefixtures("any_noise")
@pytest.mark.parametrize("kind", [kind for kind in REPEATABLE if kind is not RepeatableMomentLloyd])
def test_at_a_huge_epsilon_every_check_passes_whatever_the_noise(kind: type[FastLloyd]) -> None:
    """As shipped. What earlier noise moved is forgotten, and that of the last iteration rounds to
    zero, or moves no centroid.

    MomentLloyd fails `check_pipeline_consistency`, which scikit-learn leaves out for such
    estimators: with such noise nearly always, with genuine noise 2 times of 150.
    """
    for _ in range(2):
        every_check_passes(kind(epsilon=1e12, delta=1e-6))


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other noise in every fit, and the same in every run of this test."""
    seeds = itertools.count()
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(next(seeds)))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_check_that_is_not_for_repeatable_estimators_passes_at_a_huge_epsilon(
    kind: type[FastLloyd],
) -> None:
    """As shipped, with genuine noise. What scikit-learn leaves out for such estimators is run
    above.

    `check_fit_idempotent` alone compares two fits, and passes whatever the noise: see the next.
    """
    results = check_estimator(
        kind(epsilon=1e12, delta=1e-6), expected_failed_checks={}, on_skip=None
    )
    outcome = {result["check_name"]: result["status"] for result in results}
    assert set(outcome.values()) <= {"passed", "skipped"}
    left_out = {name for name, status in outcome.items() if status == "skipped"} - {
        "check_array_api_input"
    }
    repeated = {"check_methods_sample_order_invariance", "check_methods_subset_invariance"}
    assert left_out <= repeated | {
        "check_pipeline_consistency",
        "check_transformer_general",
        "check_transformer_data_not_an_array",
    }
    assert outcome["check_clustering"] == outcome["check_fit_idempotent"] == "passed"


def fits_alike(estimator: FastLloyd, n_pairs: int) -> bool:
    for _ in range(n_pairs):
        try:
            check_fit_idempotent(type(estimator).__name__, estimator)
        except AssertionError:
            return False
    return True


@pytest.mark.usefixtures("any_noise")
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_at_a_huge_epsilon_two_fits_are_alike_whatever_the_noise(kind: type[FastLloyd]) -> None:
    assert fits_alike(kind(epsilon=1e12, delta=1e-6), 20)


@pytest.mark.usefixtures("any_noise")
@pytest.mark.parametrize(
    ("kind", "epsilon"), [(GLloyd, 1e12), (FastLloyd, 1e10), (MomentLloyd, 1e10)]
)
def test_where_noise_moves_centroids_two_fits_differ(kind: type[FastLloyd], epsilon: float) -> None:
    # why GLloyd has a coarser grid; and that the test above can fail
    assert not fits_alike(kind(epsilon=epsilon, delta=1e-6, fraction_bits=16), 20)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_at_epsilon_one_no_check_fails_that_is_not_expected_to(kind: type[FastLloyd]) -> None:
    # With certainty, not just nearly always: none of them compares the numbers of two fits, or
    # judges them.
    results = check_estimator(
        kind(), expected_failed_checks=expected_failed_checks(kind()), on_skip=None
    )
    failed = {result["check_name"] for result in results if result["status"] in ("failed", "xfail")}
    assert failed <= expected_failed_checks(kind()).keys()


@pytest.mark.parametrize("kind", REPEATABLE)
def test_one_fit_answers_alike_in_any_order_and_in_parts(kind: type[FastLloyd]) -> None:
    # scikit-learn leaves these two out for estimators whose fits differ; they hold all the same
    check_methods_sample_order_invariance(kind.__name__, kind())
    check_methods_subset_invariance(kind.__name__, kind())


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("kind", [FastLloyd, GLloyd, SuLloyd])
@pytest.mark.parametrize("check", [check_clustering, check_fit_idempotent])
def test_the_expected_failures_can_fail(
    kind: type[FastLloyd], check: Callable[[str, FastLloyd], None]
) -> None:
    assert check.__name__ in UNREPEATABLE_CHECKS
    estimator = kind(epsilon=0.1, min_count=0)

    def twenty_times() -> None:
        for _ in range(20):
            check(kind.__name__, estimator)

    with pytest.raises(AssertionError):
        twenty_times()


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_only_estimators_with_noise_expect_failures_and_all_of_them_are_checks(
    kind: type[FastLloyd],
) -> None:
    expected = expected_failed_checks(kind())
    assert kind().__sklearn_tags__().non_deterministic is (kind is not Lloyd)
    assert bool(expected) is (kind is not Lloyd)
    names = {check.func.__name__ for _, check in estimator_checks_generator(kind())}
    assert expected.keys() <= names
