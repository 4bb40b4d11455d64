"""A run's cost is known for neighbours by either relation."""

from fractions import Fraction

from fastlloyd.federation.store.costs import Cost, ExchangeCost
from fastlloyd.federation.store.events import RunReserved, decode, encode
from stores import ADDED, REPLACED, cost, reserved, run_id


def test_a_run_keeps_its_cost_for_both_relations() -> None:
    event = reserved(run_id(1), n_exchanges=2)
    assert isinstance(decode(encode(event)), RunReserved)
    assert encode(event)[1] == 10
    assert event.cost.under(ADDED) == (Cost(Fraction(1, 100), Fraction(0)),) * 2
    assert event.cost.under(REPLACED) == (Cost(Fraction(4, 100), Fraction(0)),) * 2
    assert cost(Fraction(1)).costs == (
        ExchangeCost(Cost(Fraction(1), Fraction(0)), Cost(Fraction(4), Fraction(0))),
    )
