"""The estimate of the loss: what it costs, how it is planned, what is refused; and nothing changes
where nobody asks for it.
"""

import functools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_mechanism import reseal

from designs import design_mechanism, design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering import reference
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.radius import squared_radius
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import BudgetError, OverflowRisk, PlanError
from fastlloyd.federation.plan.plan import (
    Client,
    Masks,
    Plan,
    TrustMode,
    loss_estimate_of_run,
    ring_load,
)
from fastlloyd.federation.plan.quorum import MIN_SHARE_DEVIATION, aliasing_slack
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.loss import planned_share
from fastlloyd.mechanisms.mechanism import MAX_LOSS_CAP, Mechanism
from fastlloyd.mechanisms.private_run import MAX_RECORDS
from fastlloyd.mechanisms.rounds import LossRound, draw
from fastlloyd.mechanisms.uncertainty import loss_estimate
from fastlloyd.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")

PRIVATE = pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda a: a.name)
RELATION = pytest.mark.parametrize("relation", NeighboringRelation, ids=lambda r: r.value)
TRUST = pytest.mark.parametrize("trust", TrustMode)
CLIENTS = tuple(Client(name=name, max_records=300) for name in "abc")


def square(q: int = 16) -> Domain:
    return Domain(features=("x", "y"), lower=(0.0, 0.0), upper=(1.0, 1.0), fraction_bits=q)


@functools.cache
def design(algorithm: Algorithm = FASTLLOYD, *, q: int = 16, **settings: Any) -> LloydMechanism:
    chosen: dict[str, Any] = {
        "n_clusters": 3,
        "n_records": 1000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(0),
    }
    return design_mechanism(algorithm, square(q), **(chosen | settings))


@functools.cache
def plan(trust: TrustMode = TrustMode.CLIENT_NOISE, **settings: Any) -> Plan:
    chosen: dict[str, Any] = {
        "n_clusters": 3,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(0),
        "estimate_loss": True,
    }
    return design_plan(
        FASTLLOYD, square(), clients=CLIENTS, run_id=bytes(16), trust=trust, **(chosen | settings)
    )


def loss_of(m: Mechanism) -> LossRound:
    assert m.loss is not None
    return m.loss


def cost_of_loss(m: LloydMechanism) -> Fraction:
    """By the formulas of the proofs: mu^2, or epsilon with geometric noise; the same for both
    neighbouring relations.
    """
    loss = loss_of(m)
    return loss.cap / loss.scale if m.noise is Noise.LAPLACE else (loss.cap / loss.scale) ** 2


# Without it


def test_where_nobody_asks_for_the_loss_every_file_and_scale_is_as_if_there_were_none() -> None:
    for algorithm in (FASTLLOYD, GLLOYD, SULLOYD, LLOYD):
        m = design(algorithm)
        assert m.all_rounds == m.rounds
        assert m.loss_share == 0
        assert "loss" not in m.to_toml()


# The cost


@PRIVATE
@RELATION
@pytest.mark.parametrize("share", [None, 0.001, Fraction(1, 3), 0.9])
def test_rounds_and_loss_together_spend_the_budget_and_never_more(
    algorithm: Algorithm, relation: NeighboringRelation, share: float | Fraction | None
) -> None:
    m = design(
        algorithm,
        neighboring_relation=relation,
        estimate_loss=True,
        loss_share=share,
        n_iterations=3,
    )
    accountant, loss = m.accountant(), cost_of_loss(m)
    laplace = algorithm.noise is Noise.LAPLACE
    spent = accountant.pure_epsilon if laplace else accountant.mu_squared
    whole = Fraction(m.epsilon) if laplace else Fraction(gdp_mu(m.epsilon, m.delta)) ** 2
    assert 0.9999 * whole < spent <= whole
    wanted = (
        planned_share(algorithm.noise, 1000, epsilon=1.0, mu=gdp_mu(1.0, 1e-5))
        if share is None
        else Fraction(share)
    )
    assert loss <= wanted * whole
    assert float(loss / whole) == pytest.approx(float(wanted), rel=1e-4)
    assert m.loss_share == loss / spent
    # the rest is what the same rounds cost with that part of the budget
    alone = msgspec.structs.replace(m, loss=None).accountant()
    assert loss + alone.pure_epsilon + alone.mu_squared == spent
    # second route: integration, which knows nothing of shares
    assert accountant.get_delta(m.epsilon) <= (m.delta if not laplace else 0) * (1 + 1e-9)


