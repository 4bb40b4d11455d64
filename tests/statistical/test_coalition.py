"""A server and t clients pool all they hold and attack an honest client: what opens, and what it
says about one record.
"""

import numpy as np
import pytest

from auditing import DELTA, MANY_CLUSTERS
from bounds import audits_until_one_holds, refute
from coalition import Attack, Coalition, observe
from fastlloyd.dp.gdp import gdp_epsilon, gdp_mu
from fastlloyd.federation.plan.plan import Masks, TrustMode

SIZES = [(2, 1), (3, 1), (3, 2), (5, 1), (5, 2), (7, 3)]


@pytest.mark.parametrize("trust", TrustMode)
@pytest.mark.parametrize(("n_clients", "t"), SIZES)
def test_with_group_masks_every_upload_opens_and_with_pairwise_masks_only_the_sum_over_the_honest(
    n_clients: int, t: int, trust: TrustMode
) -> None:
    for masks in Masks:
        colluding = Coalition(
            masks=masks, n_clients=n_clients, max_colluding=t, n_clusters=4, trust=trust
        )
        pool, view, _ = Attack.of(colluding).play(np.array([True, False, True, False]))
        for number in range(1, len(view) + 1):
            opened = pool.opened(number)
            if masks is Masks.GROUP:
                assert all((name,) in opened for name in pool.honest)
                assert len(opened) == 2 ** len(pool.honest) - 1
            else:
                assert [*opened] == [pool.honest]


@pytest.mark.parametrize("masks", Masks)
def test_in_server_noise_what_the_coalition_pools_is_the_exact_sum_over_the_honest(
    masks: Masks,
) -> None:
    """As plan and statement say: no number holds against it, whichever masks."""
    colluding = Coalition(masks=masks, n_clients=4, n_clusters=4, trust=TrustMode.SERVER_NOISE)
    pool, view, X = Attack.of(colluding).play(np.array([True, True, False, False]))
    for number, (query, _) in enumerate(view, 1):
        exact = np.sum([query.evaluate(X[name]) for name in pool.honest], axis=0)
        assert np.array_equal(pool.opened(number)[pool.honest], exact)


# Audited as docs/results/audit-coalitions.md has it at full size: 480 trials per side, M = 10, D =
# 0, t = 1, epsilon 1; with three times as many clusters, and so a third of the runs. A sound path
# exceeds 1 five times in a row with a probability of 1e-10. What one share protects is told from it
# with a power of 99.7 %: mu is three times as large.


def test_with_pairwise_masks_no_audit_of_the_coalition_proves_more_than_the_plan_promises() -> None:
    colluding = Coalition(masks=Masks.PAIRWISE, n_clients=10, n_clusters=MANY_CLUSTERS)
    assert not refute(audits_until_one_holds(colluding, 480, observe=observe), colluding)


def test_the_same_audit_refutes_group_masks_and_what_it_finds_fits_what_the_plan_says_of_one_share() -> (
    None
):
    colluding = Coalition(masks=Masks.GROUP, n_clients=10, n_clusters=MANY_CLUSTERS)
    audits = audits_until_one_holds(colluding, 480, observe=observe)
    assert refute(audits, colluding)
    assert max(audit.epsilon for audit in audits) < gdp_epsilon(3 * gdp_mu(1.0, DELTA), DELTA) + 1.5
