"""What people are told: the epsilon of every coalition, every public choice, every limit, and
nothing that depends on data.
"""

import inspect
import json
import math
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from designs import design_mechanism, design_plan
from fastlloyd.base.precision import rounded_up
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.dp.gdp import gdp_delta, gdp_epsilon, mu_from_squared
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import Client, Masks, Plan, TrustMode
from fastlloyd.federation.plan.quorum import aliasing_slack
from fastlloyd.federation.plan.study import Study
from fastlloyd.federation.protocol.messages import Limits
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from fastlloyd.reports.certainty import Odds
from fastlloyd.reports.coalitions import coalitions, one_share_epsilon, person_epsilon
from fastlloyd.reports.explain import explain
from fastlloyd.reports.facts import said, sentence, sentences
from fastlloyd.reports.plan_facts import (
    cautions,
    noise_factor,
    plan_cautions,
    protected,
    totals,
)
from fastlloyd.reports.statement import mechanism_statement, plan_statement
from kinds import lloyd_of
from lloyd_queries import bounds

BOX = Domain(features=("age", "size"), lower=(0.0, 0.0), upper=(100.0, 3.0))
CLIENT_NOISE, SERVER_NOISE = TrustMode.CLIENT_NOISE, TrustMode.SERVER_NOISE


def plan(M: int = 3, algorithm: AnyAlgorithm = FASTLLOYD, **changes: Any) -> Plan:
    arguments: dict[str, Any] = {
        "clients": tuple(Client(name=f"h{i}", max_records=10_000 // M) for i in range(M)),
        "run_id": bytes(16),
        "n_clusters": 3,
        "epsilon": 1.0,
        "delta": 1e-6,
        "public_seed": PublicSeed.from_int(1),
        "masks": Masks.GROUP,
    }
    return design_plan(algorithm, BOX, **(arguments | changes))


def test_a_guarantee_is_told_no_smaller_than_it_is() -> None:
    text = explain(plan(epsilon=1.2345644, delta=1.2345644e-6))
    assert len(re.findall(r"delta = 1\.23457e-06\b", text)) == 3
    assert "hardly depends on any one record: epsilon = 1.23457 and delta = 1.23457e-06," in text
    assert "a probability of at most 1.23457e-06. " in text


def test_the_bytes_of_rounds_that_differ_are_those_that_messages_have() -> None:
    of = plan(3, MOMENTLLOYD)
    limits = Limits.of(of)
    sizes = limits.payload_bytes
    assert len(set(sizes)) > 1
    assert (
        f"A round takes {min(sizes)} to {max(sizes)} bytes from each client, and as many back to"
        f" it. All {len(sizes)} rounds together take {sum(sizes)} bytes each way. Between rounds,"
        " the sealed parameters of the next round take up to"
        f" {max(limits.box_bytes.values())} bytes. Each message" in explain(of)
    )


def names(facts: Iterable[Fact | Facts]) -> list[str]:
    """Name of each fact, of several together that of the first."""
    return [fact.name if isinstance(fact, Fact) else fact[0].name for fact in facts]


def mechanism(algorithm: Algorithm = FASTLLOYD, **changes: Any) -> LloydMechanism:
    arguments: dict[str, Any] = {
        "n_clusters": 3,
        "n_records": 1000,
        "epsilon": 1.0,
        "public_seed": PublicSeed.from_int(1),
    }
    return design_mechanism(algorithm, BOX, **(arguments | changes))


def table(of: Plan) -> dict[str | tuple[str, int], float | None]:
    """Epsilon by the fact about the coalition, with its number of clients if it has one."""
    return {
        (who.name, who.values["n"]) if who.values else who.name: epsilon
        for who, epsilon in coalitions(of)
    }


# Coalitions


def test_larger_coalitions_than_planned_for_have_the_published_epsilons() -> None:
    three, ten = table(plan(3)), table(plan(10))
    assert three[("clients_alone", 2)] == pytest.approx(1.45, abs=5e-3)
    assert ten[("clients_alone", 9)] == pytest.approx(3.32, abs=5e-3)
    assert ten["server_with_any_client"] == pytest.approx(3.3, abs=5e-2)
    assert three[("clients_alone", 1)] == pytest.approx(1.0, abs=1e-3)
    assert ten[("clients_alone", 1)] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("M", "t", "D"), [(2, 1, 0), (5, 2, 1), (10, 3, 1), (12, 1, 4)])
def test_the_coalitions_planned_for_keep_the_stated_epsilon_and_each_larger_one_has_a_larger(
    M: int, t: int, D: int
) -> None:
    of = plan(M, max_colluding=t, max_dropouts=D)
    rows = table(of)
    planned = [rows["server_alone"]]
    planned += [rows["clients_alone", s] for s in range(1, t + 1)]
    assert all(epsilon is not None and epsilon <= of.mechanism.epsilon for epsilon in planned)
    assert planned[-1] == pytest.approx(of.mechanism.epsilon, rel=1e-3)
    protected = [epsilon for _, epsilon in coalitions(of)[:-1] if epsilon is not None]
    assert protected == sorted(protected)
    assert len(protected) == M - D
    # with D absent, M - D clients that pool leave nobody's noise
    assert [epsilon for _, epsilon in coalitions(of)[M - D : -1]] == [None] * D
    assert rows["server_with_any_client"] == pytest.approx(protected[-1], rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 25.0])
