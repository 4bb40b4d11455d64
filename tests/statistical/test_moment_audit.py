"""MomentLloyd's shipped path, audited: each trust mode once for every commit, all numbers of
features with `make audit`.
"""

import pytest
from scipy.special import ndtr
from scipy.stats import binom

from bounds import exceedance
from fastlloyd.federation.plan.plan import TrustMode
from federation import starts_cheaply
from moment_auditing import MomentSetting, MomentTrials

N_TRIES = 5
PER_COMMIT, WITH_THE_AUDIT = (
    72,
    400,
)  # at epsilon 12, where an error is rare, fewer runs say as much
SETTINGS = [
    (MomentSetting(trust=TrustMode.CLIENT_NOISE, n_features=5, epsilon=12.0), PER_COMMIT),
    (MomentSetting(trust=TrustMode.SERVER_NOISE, n_features=2, epsilon=12.0), PER_COMMIT),
    *(
        pytest.param(
            MomentSetting(trust=trust, n_features=d, epsilon=8.0),
            WITH_THE_AUDIT,
            marks=pytest.mark.audit,
        )
        for trust in TrustMode
        for d in (2, 5, 40)
    ),
]


@pytest.mark.parametrize(("setting", "n"), SETTINGS)
def test_no_audit_of_momentlloyd_proves_more_than_the_plan_promises_and_every_one_comes_near(
    setting: MomentSetting, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sound path exceeds its epsilon with probability 1 %, five times in a row with 1e-10; see
    `bounds.py`.

    The corner canary costs nearly the whole budget: what it attains is looked at, not only what the
    errors prove. A path whose noise is half as large as planned is missed with probability below
    1e-3. For every commit the starts are cheap: they are made of noisy answers and public draws
    alone, and the canary costs the same wherever they lie.
    """
    if n == PER_COMMIT:
        starts_cheaply(monkeypatch)
    trials = MomentTrials.observe(setting, n)
    assert 0.9 * setting.mu < trials.attained_mu <= setting.mu * (1 + 1e-9)
    # a sound path makes more errors with probability 1e-11: 53 of 144 at epsilon 12
    assert trials.false_alarms + trials.misses <= binom.isf(
        1e-11, 2 * n, ndtr(-trials.attained_mu / 2)
    )
    found = trials.audit
    for _ in range(N_TRIES - 1):
        if found.epsilon <= setting.epsilon:
            break
        found = MomentTrials.observe(setting, n).audit
    assert found.epsilon <= setting.epsilon
    assert 1 - exceedance(2 * trials.attained_mu, setting.mu, n) ** N_TRIES < 1e-3
