"""How many clients must answer, and how large shares of noise are, with a key of the group and with
a key of each pair.
"""

from itertools import product
from typing import Any

import msgspec
import numpy as np
import pytest

from designs import design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode, ring_load
from fastlloyd.federation.plan.quorum import MIN_SHARE_DEVIATION
from fastlloyd.federation.plan.versions import PROTOCOL_VERSION
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.testing import SeededNoise

DOMAIN = Domain(features=("x", "y"), lower=(-1.0, -1.0), upper=(1.0, 1.0))
SHAPES = [(M, D, t) for M, D, t in product(range(2, 9), range(6), range(1, 5)) if t < M - D]
SEED = PublicSeed.from_int(3)
KINDS = pytest.mark.parametrize("masks", Masks)


def plan(M: int = 10, D: int = 0, t: int = 1, masks: Masks = Masks.PAIRWISE, **others: Any) -> Plan:
    options = {
        "max_dropouts": D,
        "max_colluding": t,
        "masks": masks,
        "n_clusters": 2,
        "n_records": 1000,
        "epsilon": 1.0,
        "public_seed": SEED,
    }
    clients = tuple(Client(name=f"c{i}", max_records=1000 // M) for i in range(M))
    return design_plan(FASTLLOYD, DOMAIN, clients=clients, run_id=bytes(16), **options | others)


def key_sets(of: Plan) -> range:
    return range(of.min_present, of.n_clients + 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_two_groups_that_each_confirm_a_result_have_an_honest_client_in_common_and_all_together_can_confirm(
    shape: tuple[int, int, int],
) -> None:
    of = plan(*shape)
    for n in key_sets(of):
        honest = n - of.max_colluding
        assert 2 * (of.quorum(n).confirmations - of.max_colluding) > honest
        # of two key sets, in which the honest are in one each
        if 2 * of.max_dropouts < of.n_clients - of.max_colluding:
            least = min(of.quorum(other).confirmations for other in key_sets(of))
            assert (
                of.quorum(n).confirmations + least - 2 * of.max_colluding
                > of.n_clients - of.max_colluding
            )
        assert of.quorum(n).confirmations <= n
        assert of.quorum(n).needed == n
        assert of.quorum(n).max_turns == n - 1


@pytest.mark.parametrize("shape", SHAPES)
@KINDS
def test_without_the_shares_of_those_who_pool_enough_noise_is_left_in_the_smallest_sum(
    shape: tuple[int, int, int], masks: Masks
) -> None:
    of = plan(*shape, masks)
    for round, n in product(of.mechanism.all_rounds, key_sets(of)):
        for share, scale in zip(of.share_scales(round, n), round.scales, strict=True):
            left = of.quorum(n).needed - of.max_colluding
            assert left * share**2 >= scale**2
            assert share >= MIN_SHARE_DEVIATION


@pytest.mark.parametrize("shape", SHAPES)
@KINDS
def test_ring_and_plausibility_hold_the_noise_of_every_key_set(
    shape: tuple[int, int, int], masks: Masks
) -> None:
    of = plan(*shape, masks)
    for round, n in product(of.mechanism.all_rounds, key_sets(of)):
        for total, share in zip(of.total_scales(round), of.share_scales(round, n), strict=True):
            assert total**2 >= n * share**2
    assert ring_load(of).required_bits <= of.ring_bits


def test_pairwise_noise_is_never_more_than_that_of_group_masks_and_less_where_clients_may_be_missing() -> (
    None
):
    for M, D, t in SHAPES:
        pairwise, group = plan(M, D, t), plan(M, D, t, Masks.GROUP)
        for n in key_sets(pairwise):
            ours, theirs = (
                of.deviations(of.mechanism.rounds[-1], n)[0] for of in (pairwise, group)
            )
            assert ours <= theirs * (1 + 1e-9)
            assert ours < theirs or D == 0 or n == M - D


def test_ten_clients_of_which_three_may_be_missing_have_five_percent_more_noise_than_one_would_add() -> (
    None
):
    pairwise, group = plan(10, 3, 1), plan(10, 3, 1, Masks.GROUP)
    for of, factor in ((pairwise, 1.05), (group, 1.29)):
        round = of.mechanism.rounds[-1]
        assert of.deviations(round, 10)[0] / float(round.scales[0]) == pytest.approx(
            factor, abs=0.005
        )


def test_a_client_draws_the_share_of_its_key_set_and_refuses_one_that_the_plan_does_not_allow() -> (
    None
):
    of = plan(10, 3, 1)
    round = of.mechanism.rounds[-1]
    few, many = (np.std(of.draw_client_noise(round, SeededNoise(3), n)[:, 0]) for n in (7, 10))
    assert few > many
    for n in (6, 11, 0, -1):
        with pytest.raises(PlanError, match="expected 7 to"):
            of.draw_client_noise(round, SeededNoise(3), n)


def test_who_makes_keys_for_whom() -> None:
    present = ("a", "c", "d")
    assert [Masks.PAIRWISE.recipients(name, present) for name in present] == [
        ("c", "d"),
        ("d",),
        (),
    ]
    assert [Masks.GROUP.recipients(name, present) for name in present] == [("c", "d"), (), ()]
    assert list(Masks.PAIRWISE.speakers(present)) == ["a", "c", "d"]
    assert list(Masks.GROUP.speakers(present)) == ["a"]


def test_a_plan_with_masks_and_host_is_read_as_it_was_written() -> None:
    of = plan(5, 0, 2, host="c2")
    assert Plan.from_toml(of.to_toml()) == of
    assert (of.masks, of.host) == (Masks.PAIRWISE, "c2")
    assert of.digest not in {
        plan(5, 0, 2).digest,
        plan(5, 0, 2, host="c1").digest,
        plan(5, 0, 2, Masks.GROUP).digest,
    }


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"host": "c7"}, "c7"),
        ({"host": "c1", "masks": Masks.GROUP}, "group masks"),
        ({"host": "c1", "trust": TrustMode.SERVER_NOISE}, "server-noise"),
        ({"D": 3, "t": 2}, "max_colluding"),
        ({"D": 0, "t": 5}, "max_colluding"),
    ],
)
def test_plans_that_cannot_be_met_are_refused(change: dict[str, Any], field: str) -> None:
    with pytest.raises(PlanError, match=field):
        plan(**{"M": 5, **change})


def test_more_than_300_clients_have_no_keys_of_pairs() -> None:
    assert plan(300, masks=Masks.PAIRWISE).n_clients == 300
    with pytest.raises(PlanError, match="at most 300"):
        plan(301, masks=Masks.PAIRWISE)
    assert plan(301, masks=Masks.GROUP).n_clients == 301


def test_only_plans_of_the_current_version_run() -> None:
    with pytest.raises(PlanError, match="protocol_version"):
        msgspec.structs.replace(plan(), protocol_version=PROTOCOL_VERSION + 1)