def test_every_stated_epsilon_holds_with_the_slack_of_that_epsilon(epsilon: float) -> None:
    """Second route: the curve of the shares that are left, plus what adding them up costs at this
    epsilon, is within delta.
    """
    of = plan(10, epsilon=epsilon, n_iterations=2)
    m, h = of.mechanism, of.n_shares
    mu_squared = m.accountant().mu_squared
    for s, (_, stated) in enumerate(coalitions(of)[:-1]):
        left = 10 - s
        assert stated is not None

        def delta(n: int, stated: float = stated) -> float:
            mu = math.sqrt(mu_squared * h / n) * (1 - 1e-15)
            return gdp_delta(mu, stated) + (
                aliasing_slack(stated, m.n_released, n) if n > 1 else 0.0
            )

        assert min(delta(n) for n in {1, left}) <= m.delta * (1 + 1e-9)
    last = coalitions(of)[-1][1]
    assert last == pytest.approx(gdp_epsilon(math.sqrt(mu_squared * h), m.delta), rel=1e-9)


def test_server_noise_holds_against_clients_and_not_against_a_server_that_sees_a_result() -> None:
    rows = coalitions(plan(4, trust=SERVER_NOISE))
    assert [epsilon for _, epsilon in rows] == [1.0] * 4 + [None]
    assert list(table(plan(4, trust=SERVER_NOISE))) == [
        "readers",
        ("clients_alone", 1),
        ("clients_alone", 2),
        ("clients_alone", 3),
        "server_with_result",
    ]
    assert [epsilon for _, epsilon in coalitions(plan(2, SULLOYD, trust=SERVER_NOISE))] == [
        1.0,
        1.0,
        None,
    ]


