"""Plans of bounds: clients find what one holder of all records finds, bit for bit, and no server
may add the noise.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from fastlloyd.base.randomness import PublicSeed
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.design import ProtocolChoices, design_plan
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.federation.transport.in_process import Drops, run_in_process
from fastlloyd.mechanisms.bounds.design import BoundsSettings, outer_range
from fastlloyd.mechanisms.bounds.mechanism import FoundBounds
from fastlloyd.mechanisms.catalogue import design
from fastlloyd.mechanisms.central import run
from fastlloyd.mechanisms.doubt import is_doubtful
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.mechanisms.rounds import AnswerNoise
from fastlloyd.reports.bounds_result import BoundsResult
from fastlloyd.reports.explain import explain
from fastlloyd.reports.result import result_of_run
from fastlloyd.reports.statement import plan_statement
from federation import Federation, identity, make_federation, results

pytestmark = pytest.mark.usefixtures("repeatable_noise")

OUTER = outer_range(["age", "size"], [-1000.0, -10.0], [1000.0, 10.0])
NAMES = ("c0", "c1", "c2")


def plan(
    masks: Masks = Masks.PAIRWISE,
    *,
    trust: TrustMode = TrustMode.CLIENT_NOISE,
    cap: int = 400,
    **given: Any,
) -> Plan:
    options = {name: given.pop(name) for name in ("max_dropouts", "max_colluding") if name in given}
    settings = BoundsSettings(
        domain=OUTER, n_records=3 * cap, public_seed=PublicSeed.from_int(3), **{"epsilon": 3.0} | given
    )  # fmt: skip
    clients = tuple(
        Client(name=name, max_records=cap, signing_key=identity(name).public.hex())
        for name in NAMES
    )
    protocol = ProtocolChoices(trust=trust, masks=masks, **options)
    return design_plan(settings, clients=clients, run_id=bytes(16), protocol=protocol)


def federation(p: Plan, n: int = 300) -> Federation:
    """Records of age 40 and size 3, about, and noise of about the planned deviation."""
    rng = np.random.default_rng(0)
    made = make_federation(p)
    X = {
        name: OUTER.to_grid(rng.normal([40, 3], [12, 0.4], (n, 2))).astype(np.int64)
        for name in NAMES
    }

    def noise() -> list[Any]:
        shapes = [
            (float(p.share_scales(round, 3)[0]), p.mechanism.shape(round))
            for round in p.mechanism.rounds
        ]
        return [np.rint(rng.normal(0, scale, shape)).astype(np.int64) for scale, shape in shapes]

    return replace(made, X=X, client_noise={name: noise() for name in NAMES})


def same(a: FoundBounds, b: FoundBounds) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("lower", "upper", "found")
    )


def plain(of: Federation, included: Sequence[Sequence[str]]) -> FoundBounds:
    """What one holder of all these records finds with as much noise: no ring, no masks, no
    messages.
    """
    found = run(of.plan.mechanism, partial(of._ask, included))
    assert isinstance(found, FoundBounds)
    return found


@pytest.mark.parametrize("masks", Masks)
@pytest.mark.parametrize("relation", NeighboringRelation)
def test_clients_find_what_one_holder_of_all_records_finds_bit_for_bit(
    masks: Masks, relation: NeighboringRelation
) -> None:
    p = plan(masks, neighboring_relation=relation)
    of = federation(p)
    outcome = run_in_process(of.server(), of.clients())
    ends = results(outcome.clients.values())
    assert len(ends) == 3
    assert not any(end.doubtful for end in ends)
    expected = plain(of, [NAMES] * 2)
    assert expected.found.all()
    for end in ends:
        assert isinstance(end.found, FoundBounds)
        assert same(end.found, expected)
    lower, upper = expected.ends(OUTER)
    assert (lower > [-40, -1]).all()
    assert (lower < [40, 3]).all()
    assert (upper > [40, 3]).all()
    assert (upper < [130, 7]).all()


def test_a_client_that_is_missing_leaves_the_others_with_the_same_bounds() -> None:
    of = federation(plan(Masks.GROUP, max_dropouts=1, cap=800), 700)
    outcome = run_in_process(of.server(), of.clients(), link=Drops([("c1", 1)]))
    ends = results(outcome.clients.values())
    assert len(ends) == 3
    for end in ends:
        assert end.included == (("c0", "c2"), NAMES)
        assert isinstance(end.found, FoundBounds)
        assert same(end.found, plain(of, end.included))


def test_a_server_that_adds_the_noise_is_refused_with_the_reason() -> None:
    with pytest.raises(
        PlanError,
        match=("bounds needs client-noise"),
    ):
        plan(trust=TrustMode.SERVER_NOISE)
    with pytest.raises(PlanError, match="bounds needs client-noise"):
        msgspec.structs.replace(plan(), trust=TrustMode.SERVER_NOISE, max_colluding=0)


def test_too_few_records_are_counted_with_the_noise_of_all_shares() -> None:
    """One holder finds bounds in fewer; of three clients with one curious the noise is larger by
    sqrt(3 / 2).
    """
    common: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5}
    alone = design(
        BoundsSettings(domain=OUTER, n_records=3000, public_seed=PublicSeed.from_int(3), **common)
    )
    needed = 35 * float(alone.rounds[0].scale) / 3  # of each client's records
    with pytest.raises(
        PlanError,
        match="too few",
    ):
        plan(cap=int(1.2 * needed), **common)
    assert plan(cap=int(1.3 * needed), **common).mechanism.n_records > 3 * needed


def test_a_plan_is_read_as_it_was_written_and_says_what_it_is_for() -> None:
    p = plan(persons=Persons(max_clients=2, weight_bits=4), cap=1000)
    assert Plan.from_toml(p.to_toml()) == p
    text = explain(p)
    assert "3 clients (c0, c1, c2) run bounds together: bounds of records with 2 features" in text
    assert "Round 1 divides the stated range of each feature into 8, 64, 512 and 4096 equal" in text
    assert "their spread in each feature" in text
    assert "centroid" not in text
    statement = plan_statement(p)
    assert statement["outer_range"] == {"age": [-1000.0, 1000.0], "size": [-10.0, 10.0]}
    assert (
        "every noisy answer of the run, the bounds, and what is computed from them later"
        in statement["protected"]
    )
    with pytest.raises(TypeError, match=r"this plan.*for bounds"):
        _ = p.clustering


def test_the_result_of_a_client_is_files_that_bounds_can_be_read_from() -> None:
    of = federation(plan())
    end, *_ = results(run_in_process(of.server(), of.clients()).clients.values())
    result = result_of_run(of.plan, end)
    assert isinstance(result, BoundsResult)
    assert set(result.files()) == {"bounds.toml", "privacy.json", "plan.toml", "rounds.json"}
    assert result.summary()["bounds"] == result.ends
    assert result.summary()["not_found"] == []
    with pytest.raises(TypeError, match="not a clustering"):
        _ = end.clustering


@pytest.mark.parametrize("entry", ["negative", "above its children", "more than there are"])
def test_sums_that_no_records_have_are_doubted(entry: str) -> None:
    p = plan()
    m, round = p.mechanism, p.mechanism.rounds[0]
    answer = m.query(0, m.start()).evaluate(OUTER.to_grid(np.full((300, 2), [40.0, 3.0])))
    far = 60 * int(round.scales[0])
    match entry:
        case "negative":
            answer[0, 320] -= far
        case "above its children":
            answer[1, 4] += far
        case _:
            answer[0] += np.where(answer[0] > 0, 400 << m.count_bits << 4, 0)
    noise = AnswerNoise(deviations=p.deviations(round, 3), share=1.0)
    assert is_doubtful(m, round, answer, 1200, noise, 3)