@PRIVATE
@RELATION
def test_a_thousandth_less_of_noise_on_the_loss_and_the_guarantee_is_refused(
    algorithm: Algorithm, relation: NeighboringRelation
) -> None:
    m = design(algorithm, neighboring_relation=relation, estimate_loss=True, loss_share=0.5)
    loss = loss_of(m)
    less = msgspec.structs.replace(loss, scale=loss.scale * Fraction(999, 1000))
    with pytest.raises(PlanError, match="not give epsilon"):
        msgspec.structs.replace(m, loss=less)
    with pytest.raises(PlanError, match="has no noise"):
        msgspec.structs.replace(m, loss=msgspec.structs.replace(loss, scale=Fraction(0)))


def _larger_cap(content: dict[str, Any]) -> None:
    content["loss"]["cap"] += content["loss"]["cap"] // 100 + 1


def _less_noise(content: dict[str, Any]) -> None:
    content["loss"]["scale"] = str(Fraction(content["loss"]["scale"]) * Fraction(99, 100))


def _loss_for_free(content: dict[str, Any]) -> None:
    content["loss"] = {"scale": "1", "cap": 1000, "shift": 3}


@pytest.mark.parametrize("change", [_larger_cap, _less_noise, _loss_for_free])
def test_a_file_whose_loss_costs_more_than_is_left_of_the_budget_is_refused(
    change: Callable[[dict[str, Any]], None],
) -> None:
    m = design(estimate_loss=change is not _loss_for_free)
    assert LloydMechanism.from_toml(m.to_toml()) == m
    with pytest.raises(PlanError, match="not give epsilon"):
        LloydMechanism.from_toml(reseal(m.to_toml(), change))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"cap": 0}, "cap of the loss is 0; expected 1 to"),
        ({"cap": -5}, "cap of the loss is -5"),
        ({"cap": MAX_LOSS_CAP + 1}, "cap of the loss is"),
        ({"shift": -1}, "shift of the loss is -1"),
        ({"shift": 53}, "shift of the loss is 53"),
        ({"shift": 2**62}, "shift of the loss is"),  # never carried out
        ({"cap": MAX_LOSS_CAP, "shift": 33}, "shift of the loss is 33, with a cap of"),
    ],
)
def test_a_loss_out_of_range_is_refused_by_name(changes: dict[str, int], match: str) -> None:
    m = design(estimate_loss=True)
    with pytest.raises(PlanError, match=match):
        LloydMechanism.from_toml(
            reseal(m.to_toml(), lambda content: content["loss"].update(changes))
        )


def test_the_largest_loss_of_the_most_records_is_far_from_the_end_of_int64() -> None:
    assert MAX_RECORDS * MAX_LOSS_CAP < 2**62


# The choices


@given(
    n_expected=st.integers(1, 10**9),
    epsilon=st.floats(0.01, 20),
    algorithm=st.sampled_from([FASTLLOYD, GLLOYD, SULLOYD]),
)
def test_the_share_is_the_least_that_keeps_the_noise_below_two_percent_of_a_typical_loss(
    n_expected: int, epsilon: float, algorithm: Algorithm
) -> None:
    mu = gdp_mu(epsilon, 1e-6)
    share = float(planned_share(algorithm.noise, n_expected, epsilon=epsilon, mu=mu))
    assert 0.01 <= share <= 0.2
    assert round(1000 * share) == pytest.approx(1000 * share)

    def noise(share: float) -> float:
        """Standard deviation in caps."""
        return (
            math.sqrt(2) / (share * epsilon)
            if algorithm is SULLOYD
            else 1 / (mu * math.sqrt(share))
        )

    tolerated = 0.02 * n_expected / 4 * (1 + 1e-9)
    assert noise(share) <= tolerated or share == 0.2
    assert share == 0.01 or noise(share - 0.001) > tolerated / (1 + 1e-6)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, math.nan, math.inf, Fraction(1), Fraction(0)])