# Statements


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda a: a.name)
def test_the_statement_is_the_mechanism_in_words_and_numbers(
    algorithm: Algorithm, relation: NeighboringRelation
) -> None:
    m = mechanism(algorithm, neighboring_relation=relation, count_bits=2)
    statement = mechanism_statement(m)
    assert set(statement) == {
        "statement_version", "fastlloyd_version", "private", "covers", "mechanism", "noise", "epsilon", "delta", "delta_slack", "mu", "rho",
        "pure_epsilon", "delta_accounted", "neighboring_relation", "unit_of_protection", "n_iterations", "n_rounds",
        "iterations_and_rounds", "n_clusters",
        "n_records_cap", "features", "rounds", "loss_estimate", "units", "protected",
        "outside_the_guarantee", "cautions",
        "mechanism_digest", "intervals", "taken_from_the_data",
    }  # fmt: skip
    assert json.loads(json.dumps(statement, allow_nan=False)) == statement
    assert statement["private"] is True
    assert statement["mechanism"] == algorithm.name
    assert (statement["epsilon"], statement["delta"]) == (m.epsilon, m.delta)
    assert statement["delta_accounted"] <= m.delta
    assert statement["neighboring_relation"] == relation.value
    assert statement["unit_of_protection"] == "one record (row)"
    assert statement["features"] == ["age", "size"]
    assert statement["mechanism_digest"] == m.digest.hex()
    assert statement["protected"] == said(protected(m, federated=False))
    if algorithm is SULLOYD:
        assert statement["mu"] is None
        assert statement["pure_epsilon"] <= m.epsilon
    else:
        assert statement["pure_epsilon"] is None
        assert Fraction(statement["mu"]) ** 2 >= m.accountant().mu_squared
        assert gdp_delta(statement["mu"], m.epsilon) <= m.delta * (1 + 1e-9)
    for number, (row, r) in enumerate(zip(statement["rounds"], m.rounds, strict=True), 1):
        s = bounds(r.question(m))
        assert row["round"] == number
        assert row["squared_radius"] == r.squared_radius
        assert (row["sum_sensitivity_l1"], row["count_sensitivity"]) == (s.l1, s.count) == (s.l1, 4)
        assert row["sum_sensitivity_l2"] == pytest.approx(math.sqrt(s.squared_l2))
        assert (
            Fraction(row["sum_noise_scale_exact"]),
            Fraction(row["count_noise_scale_exact"]),
        ) == (
            r.sum_scale,
            r.count_scale,
        )
        assert ("replacement" in row["sensitivities_are_for"]) == (
            relation is NeighboringRelation.REPLACE_ONE
        )


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD], ids=lambda a: a.name)
def test_rho_and_mu_describe_the_same_gaussian_noise(algorithm: Algorithm) -> None:
    m = mechanism(algorithm)
    statement = mechanism_statement(m)
    rho, mu_squared = Fraction(statement["rho"]), m.accountant().mu_squared
    assert rho >= mu_squared / 2  # rounded up, to the nearest float
    assert Fraction(math.nextafter(statement["rho"], 0)) < mu_squared / 2
    assert statement["rho"] * 2 == pytest.approx(float(statement["mu"]) ** 2, rel=1e-12)


def test_a_run_without_noise_is_stated_not_private_and_claims_nothing() -> None:
    statement = mechanism_statement(mechanism(LLOYD))
    assert statement["private"] is False
    assert (
        statement["epsilon"]
        is statement["delta"]
        is statement["mu"]
        is statement["pure_epsilon"]
        is None
    )
    assert statement["delta_accounted"] is None
    assert statement["protected"] == []
    json.dumps(statement, allow_nan=False)


@pytest.mark.parametrize("trust", list(TrustMode))
def test_the_statement_of_a_federated_run_adds_who_is_trusted_with_what(trust: TrustMode) -> None:
    of = plan(5, trust=trust, max_dropouts=1)
    statement = plan_statement(of)
    federated = statement["federated"]
    assert set(federated) == {
        "trust", "masks", "host", "simulated", "holds_against", "n_clients", "n_included", "max_dropouts", "max_colluding", "shares_needed",
        "share_scales", "coalitions", "ring_bits", "plan_digest", "run_id",
    }  # fmt: skip
    assert federated["trust"] == trust.value
    assert federated["plan_digest"] == of.digest.hex()
    assert [(row["who"], row["epsilon"]) for row in federated["coalitions"]] == [
        (sentence(who), epsilon) for who, epsilon in coalitions(of)
    ]
    if trust is CLIENT_NOISE:
        expected = [
            [str(scale) for scale in of.share_scales(r, of.n_clients)] for r in of.mechanism.rounds
        ]
        assert (federated["share_scales"], federated["shares_needed"]) == (expected, 3)
    else:
        assert (federated["share_scales"], federated["shares_needed"]) == (None, 1)
    json.dumps(statement, allow_nan=False)
    assert plan_statement(of) == statement


