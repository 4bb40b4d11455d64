"""Every mutant is caught: the check that the genuine code passes fails on it.

Genuine code fails a check with probability below 1e-9, and so is a mutant missed, where noise
decides. The pairs of the check of sensitivities are the same in every run: for them the power says
what other pairs would find.
"""

import numpy as np
import pytest

import checks
from auditing import MANY_CLUSTERS, Setting, observe
from checks import EPSILON, Check
from fastlloyd.federation.plan.plan import TrustMode
from mutants import ATTAINED, MUTANTS, Mutant

EVERY_MUTANT = pytest.mark.parametrize("mutant", MUTANTS, ids=str)


@pytest.mark.parametrize(
    "check", {mutant.check: None for mutant in MUTANTS}, ids=lambda check: check.name
)
def test_the_genuine_code_passes_every_check_with_the_most_that_a_mutant_gets(check: Check) -> None:
    genuine = check(max(mutant.n for mutant in MUTANTS if mutant.check is check))
    assert genuine.holds, genuine.evidence


@EVERY_MUTANT
def test_the_check_catches_the_mutant(mutant: Mutant) -> None:
    with mutant.applied():
        verdict = mutant.check(mutant.n)
    assert not verdict.holds, verdict.evidence


@EVERY_MUTANT
def test_the_check_would_miss_the_mutant_once_in_a_billion_times_at_most_or_never_by_chance(
    mutant: Mutant,
) -> None:
    is_drawn_anew = mutant.check is not checks.SENSITIVITY
    assert mutant.power > (1 - 1e-9 if is_drawn_anew else 1 - 1e-5)


@EVERY_MUTANT
def test_planning_itself_refuses_exactly_the_mutants_that_plan_too_little_noise(
    mutant: Mutant,
) -> None:
    assert mutant.is_refused_by_planning() == mutant.guarded


@pytest.mark.parametrize("trust", TrustMode)
@pytest.mark.parametrize("all_present", [False, True])
def test_the_canaries_of_the_mutants_audits_attain_the_sensitivity(
    trust: TrustMode, all_present: bool
) -> None:
    # a canary misses a round when the centroid moves by more than 2.5 deviations: 0.6 % of 800, so
    # the figure is 0.9975 to 0.998 and varies by 0.0005; below 0.99, 27 and more had to miss one:
    # probability below 1e-9
    setting = Setting(
        trust=trust, epsilon=EPSILON, all_present=all_present, n_clusters=MANY_CLUSTERS
    )
    observations = observe(setting, 400)
    assert ATTAINED * setting.mu < observations.attained_mu <= setting.mu
    assert np.array_equal(
        observations.present.sum(axis=0),
        observations.present.shape[0] // 2 * np.ones(MANY_CLUSTERS),
    )