def test_a_share_that_is_none_is_refused(share: float | Fraction) -> None:
    with pytest.raises(BudgetError, match=r"loss_share is.*share"):
        design_mechanism(
            FASTLLOYD, square(), n_clusters=3, n_records=100, epsilon=1.0, public_seed=PublicSeed.from_int(0),
            estimate_loss=True, loss_share=share,
        )  # fmt: skip


def test_a_share_without_an_estimate_is_refused() -> None:
    with pytest.raises(PlanError, match=r"loss_share.*effect"):
        design(loss_share=0.1)


def test_a_share_that_leaves_too_little_is_refused() -> None:
    for share in (1e-300, 1 - 2**-53):
        with pytest.raises(OverflowRisk, match=r"above 2\^44.*another loss_share"):
            design(estimate_loss=True, loss_share=share)


def test_a_thousand_rounds_leave_no_number_for_the_loss() -> None:
    with pytest.raises(PlanError, match=r"1000 rounds.*loss"):
        design(estimate_loss=True, n_iterations=1000, epsilon=5.0)


def test_the_iterations_are_planned_with_what_the_loss_leaves() -> None:
    T = [
        len(design(estimate_loss=share > 0, loss_share=share or None, n_expected=700).rounds)
        for share in (0, 0.5, 0.9)
    ]
    assert sorted(T, reverse=True) == T
    assert T[0] > T[-1]


@PRIVATE
@pytest.mark.parametrize("q", [1, 4, 16, 24])
def test_the_cap_is_the_squared_radius_in_units_that_fit_a_ring_that_holds_the_sums(
    algorithm: Algorithm, q: int
) -> None:
    m = design(algorithm, q=q, estimate_loss=True, n_clusters=2)
    loss, H2 = loss_of(m), squared_radius(m.domain, 2, m.algorithm.alpha)
    assert loss.squared_cap <= H2 < loss.squared_cap + 2**loss.shift
    largest = min(MAX_LOSS_CAP, max(m.parts(r)[0].bound for r in m.rounds))
    assert loss.cap <= largest
    assert loss.shift == 0 or H2 >> (loss.shift - 1) > largest


def test_a_radius_beyond_the_domain_caps_nothing() -> None:
    wide = msgspec.structs.replace(GLLOYD, name="wide", alpha=Fraction(4))
    m = design(wide, n_clusters=1, estimate_loss=True)
    assert loss_of(m).squared_cap == 4 * m.domain.squared_half_diagonal


# Shares and rings


def test_the_loss_is_one_more_released_number_with_its_own_share_of_noise() -> None:
    with_loss, without = plan(n_iterations=3), plan(n_iterations=3, estimate_loss=False)
    m = with_loss.clustering
    assert m.n_released == without.mechanism.n_released + 1
    assert m.delta_slack >= aliasing_slack(m.epsilon, m.n_released, with_loss.n_shares)
    (share,) = with_loss.share_scales(loss_of(m), with_loss.n_clients)
    assert share**2 * with_loss.n_shares >= loss_of(m).scale ** 2
    assert share >= MIN_SHARE_DEVIATION
    assert with_loss.n_words(loss_of(m)) == 2
    assert (
        with_loss.n_words(with_loss.mechanism.rounds[0])
        == without.n_words(without.mechanism.rounds[0])
        == 3 * 3 + 1
    )


