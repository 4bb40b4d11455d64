"""Sentences about a ledger, for people who are about to sign a plan or to join its run."""

import functools
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.dp.neighboring import Neighbours
from fastlloyd.errors import BudgetError
from fastlloyd.federation.admission import DataSet, check_joining
from fastlloyd.federation.ledger import plan_cost
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.store import History, Role
from fastlloyd.federation.store.events import LimitSet, UnitLimitSet
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.reports.accounts import outlook
from federation import make_plan
from stores import ADD, REPLACE, reserved_as, run_id

UNITS = (None, "patient", "household")
ASKED = [None, *(Neighbours(relation, unit) for relation, unit in product((ADD, REPLACE), UNITS))]
LIMITS = st.dictionaries(
    st.sampled_from(ASKED), st.sampled_from([1.0, 2.5, 3.5, 9.0, float("inf")]), max_size=4
)


@functools.cache
def plan_of(unit: str | None) -> Plan:
    persons: Any = None if unit is None else Persons(name=unit)
    return make_plan(persons=persons)


def ledger_of(limits: dict[Neighbours | None, float], earlier: list[str | None]) -> History:
    events: list[Any] = [
        LimitSet(dataset="visits", epsilon=epsilon, delta=1e-6)
        if asked is None
        else UnitLimitSet(dataset="visits", epsilon=epsilon, delta=1e-6, speaks_of=asked)
        for asked, epsilon in limits.items()
    ]
    runs = [
        reserved_as(plan_cost(plan_of(unit)), run_id(n), dataset="visits")
        for n, unit in enumerate(earlier)
    ]
    return History(Role.HOLDER).followed_by([*events, *runs])


@given(
    limits=LIMITS,
    earlier=st.lists(st.sampled_from([None, "patient"]), max_size=2),
    unit=st.sampled_from(UNITS),
)
def test_the_page_of_a_plan_says_every_limit_and_refuses_exactly_what_join_refuses(
    limits: dict[Neighbours | None, float], earlier: list[str | None], unit: str | None
) -> None:
    ledger, plan = ledger_of(limits, earlier), plan_of(unit)
    lines = outlook(ledger, "visits", plan).splitlines()
    refused = [line for line in lines if line.startswith("`join` will refuse the plan: ")]
    with suppress(BudgetError):
        check_joining(ledger, History(Role.CLIENT), DataSet(name="visits"), plan_cost(plan))
        assert not refused
        refused = ["nothing"]
    assert refused
    said = [line for line in lines if "The limit is epsilon " in line]
    finite = {asked: epsilon for asked, epsilon in limits.items() if epsilon < float("inf")}
    for asked, epsilon in finite.items():
        whom = "one record" if asked is None else str(asked)
        assert any(
            line.startswith(f"For {whom}") and f"limit is epsilon {epsilon:g} at" in line
            for line in said
        )
    assert len(said) == len(finite)
    without = [line.partition("There is no limit for ")[2] for line in lines]
    assert not {f"{each}." for each in finite} & set(without)


@pytest.mark.parametrize("unit", [None, "patient"])
def test_a_limit_for_others_is_said_beside_the_unit_that_has_none(unit: str | None) -> None:
    other = "patient" if unit is None else None
    asked = None if other is None else Neighbours(ADD, other)
    said = outlook(ledger_of({asked: 9.0}, []), "visits", plan_of(unit))
    assert "The limit is epsilon 9 at delta 1e-06" in said
    if unit is not None:
        assert "There is no limit for one patient added or removed." in said
