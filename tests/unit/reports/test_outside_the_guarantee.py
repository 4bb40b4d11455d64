"""One list says what is outside the guarantee, and statements, pages and screens take it."""

import msgspec
import pytest

from clone import ROOT
from designs import design_mechanism, design_plan
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.plan.plan import Client, Plan
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, LLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.reports import agreement, explain
from fastlloyd.reports.facts import sentence
from fastlloyd.reports.outside import OUTSIDE, outside, stated, table
from fastlloyd.reports.plan_facts import NOT_COVERED
from fastlloyd.reports.statement import mechanism_statement, plan_statement

DOMAIN = Domain(features=("age",), lower=(0.0,), upper=(100.0,))
REQUIRED = {
    "exact_outputs",
    "owner_counts",
    "layout",
    "refusals",
    "timing",
    "attendance",
    "earlier_steps",
    "choices",
}


def _plan(persons: Persons | None = None) -> Plan:
    return design_plan(
        FASTLLOYD,
        DOMAIN,
        clients=tuple(Client(name=name, max_records=100) for name in ("a", "b", "c")),
        run_id=bytes(16),
        n_clusters=2,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(5),
        persons=persons,
    )


def _codes(statement: dict[str, list[dict[str, str]]]) -> list[str]:
    return [fact["code"] for fact in statement["outside_the_guarantee"]]


def test_codes_are_stable_names_that_no_two_facts_share() -> None:
    codes = list(OUTSIDE)
    assert set(codes) >= REQUIRED
    assert all(code.replace("_", "").isalpha() and code.islower() for code in codes)


def test_the_page_has_the_list_as_the_code_has_it() -> None:
    page = (ROOT / "docs/threat-model.md").read_text()
    _, _, rest = page.partition("<!-- outside: begin -->\n\n")
    said, _, _ = rest.partition("\n<!-- outside: end -->")
    assert said == table(), f"put this between the marks:\n{table()}"


@pytest.mark.parametrize("c", [None, 1, 2])
def test_statement_explanation_and_signed_page_say_the_same_facts(c: int | None) -> None:
    plan = _plan(None if c is None else Persons(name="patient", max_clients=c, weight_bits=10))
    facts = stated(outside(plan.mechanism, federated=True), plan.mechanism.unit)
    assert plan_statement(plan)["outside_the_guarantee"] == facts
    explained, page = explain.explain(plan), " ".join(agreement.page(plan).split())
    for fact in facts:
        assert "{" not in fact["sentence"]
        assert f"- {fact['sentence']}" in explained
        assert fact["sentence"] in page
    assert ("several_records" in _codes(plan_statement(plan))) == (c is None)
    assert ("wrong_ids" in _codes(plan_statement(plan))) == (c is not None)


def test_what_concerns_several_organisations_is_not_said_of_one_holder() -> None:
    m = _plan().mechanism
    alone = {fact.name for fact in outside(m, federated=False)}
    assert {fact.name for fact in outside(m, federated=True)} - alone == {
        "outside_dishonest_parties",
        "outside_attendance",
        "outside_totals",
    }


def test_nothing_is_inside_the_guarantee_without_noise_or_with_settings_from_the_data() -> None:
    m = design_mechanism(
        LLOYD, DOMAIN, n_clusters=2, n_records=9, epsilon=1.0, public_seed=PublicSeed.from_int(5)
    )
    assert _codes(mechanism_statement(m)) == ["everything"]
    plan = _plan()
    taken = msgspec.structs.replace(plan.mechanism, taken_from_the_data=("bounds were taken",))
    leaking = msgspec.structs.replace(plan, mechanism=taken)
    assert sentence(NOT_COVERED) in explain.explain(leaking)
    assert _codes(plan_statement(leaking))[0] == "taken_from_the_data"