def test_a_share_of_the_loss_on_a_coarse_grid_is_raised_to_four_units() -> None:
    # a cap of 1 or 2 units and a large epsilon: the guarantee needs less noise than shares can
    # carry
    of = design_plan(
        FASTLLOYD, square(1), clients=CLIENTS, run_id=bytes(16), n_clusters=2, epsilon=8.0,
        public_seed=PublicSeed.from_int(0), estimate_loss=True, loss_share=0.5,
    )  # fmt: skip
    loss = loss_of(of.clustering)
    assert loss.scale / 2 < MIN_SHARE_DEVIATION
    assert of.share_scales(loss, of.n_clients) == (Fraction(MIN_SHARE_DEVIATION),)


@TRUST
def test_a_ring_holds_the_loss_or_is_refused(trust: TrustMode) -> None:
    load = ring_load(plan(trust))
    loss = loss_of(plan(trust).clustering)
    assert load.loss.bound == loss.cap
    assert load.loss.scale == plan(trust).total_scales(loss)[0]
    # the worst sum of the loss, in units of the ring, is below half of it with room for the noise
    assert (
        (900 * loss.cap + load.noise_reach(load.loss.scale)).bit_length() < load.required_bits <= 64
    )
    # hardly any budget for the loss: its noise alone does not fit 32 bits, and the plan says so
    with pytest.raises(OverflowRisk, match="ring_bits is 32"):
        plan(trust, ring_bits=32, loss_share=1e-8)
    assert plan(trust, ring_bits=64, loss_share=1e-8).ring_bits == 64
    assert plan(trust, ring_bits=32).ring_bits == 32


@pytest.mark.parametrize("share", [0.001, 0.05, 0.5])
@pytest.mark.parametrize("cap", [20_000, 300_000, 5_000_000])
@pytest.mark.parametrize("q", [16, 22])
def test_fewer_fractional_bits_that_a_refusal_advises_do_work(
    q: int, cap: int, share: float
) -> None:
    def narrow(q: int) -> Plan:
        return design_plan(
            GLLOYD, square(q), clients=tuple(Client(name=name, max_records=cap) for name in "abc"), run_id=bytes(16),
            n_clusters=5, epsilon=1.0, public_seed=PublicSeed.from_int(0), ring_bits=32, n_iterations=3,
            estimate_loss=True, loss_share=share,
        )  # fmt: skip

    with pytest.raises(OverflowRisk, match=r"use [0-9]+ fractional") as refusal:
        narrow(q)
    advised = re.search("use ([0-9]+) fractional bits", str(refusal.value))
    assert advised is not None
    assert narrow(int(advised[1])).ring_bits == 32


def test_a_plan_with_a_tampered_loss_is_refused() -> None:
    of = plan()
    assert Plan.from_toml(of.to_toml()) == of
    with pytest.raises(PlanError, match="not give epsilon"):
        Plan.from_toml(reseal(of.to_toml(), lambda content: _less_noise(content["mechanism"])))


# The noise


class Recorder:
    """Remembers what was asked for."""

    private = False

    def __init__(self) -> None:
        self.asked: list[tuple[str, Fraction, int]] = []

    def gaussian(self, scale: Fraction, size: int) -> Any:
        self.asked.append(("gaussian", scale, size))
        return np.arange(size)

    def two_sided_geometric(self, scale: Fraction, size: int) -> Any:
        self.asked.append(("laplace", scale, size))
        return np.arange(size)


@PRIVATE
def test_the_noise_of_the_loss_is_one_draw_of_its_law_and_scale(algorithm: Algorithm) -> None:
    m, recorder = design(algorithm, estimate_loss=True), Recorder()
    assert m.draw_noise(loss_of(m), recorder).tolist() == [[0]]
    assert recorder.asked == [(algorithm.noise.value, loss_of(m).scale, 1)]


def test_noise_of_several_parts_is_drawn_part_by_part() -> None:
    recorder = Recorder()
    noise = draw(Noise.GAUSSIAN, 2, [(3, Fraction(7)), (1, Fraction(5))], recorder)
    assert noise.tolist() == [[0, 1, 2, 0], [3, 4, 5, 1]]
    assert recorder.asked == [("gaussian", Fraction(7), 6), ("gaussian", Fraction(5), 2)]


