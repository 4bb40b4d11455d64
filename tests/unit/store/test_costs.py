"""A run's cost is known for neighbours by either relation; of runs that earlier versions joined, as
far as it can be told.
"""

from fractions import Fraction

import pytest

from fastlloyd.dp.neighboring import NeighboringRelation, Neighbours
from fastlloyd.federation.store.costs import Cost, ExchangeCost
from fastlloyd.federation.store.events import EarlierRunReserved, RunReserved, decode, encode
from stores import ADD, ADDED, REPLACE, REPLACED, cost, earlier, reserved, run_id

GAUSSIAN, LAPLACE = Cost(Fraction(1, 25), Fraction(0)), Cost(Fraction(0), Fraction(1, 7))
# As the version before wrote them: one exchange with Gaussian noise, one with Laplace noise.
EARLIER_BYTES = {
    ADD: bytes.fromhex(
        "9701c41072727272727272727272727272727272c4207070707070707070707070707070707070707070707070707070707070707070a8636c696e69"
        "632d61a870617469656e7473c420666666666666666666666666666666666666666666666666666666666666666695b16164645f6f725f72656d6f76"
        "655f6f6e659292a4312f3235a13092a130a3312f37cb3ff0000000000000cb3eb0c6f7a0b5ed8dcb3a50000000000000"
    ),
    REPLACE: bytes.fromhex(
        "9701c41072727272727272727272727272727272c4207070707070707070707070707070707070707070707070707070707070707070a8636c696e69"
        "632d61a870617469656e7473c420666666666666666666666666666666666666666666666666666666666666666695ab7265706c6163655f6f6e6592"
        "92a4312f3235a13092a130a3312f37cb3ff0000000000000cb3eb0c6f7a0b5ed8dcb3a50000000000000"
    ),
}


@pytest.mark.parametrize("relation", [ADD, REPLACE], ids=lambda relation: relation.value)
def test_an_event_of_an_earlier_version_is_read_and_written_as_it_was(
    relation: NeighboringRelation,
) -> None:
    data = EARLIER_BYTES[relation]
    event = decode(data)
    assert isinstance(event, EarlierRunReserved)
    assert encode(event) == data
    assert (event.client, event.dataset, event.fingerprint) == ("clinic-a", "patients", b"f" * 32)
    assert event.cost.neighboring_relation is relation
    assert event.cost.under(Neighbours(relation)) == (GAUSSIAN, LAPLACE)


def test_an_earlier_run_made_for_added_records_costs_twice_the_mu_and_epsilon_where_one_is_replaced() -> (
    None
):
    kept = earlier(run_id(1), GAUSSIAN, LAPLACE).cost
    assert kept.under(REPLACED) == (
        Cost(Fraction(4, 25), Fraction(0)),
        Cost(Fraction(0), Fraction(2, 7)),
    )
    assert kept.under(ADDED) == (GAUSSIAN, LAPLACE)


def test_an_earlier_run_made_for_replaced_records_has_no_bound_where_one_is_added_but_of_laplace_noise() -> (
    None
):
    kept = earlier(run_id(1), GAUSSIAN, LAPLACE, relation=REPLACE).cost
    assert kept.under(ADDED) == (None, LAPLACE)
    assert kept.under(REPLACED) == (GAUSSIAN, LAPLACE)


@pytest.mark.parametrize("made_for", [ADD, REPLACE], ids=lambda relation: relation.value)
@pytest.mark.parametrize("asked", [ADD, REPLACE], ids=lambda relation: relation.value)
def test_an_earlier_run_has_no_bound_for_persons(
    made_for: NeighboringRelation, asked: NeighboringRelation
) -> None:
    kept = earlier(run_id(1), GAUSSIAN, LAPLACE, relation=made_for).cost
    assert kept.under(Neighbours(asked, "patient")) == (None, None)


def test_todays_runs_keep_both_in_an_event_of_its_own() -> None:
    event = reserved(run_id(1), n_exchanges=2)
    assert isinstance(decode(encode(event)), RunReserved)
    assert encode(event)[1] == 10
    assert event.cost.under(ADDED) == (Cost(Fraction(1, 100), Fraction(0)),) * 2
    assert event.cost.under(REPLACED) == (Cost(Fraction(4, 100), Fraction(0)),) * 2
    assert cost(Fraction(1)).costs == (
        ExchangeCost(Cost(Fraction(1), Fraction(0)), Cost(Fraction(4), Fraction(0))),
    )


def test_the_distance_of_an_earlier_run_follows_from_the_slack_its_plan_set_aside() -> None:
    assert earlier(run_id(1), GAUSSIAN).cost.distance == 0
    distance = earlier(run_id(1), GAUSSIAN, slack=1e-30).cost.distance
    exact = 1e-30 / (1 + 2.718281828459045)
    assert exact * (1 - 1e-15) <= distance <= exact * (1 + 1e-15)
