"""The estimate of the loss, audited on the shipped path: what a curious client learns from it alone
about one record.

The canary lies beyond the cap, so it adds exactly the cap to the loss, and nothing to the rounds,
being outside their radius. The attacker knows every other record and its own share of the noise and
says "present" where more than half the cap is left. One run is one trial. See `auditing.py` and
`bounds.py`.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from auditing import CURIOUS, DELTA, HONEST, N_CLUSTERS, Experiment, Setting
from bounds import Audit, exceedance, typical_epsilon
from fastlloyd.dp.gdp import gdp_epsilon
from fastlloyd.federation.plan.plan import TrustMode
from kinds import lloyd_of

TRIES = 5
# For every commit 100 trials per side, where noise that is planned for the whole budget is 2.2
# times too small; with the audit, twice as many, which also find noise that is 1.6 times too small.
AUDITS = pytest.mark.parametrize(
    ("epsilon", "share", "n"),
    [(30.0, 0.2, 100), pytest.param(15.0, 0.35, 200, marks=pytest.mark.audit)],
)
NOBODY = np.zeros(N_CLUSTERS, dtype=np.bool_)
CANARY = np.arange(N_CLUSTERS) == 0


def far_canary(setting: Setting) -> Experiment:
    """An experiment whose canary is the point of the domain farthest from all initial centroids."""
    experiment = Experiment.of(setting)
    B = int(experiment.plan.mechanism.domain.half_widths[0])
    start = lloyd_of(experiment.plan).initial_centroids()[:, 0]
    points = np.arange(-B, B + 1)
    farthest = points[np.abs(points[:, None] - start).min(axis=1).argmax()]
    return replace(experiment, canaries=np.full((N_CLUSTERS, 1), farthest))


def left_over(experiment: Experiment, *, present: bool) -> tuple[int, int]:
    """What is left of the loss when the attacker has subtracted what it knows, and what the canary
    would add.
    """
    run = experiment.play(CANARY if present else NOBODY)
    query, answer = run.rounds[-1]
    known = query.evaluate(
        np.vstack([experiment.records(name, NOBODY) for name in (CURIOUS, HONEST)])
    )
    if experiment.setting.trust is TrustMode.CLIENT_NOISE:
        known = known + run.own_noise[-1]
    return int((answer - known)[0, 0]), int(query.evaluate(experiment.canaries[:1])[0, 0])


def audit(experiment: Experiment, n: int) -> Audit:
    cap = experiment.plan.mechanism.loss.cap  # type: ignore[union-attr]  # the setting asks for it
    without, within = (
        [left_over(experiment, present=present) for _ in range(n)] for present in (False, True)
    )
    assert all(signal == cap for _, signal in without + within)  # the sensitivity is attained
    return Audit(
        n_per_side=n,
        false_alarms=sum(2 * rest > cap for rest, _ in without),
        misses=sum(2 * rest <= cap for rest, _ in within),
    )


@AUDITS
@pytest.mark.parametrize("trust", TrustMode)
def test_the_loss_alone_reveals_no_more_than_its_share_of_the_budget_and_nearly_that(
    trust: TrustMode, epsilon: float, share: float, n: int
) -> None:
    setting = Setting(trust=trust, epsilon=epsilon, n_iterations=1, loss_share=share)
    experiment = far_canary(setting)
    mu = setting.mu * math.sqrt(share)
    promised = gdp_epsilon(mu, DELTA)
    audits: list[Audit] = []
    while not audits or (audits[-1].epsilon > promised and len(audits) < TRIES):
        audits.append(audit(experiment, n))
    # a sound path exceeds what is promised five times in a row with 1e-10, and stays seven
    # deviations below with 1e-11
    assert audits[-1].epsilon <= promised
    assert audits[0].epsilon >= typical_epsilon(mu, n, 7) > 0


@AUDITS
def test_the_audit_would_find_noise_that_is_planned_for_the_whole_budget(
    epsilon: float, share: float, n: int
) -> None:
    mu = Setting(trust=TrustMode.SERVER_NOISE, epsilon=epsilon).mu
    assert exceedance(mu, mu * math.sqrt(share), n) ** TRIES > 0.9999
