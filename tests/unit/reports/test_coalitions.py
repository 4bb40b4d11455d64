"""With pairwise masks the server and up to t clients together learn what the plan says: the table,
by a second route.
"""

import math
from itertools import product
from typing import Any

import pytest

from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.gdp import gdp_delta, gdp_epsilon
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.federation.plan.quorum import aliasing_slack
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.reports import agreement
from fastlloyd.reports.coalitions import coalitions, holds_against
from fastlloyd.reports.explain import explain
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.plan_facts import attendance, noise_factor, plan_cautions, trust, waiting
from fastlloyd.reports.statement import plan_statement

BOX = Domain(features=("x", "y"), lower=(-1.0, -1.0), upper=(1.0, 1.0))
SHAPES = [
    (M, D, t) for M in (2, 3, 4, 5, 7, 10, 14) for D in range(4) for t in (1, 2, 3, 6) if t < M - D
]


def plan(M: int = 10, D: int = 0, t: int = 1, **changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "n_clusters": 2,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(3),
        "n_records": 10_000,
    }
    clients = tuple(Client(name=f"c{i}", max_records=10_000 // M) for i in range(M))
    federation = {
        "max_dropouts": D,
        "max_colluding": t,
        "masks": Masks.PAIRWISE,
        "run_id": bytes(16),
    }
    return design_plan(FASTLLOYD, BOX, clients=clients, **(settings | federation | changes))


def epsilons(of: Plan) -> list[float | None]:
    """By the size of the coalition, from the server without clients to all clients but one."""
    return [epsilon for _, epsilon in coalitions(of)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_table_has_the_largest_epsilon_of_all_sets_of_clients_that_may_be_there(
    shape: tuple[int, int, int],
) -> None:
    """By the noise itself: of every key set and coalition, mu from the shares that are drawn and
    not known.
    """
    (M, D, t), of = shape, plan(*shape)
    m, rows = of.mechanism, epsilons(of)
    assert len(rows) == M
    mu = math.sqrt(m.accountant().mu_squared)
    share, needed = (
        {n: of.share_scales(m.rounds[0], n)[0] for n in range(M - D, M + 1)},
        m.rounds[0].scales[0],
    )
    for s in range(M):
        if s >= M - D:
            assert rows[s] is None
            continue
        worst = max(mu * float(needed / share[n]) / math.sqrt(n - s) for n in range(M - D, M + 1))
        assert rows[s] == pytest.approx(gdp_epsilon(worst, m.delta), rel=1e-4)
    claimed = rows[t]
    assert claimed is not None
    assert m.epsilon * (1 - 1e-6) <= claimed <= m.epsilon
    protected = [epsilon for epsilon in rows if epsilon is not None]
    assert protected == sorted(set(protected))


@pytest.mark.parametrize("shape", [(10, 3, 3), (14, 2, 1)])
def test_a_statement_after_a_run_has_the_shares_of_its_key_set_and_every_epsilon_of_before(
    shape: tuple[int, int, int],
) -> None:
    """No epsilon depends on who is said to have been there, which no seal covers."""
    (M, D, t), of = shape, plan(*shape)
    for n in range(M - D, M + 1):
        statement = plan_statement(of, n)["federated"]
        assert (statement["n_included"], statement["shares_needed"]) == (n, n - t)
        assert [row["epsilon"] for row in statement["coalitions"]] == epsilons(of)
        expected = [
            [str(scale) for scale in of.share_scales(round, n)] for round in of.mechanism.all_rounds
        ]
        assert statement["share_scales"] == expected
    assert plan_statement(of)["federated"]["n_included"] is None


def test_the_smallest_set_of_clients_is_not_the_worst() -> None:
    """M 10, D 3, t 3: the server without clients has .825 at worst, not the .740 of the smallest
    set, which is that of a plan of seven.
    """
    of = plan(10, 3, 3, delta=1e-6)
    assert epsilons(of)[0] == pytest.approx(0.825, abs=1e-3)
    assert epsilons(plan(7, 0, 3, delta=1e-6))[0] == pytest.approx(0.740, abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 25.0])
def test_every_stated_epsilon_holds_with_the_slack_of_that_epsilon_for_every_set(
    epsilon: float,
) -> None:
    of = plan(10, 3, 2, epsilon=epsilon, n_iterations=2)
    m = of.mechanism
    mu_squared = m.accountant().mu_squared
    for s, n in product(range(7), range(7, 11)):
        stated = epsilons(of)[s]
        assert stated is not None
        h, left = n - 2, n - s
        added_up = gdp_delta(
            math.sqrt(mu_squared * h / left) * (1 - 1e-15), stated
        ) + aliasing_slack(stated, m.n_released, left)
        one_alone = gdp_delta(math.sqrt(mu_squared * h) * (1 - 1e-15), stated)
        assert min(added_up, one_alone) <= m.delta * (1 + 1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_slack_of_the_plan_is_enough_for_every_set_of_clients_because_it_grows_with_the_shares(
    shape: tuple[int, int, int],
) -> None:
    of, (M, D, t) = plan(*shape), shape
    m = of.mechanism
    slacks = [aliasing_slack(m.epsilon, m.n_released, n - t) for n in range(M - D, M + 1)]
    assert slacks == sorted(slacks)
    assert slacks[-1] <= m.delta_slack


def test_noise_is_what_the_design_says_and_without_dropouts_that_of_group_masks() -> None:
    of, group = plan(10, 3, 1), plan(10, 3, 1, masks=Masks.GROUP)
    assert noise_factor(of) == pytest.approx(math.sqrt(10 / 9))
    assert noise_factor(of, 7) == pytest.approx(math.sqrt(7 / 6))
    assert noise_factor(group) == pytest.approx(math.sqrt(10 / 6))
    assert noise_factor(plan(10)) == noise_factor(plan(10, masks=Masks.GROUP))
    assert f"{noise_factor(of):.3f} times" in explain(of)
    assert f"{noise_factor(of, 7):.3f} times" in explain(of)


# In words


@pytest.mark.parametrize("t", [1, 3])
def test_the_server_with_up_to_t_clients_is_named_and_no_other_row_about_it_with_clients_is_left(
    t: int,
) -> None:
    of = plan(10, 3, t)
    text, who = explain(of), [fact.name for fact, _ in coalitions(of)]
    assert holds_against(of) == Fact.of("against_both", n=t)
    assert sentence(holds_against(of)) == plan_statement(of)["federated"]["holds_against"]
    assert "epsilon = 1" in text
    assert who[0] == "server"
    assert set(who[1:]) == {"clients_and_server"}


@pytest.mark.parametrize(("t", "others"), [(1, None), (2, 1), (4, 3)])
def test_who_hosts_the_server_is_one_of_those_who_may_pool(t: int, others: int | None) -> None:
    of = plan(6, t=t, host="c2")
    against = holds_against(of)
    assert against.values.get("n") == others
    assert "'c2'" in sentence(against)
    assert sentence(against) in explain(of)
    assert plan_statement(of)["federated"]["host"] == "c2"
    hosted, apart = coalitions(of), coalitions(plan(6, t=t))
    assert [epsilon for _, epsilon in hosted] == [epsilon for _, epsilon in apart]
    # no epsilon of 0 clients for a server that one client runs
    assert hosted[0][0].name == "readers_of_results"
    assert {(who.name, who.values["host"]) for who, _ in hosted[1:]} == {("clients_and_host", "c2")}


def test_in_server_noise_nothing_is_promised_of_the_server_with_a_client_and_no_figure_is_given() -> (
    None
):
    of = plan(5, trust=TrustMode.SERVER_NOISE)
    assert coalitions(of)[-1][1] is None
    assert "server_with_a_client" in [fact.name for fact in trust(of)]


def test_who_may_be_missing_and_how_long_a_run_waits() -> None:
    assert attendance(plan(10)) == Fact.of("all_must_join", n=10)
    assert attendance(plan(10, 3)) == Fact.of("may_miss_the_keys", n=3)
    assert attendance(plan(10, 3, masks=Masks.GROUP)) == Fact.of("may_miss_a_round", n=3)
    assert "24 hours" in sentence(waiting(plan(10)))
    assert "600 s for the uploads" in sentence(waiting(plan(10, masks=Masks.GROUP)))


def test_half_the_clients_lead_to_two_results_but_pairwise_each_record_pays_once() -> None:
    told: list[Any] = plan_cautions(plan(10, 5))
    [(caution, price, _)] = told
    assert (caution.name, price.name) == ("two_results", "two_results_of_records")
    told = list(plan_cautions(plan(10, 5, masks=Masks.GROUP)))
    [(_, price, _)] = told
    assert price.name == "two_results_of_shares"


# Simulations


@pytest.mark.parametrize(
    "federation",
    [
        {"trust": TrustMode.SERVER_NOISE},
        {"masks": Masks.GROUP, "max_dropouts": 1},
        {"masks": Masks.PAIRWISE, "max_dropouts": 1},
        {"n_clients": 2},
    ],
    ids=str,
)
def test_a_simulation_promises_nothing_about_parties_that_do_not_exist(
    federation: dict[str, Any],
) -> None:
    M = federation.get("n_clients", 4)
    of = plan(M, simulated=True, **{n: v for n, v in federation.items() if n != "n_clients"})
    statement = plan_statement(of, M)
    federated, text, page = statement["federated"], explain(of), agreement.page(of)
    assert federated["simulated"] is True
    assert federated["coalitions"] == coalitions(of) == []
    assert federated["holds_against"] == sentence(holds_against(of))
    assert holds_against(of).name == "against_readers"
    assert statement["cautions"] == []
    codes = {fact["code"] for fact in statement["outside_the_guarantee"]}
    assert "dropped_clients" in codes
    assert not codes & {"totals", "dishonest_parties", "attendance"}
    assert "--drop" in text
    against = sentence(holds_against(of))
    for told in (text, " ".join(page.split())):
        assert f"This is a simulation: the guarantee holds against {against}." in told
        for claim in (
            "No party sees",
            "Against them",
            "NEVER SEES",
            "subtract",
            "curious",
        ):
            assert claim not in told


@pytest.mark.parametrize("trust", TrustMode)
def test_a_plan_for_parties_is_no_simulation(trust: TrustMode) -> None:
    said = plan_statement(plan(3, trust=trust))
    assert said["federated"]["simulated"] is False
    assert len(said["federated"]["coalitions"]) > 1
    assert "dropped_clients" not in {fact["code"] for fact in said["outside_the_guarantee"]}
