"""A person of twenty equal rows, attacked on the shipped path: a plan of records gives them away,
one of persons does not.
"""

import pytest

from auditing import HONEST, MANY_CLUSTERS, THIRD, Setting, observe
from bounds import Audit, audits_until_one_holds, exceedance, refute
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.mechanisms.persons import Persons

N = 480
TRUST = pytest.mark.parametrize("trust", TrustMode, ids=lambda trust: trust.value)


def attacked(
    trust: TrustMode, persons: Persons | None, at: tuple[str, ...] = (HONEST,), n_rows: int = 20
) -> Setting:
    return Setting(
        trust=trust,
        n_clusters=MANY_CLUSTERS,
        n_rows=n_rows,
        at=at,
        persons=persons,
        all_present=THIRD in at,
    )


@TRUST
def test_twenty_rows_in_a_plan_of_records_cost_twenty_times_what_it_promises_for_one(
    trust: TrustMode,
) -> None:
    # Theory: mu 4.1, error rates of 2 %, a bound of 14 or so; below 3 with probability 1e-12
    setting = attacked(trust, None)
    observations = observe(setting, N)
    assert 19 * setting.mu < observations.attained_mu <= 20 * setting.mu
    assert Audit.of(observations).epsilon > 3 * setting.epsilon


@TRUST
def test_twenty_rows_in_a_plan_of_persons_cost_what_it_promises_and_no_more(
    trust: TrustMode,
) -> None:
    # A sound path exceeds the claim five times in a row with probability below 1e-9; shares
    # forgotten are always caught
    setting = attacked(trust, Persons())
    observations = observe(setting, N)
    assert 0.97 * setting.mu < observations.attained_mu <= setting.mu
    assert exceedance(setting.mu, setting.mu, N) ** 5 < 1e-9
    assert exceedance(20 * setting.mu, setting.mu, N) > 0.999
    assert not refute(
        audits_until_one_holds(setting, N, observe=observe, first=Audit.of(observations)), setting
    )


def test_a_person_at_more_clients_than_planned_for_costs_so_many_times_more() -> None:
    """And one at as many costs what the plan promises."""
    both = (HONEST, THIRD)
    for c in (1, 2):
        setting = attacked(TrustMode.SERVER_NOISE, Persons(max_clients=c), both, 3)
        attained = observe(setting, MANY_CLUSTERS).attained_mu
        assert 0.97 * setting.mu * 2 / c < attained <= setting.mu * 2 / c


@pytest.mark.audit
@TRUST
@pytest.mark.parametrize("c", [1, 2])
def test_no_audit_proves_more_than_a_plan_of_persons_promises_and_every_one_comes_near(
    trust: TrustMode, c: int
) -> None:
    # As for records in test_audit.py: below 0.38 with probability 4e-10
    setting = attacked(trust, Persons(max_clients=c), (HONEST, THIRD)[:c])
    audit = Audit.of(observe(setting, 12_000))
    assert audit.epsilon >= 0.38
    assert not refute(
        audits_until_one_holds(setting, 12_000, observe=observe, first=audit), setting
    )