# The text


@pytest.mark.parametrize("masks", Masks)
@pytest.mark.parametrize(
    ("algorithm", "trust"),
    [
        (FASTLLOYD, CLIENT_NOISE),
        (FASTLLOYD, SERVER_NOISE),
        (GLLOYD, CLIENT_NOISE),
        (GLLOYD, SERVER_NOISE),
        (SULLOYD, SERVER_NOISE),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_explanation_names_every_guarantee_and_every_limit(
    algorithm: Algorithm, trust: TrustMode, masks: Masks
) -> None:
    of = plan(4, algorithm, trust=trust, masks=masks)
    m, text = lloyd_of(of), explain(of)
    parts = [
        of.digest.hex(),
        "h0, h1, h2, h3",
        algorithm.name,
        "3 clusters",
        "'age', 'size'",
        "epsilon = 1",
        f"all {len(m.rounds)} rounds",
        "neighbouring relation: add or remove one",
        f"Trust: {trust.value}",
        f"noisy count is below {m.min_count} stay",
        "'age' from ",
        f"At most {m.n_records} records in all.",
        (
            f"- a reader who was 50 % certain before the run is at most {math.ceil(Odds.of_run(m).certainty(0.5) * 1000) / 10:g}"
            " % certain afterwards\n"
        ),
        f"{rounded_up(person_epsilon(of, 5))} with 5 records",
        f"Note: {sentence(totals(of)[0])}.",
        f"A round takes {of.n_words(of.mechanism.rounds[0]) * 8} bytes from each client",
        "Outside the guarantee:",
    ]
    for part in parts:
        assert part in text
    for who, epsilon in coalitions(of):
        value = "nothing is protected" if epsilon is None else rounded_up(epsilon)
        assert f"- {sentence(who)}: {value}\n" in text
    assert ("delta = 1e-06" in text) == (algorithm is not SULLOYD)
    of_group = trust is CLIENT_NOISE and masks is Masks.GROUP
    assert ("not hold against the server together with a client" in text) == of_group
    assert ("NEVER SEES A RESULT" in text) == (trust is SERVER_NOISE)
    assert ("Radius: none" in text) == (algorithm is not FASTLLOYD)
    assert ("These limits hold except with a probability of at most 1e-06. " in text) == (
        algorithm is not SULLOYD
    )
    for word in (
        "ring",
        "dealer",
        " mu ",
    ):  # nobody who decides whether to take part can do anything with them
        assert not re.search(rf"\b{word}\b", text, re.IGNORECASE), word


def test_what_a_study_is_for_is_said_first_and_nothing_is_said_of_one_that_has_no_words() -> None:
    told = Study(
        name="Falls",
        purpose="groups of patients",
        controller="Clinic A",
        contact="dpo@clinic-a.example",
    )
    text = explain(msgspec.structs.replace(plan(), study=told))
    lines = (
        "Study: Falls\nPurpose: groups of patients\nController: Clinic A\nContact:"
        " dpo@clinic-a.example"
    )
    assert f"\n\n{lines}\n\nPublic bounds" in text
    assert "Study:" not in explain(plan())
    assert "\n\n\n" not in explain(plan())


def test_a_replaced_record_is_spoken_of_as_one_of_two_values() -> None:
    text = explain(plan(neighboring_relation=NeighboringRelation.REPLACE_ONE))
    assert "which of two values a record has" in text


def test_nothing_that_is_explained_can_depend_on_data() -> None:
    for function, taken in (
        (explain, ["plan"]),
        (coalitions, ["plan"]),
        (plan_statement, ["plan", "n_included"]),  # how many clients took part is public
        (mechanism_statement, ["m", "federated"]),
        (noise_factor, ["plan", "n_included"]),
        (LloydMechanism.expected_standard_errors, ["self", "noise_factor"]),
    ):
        assert list(inspect.signature(function).parameters) == taken
    assert explain(plan()) == explain(plan())


def test_w24_a_delta_above_a_hundredth_record_is_warned_about() -> None:
    n = 9999  # of three caps of 3333
    for fine in (plan(delta=None), plan(delta=1e-6), plan(3, SULLOYD, trust=SERVER_NOISE)):
        assert cautions(fine.mechanism) == plan_statement(fine)["cautions"] == []
        assert "WARNING" not in explain(fine)
    papers = plan(delta=1 / (n * math.log(n)))
    [caution] = cautions(papers.mechanism)
    assert (caution.name, caution.values["exposed"]) == ("large_delta", 0.11)
    assert plan_statement(papers)["cautions"] == [sentence(caution)]
    assert f"WARNING: {sentence(caution)}." in explain(papers)
    assert cautions(plan(delta=0.01).mechanism)[0].values["exposed"] == 100


@pytest.mark.parametrize(
    ("M", "D"), [(4, 2), (5, 3), (10, 5), (10, 8), (3, 1), (5, 2), (10, 4), (4, 0)]
)
def test_w13_a_plan_whose_clients_can_be_led_to_two_results_is_read_with_a_warning_and_its_figure(
    M: int, D: int
) -> None:
    """The figure is mu sqrt(h), all answers of a client behind one share: the last row of the
    table, too.
    """
    of = plan(M, max_dropouts=D)
    assert Plan.from_toml(of.to_toml()) == of
    assert of.is_divisible == (2 * D >= M - 1)
    if not of.is_divisible:
        of.check_undivided()
        assert "two_results" not in names(plan_cautions(of))
        return
    one_share = gdp_epsilon(
        mu_from_squared(of.mechanism.accountant().mu_squared * of.n_shares), of.mechanism.delta
    )
    assert one_share_epsilon(of) == coalitions(of)[-1][1] == one_share
    assert (one_share > 1.2) == (
        of.n_shares > 1
    )  # one share that is enough by itself hides as much as the plan says
    cautions: list[Any] = plan_cautions(of)
    [caution] = [facts for facts in cautions if names([facts]) == ["two_results"]]
    _, price, remedy = caution
    assert price.values["epsilon"] == one_share
    assert (price.name == "two_results_of_one_share") == (of.n_shares == 1)
    assert (remedy.values["at_most"] > 0) == (M > 3)
    assert sentences(caution) in plan_statement(of)["cautions"]
    assert f"WARNING: {sentences(caution)}." in explain(of)
    with pytest.raises(PlanError, match=f"max_dropouts is {D}.*most {(M - 2) // 2}"):
        of.check_undivided()


def test_in_server_noise_nothing_is_said_of_groups_for_a_server_that_lies_about_its_noise_is_worse() -> (
    None
):
    of = plan(4, trust=SERVER_NOISE, max_dropouts=3)
    assert not of.is_divisible
    assert plan_cautions(of) == []


@pytest.mark.parametrize("trust", TrustMode)
@pytest.mark.parametrize(
    ("M", "D", "is_said"), [(3, 1, True), (4, 1, False), (2, 0, False), (3, 0, False), (5, 3, True)]
)
def test_who_reads_a_plan_is_told_that_absence_can_leave_a_sum_of_two(
    trust: TrustMode, M: int, D: int, is_said: bool
) -> None:
    cautions: list[Any] = plan_cautions(plan(M, trust=trust, max_dropouts=D))
    told = [caution for caution in cautions if names([caution]) == ["sum_of_two"]]
    assert len(told) == is_said
    assert all((fact.values["dropouts"], fact.values["n"]) == (D, M) for fact in told)


def test_many_features_are_cut_short_and_counted() -> None:
    d = 25
    wide = Domain(features=tuple(f"f{i}" for i in range(d)), lower=(0.0,) * d, upper=(1.0,) * d)
    clients = tuple(Client(name=f"h{i}", max_records=500) for i in range(3))
    text = explain(
        design_plan(
            FASTLLOYD,
            wide,
            clients=clients,
            run_id=bytes(16),
            n_clusters=2,
            epsilon=1.0,
            public_seed=PublicSeed.from_int(0),
        )
    )
    assert text.count("\n    'f") == 20
    assert "... and 5 more features" in text


# What to expect of the result


@pytest.mark.parametrize(
    ("M", "t", "D", "factor"), [(2, 1, 0, 1.414), (10, 3, 1, 1.291), (5, 2, 1, 1.581)]
)
def test_the_price_of_shared_noise_is_the_published_factor(
    M: int, t: int, D: int, factor: float
) -> None:
    of = plan(M, max_colluding=t, max_dropouts=D)
    assert noise_factor(of) == pytest.approx(factor, abs=6e-4)
    assert f"the noise is {noise_factor(of):.3f} times as large" in explain(of)
    assert noise_factor(plan(M, trust=SERVER_NOISE)) == 1.0


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda a: a.name)
@pytest.mark.parametrize("scaling", list(Scaling))
def test_the_expected_error_is_that_of_a_simulated_division(
    algorithm: Algorithm, scaling: Scaling
) -> None:
    """Simulated with 40,000 seeded draws: the standard error of a deviation is below 1 %, also for
    Laplace; 5 % allowed.
    """
    box = Domain(features=("age", "size"), lower=(0.0, 0.0), upper=(100.0, 30.0), scaling=scaling)
    m = design_mechanism(
        algorithm,
        box,
        n_clusters=3,
        n_records=60_000,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
    )
    last, size = m.rounds[-1], 20_000
    generator = np.random.default_rng(3)
    draw = generator.laplace if algorithm is SULLOYD else generator.normal
    sums, counts = (
        draw(0, float(last.sum_scale), (40_000, 2)),
        draw(0, float(last.count_scale), (40_000, 1)),
    )
    half = 0.225 * m.domain.half_widths
    offset = (
        half if last.squared_radius is None else np.full(2, math.sqrt(last.squared_radius / 2) / 2)
    )
    simulated = (((size * offset + sums) / (size + counts) - offset) * box.units).std(axis=0)
    assert m.expected_standard_errors() == pytest.approx(simulated, rel=0.05)
    assert m.expected_standard_errors(1.5) == pytest.approx(1.5 * m.expected_standard_errors())


def test_the_text_shows_no_long_fractions_and_no_secret_names() -> None:
    text = explain(plan())
    assert not re.search(r"\d{12,}", text.replace(plan().digest.hex(), ""))
    assert "signing_key" not in text


@pytest.mark.parametrize("trust", list(TrustMode))
def test_the_loss_is_explained_and_its_shares_are_stated(trust: TrustMode) -> None:
    of = design_plan(
        FASTLLOYD,
        Domain(features=("x",), lower=(0.0,), upper=(1.0,)),
        clients=tuple(Client(name=name, max_records=1000) for name in "abcd"),
        run_id=bytes(16),
        n_clusters=2,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(0),
        trust=trust,
        estimate_loss=True,
        loss_share=0.125,
    )
    m, text = lloyd_of(of), explain(of)
    loss = m.loss
    assert loss is not None
    assert f"over all {len(m.rounds)} rounds and the estimate of the loss." in text
    assert "with 0.125 of the budget" in text
    deviation = float(loss.scale) * noise_factor(of) * 2.0**loss.shift / 4**16
    assert (
        f"Noise: {deviation:.4g} squared half widths, {deviation / 4000:.4g} per expected record."
        in text
    )
    assert "The round of the loss takes fewer bytes." in text
    shares = plan_statement(of)["federated"]["share_scales"]
    assert shares is None or shares[-1] == [
        str(scale) for scale in of.share_scales(loss, of.n_clients)
    ]
    for _, epsilon in coalitions(of):  # the loss is in every one of them
        assert epsilon is None or epsilon > 0