@TRUST
def test_clients_and_server_draw_the_noise_of_the_loss_once(trust: TrustMode) -> None:
    of = plan(trust)
    loss = loss_of(of.clustering)
    client, server = Recorder(), Recorder()
    assert (
        of.draw_client_noise(loss, client, of.n_clients).shape
        == of.draw_server_noise(loss, server).shape
        == (1, 1)
    )
    asked = (client.asked, server.asked)
    if trust is TrustMode.SERVER_NOISE:
        assert asked == ([], [("gaussian", loss.scale, 1)])
    else:
        assert asked == ([("gaussian", of.share_scales(loss, of.n_clients)[0], 1)], [])


# The estimate


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD, LLOYD], ids=lambda a: a.name)
def test_the_estimate_is_unbiased_and_its_standard_error_is_true(algorithm: Algorithm) -> None:
    """600 runs with seeded noise, so the same every time: the mean to 4.5 errors, the spread to 13
    %.
    """
    m = design(algorithm, estimate_loss=True, n_iterations=2, loss_share=0.3)
    X = m.domain.to_grid(np.random.default_rng(0).random((200, 2)))
    loss, unit = loss_of(m), 4.0**-16
    errors, stated = [], set()
    for seed in range(600 if algorithm is not LLOYD else 1):
        clustering = central.cluster(m, LocalRecords(m.domain, X), SeededNoise(seed))
        estimate = loss_estimate(m, clustering)
        assert estimate is not None
        stated.add(estimate.standard_error)
        exact = (
            reference.clipped_loss(X, clustering.centroids, loss.squared_cap, loss.shift)
            * 2**loss.shift
            * unit
        )
        plain = (
            np.minimum(
                ((X[:, None] - clustering.centroids) ** 2).sum(axis=2).min(axis=1), loss.squared_cap
            ).sum()
            * unit
        )
        assert abs(exact - plain) <= len(X) * 2.0 ** (loss.shift - 1) * unit
        errors.append(estimate.value - exact)
    (standard_error,) = stated
    if algorithm is LLOYD:
        assert standard_error == 0 == errors[0]
        return
    z = np.array(errors) / standard_error
    assert abs(z.mean()) < 4.5 / math.sqrt(len(z))
    assert z.std() == pytest.approx(1, abs=0.13)


@pytest.mark.parametrize("masks", Masks)
@pytest.mark.parametrize("n_included", [2, 3])
def test_the_standard_error_of_a_run_is_that_of_the_shares_in_it(
    n_included: int, masks: Masks
) -> None:
    of = plan(max_dropouts=1, masks=masks)
    loss = loss_of(of.clustering)
    m = of.clustering
    clustering = central.cluster(
        m, LocalRecords(m.domain, m.domain.to_grid([[0.5, 0.5]])), SeededNoise(1)
    )
    estimate = loss_estimate_of_run(of, clustering, n_included)
    assert estimate is not None
    noise = SeededNoise(2)
    drawn = [
        sum(int(of.draw_client_noise(loss, noise, n_included)[0, 0]) for _ in range(n_included))
        for _ in range(2000)
    ]
    assert np.std(drawn) * 2.0**loss.shift / 4**16 == pytest.approx(
        estimate.standard_error, rel=0.08
    )  # 5 errors, seeded
    served = plan(TrustMode.SERVER_NOISE)
    assert loss_estimate_of_run(served, clustering, n_included) == loss_estimate(
        served.clustering, clustering
    )


def test_without_the_loss_there_is_no_estimate() -> None:
    m = design()
    assert (
        loss_estimate(
            m,
            central.cluster(
                m, LocalRecords(m.domain, m.domain.to_grid([[0.5, 0.5]])), SeededNoise(1)
            ),
        )
        is None
    )
