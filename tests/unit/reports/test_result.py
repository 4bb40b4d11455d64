"""The files of a result: exact, and each says what it is."""

import csv
import io
import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from designs import design_mechanism, design_plan
from fastlloyd.base import precision
from fastlloyd.base.files import to_json
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.plan.plan import Client, Masks, Plan
from fastlloyd.mechanisms import central, uncertainty
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, LLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.uncertainty import Accuracy, Status
from fastlloyd.reports import facts, plan_facts
from fastlloyd.reports.result import Result, centroids_csv, centroids_json
from fastlloyd.reports.result_facts import reliability
from fastlloyd.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")

_NOT_COVERED = facts.sentence(plan_facts.NOT_COVERED)
DOMAIN = Domain(features=("age", "dose, mg"), lower=(0.0, -1.0), upper=(100.0, 3.0))


def _result(
    algorithm: Algorithm = FASTLLOYD, *, epsilon: float = 1.0, n: int = 400, seed: int = 5
) -> Result:
    m = design_mechanism(
        algorithm,
        DOMAIN,
        n_clusters=3,
        n_records=500,
        epsilon=epsilon,
        public_seed=PublicSeed.from_int(5),
    )
    X = DOMAIN.to_grid(np.random.default_rng(1).uniform([0, -1], [100, 3], (n, 2)))
    clustering = central.cluster(m, LocalRecords(m.domain, X), SeededNoise(seed))
    return Result.of(m, clustering, uncertainty.noise_deviation(m))


def _federated(result: Result) -> Result:
    plan = design_plan(
        FASTLLOYD,
        DOMAIN,
        clients=tuple(Client(name=name, max_records=100) for name in ("a", "b", "c")),
        run_id=bytes(16),
        n_clusters=3,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(5),
        max_dropouts=1,
        masks=Masks.GROUP,
    )
    return Result(
        mechanism=plan.clustering,
        centroids=result.centroids,
        noisy_counts=result.noisy_counts,
        count_error=result.count_error,
        accuracy=result.accuracy,
        plan=plan,
        included=(("a", "b", "c"), ("a", "c")),
        unconfirmed=("b",),
    )


def _leaking(result: Result, sentence: str) -> Result:
    taken = msgspec.structs.replace(result.mechanism, taken_from_the_data=(sentence,))
    return msgspec.structs.replace(result, mechanism=taken)


def _strict(text: str) -> Any:
    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_the_table_of_centroids_has_the_digits_that_their_errors_warrant_and_the_other_file_has_all() -> (
    None
):
    result = _result(epsilon=20.0)
    header, *rows = csv.reader(io.StringIO(centroids_csv(result)))
    assert header == [
        "cluster",
        "age",
        "dose, mg",
        "noisy_count",
        "se_age",
        "se_dose, mg",
        "se_noisy_count",
        "radius_age",
        "radius_dose, mg",
        "status",
    ]
    assert result.updated.any()
    exact = _strict(centroids_json(result))
    assert exact["features"] == ["age", "dose, mg"]
    for number, (row, cluster) in enumerate(zip(rows, exact["clusters"], strict=True)):
        centroid, count, errors = (
            result.centroids[number],
            result.noisy_counts[number],
            result.errors[number],
        )
        assert (int(row[0]), cluster["cluster"]) == (number, number)
        assert (cluster["centroid"], cluster["noisy_count"]) == (centroid.tolist(), count)
        assert cluster["noisy_count_standard_error"] == result.count_error
        assert cluster["status"] == row[-1] == result.accuracy.status[number].value
        assert cluster["standard_errors"] == (errors.tolist() if result.updated[number] else None)
        exact_cells = [*centroid, count, *errors, result.count_error]
        for cell, value, error in zip(
            row[1:-3], exact_cells, [*errors, result.count_error] * 2, strict=True
        ):
            if cell and np.isfinite(error):
                assert abs(float(cell) - value) <= 0.05 * error
                assert len(cell.strip("-0.").replace(".", "")) <= 7


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (12.3456, 0.5612, 12.35),
        (30269.6, 170.3, 30270.0),
        (0.5612, 0.5612, 0.56),
        (62.61234567, 0.0, 62.6123),
        (62.61234567, math.nan, 62.6123),
        (-0.04, 1.0, 0.0),
        (1234.5, 5e4, 1000.0),
    ],
)
def test_a_number_keeps_the_digits_down_to_the_second_of_its_error(
    value: float, error: float, expected: float
) -> None:
    assert precision.rounded(value, error) == expected
    assert math.copysign(1, precision.rounded(value, error)) == math.copysign(1, expected)


@given(
    st.lists(
        st.sampled_from(
            [
                "cluster",
                "noisy_count",
                "privacy",
                "se_age",
                "age",
                "se_se_age",
                "feature_cluster",
                "se_feature_cluster",
                "se_cluster",
                "se_noisy_count",
                "status",
                "radius_age",
                "beyond_age",
                "radius_feature_cluster",
            ]
        ),
        unique=True,
        min_size=1,
    ),
    st.booleans(),
)
def test_no_two_columns_of_the_table_are_called_alike_whatever_the_features_are_called(
    names: list[str], has_figures: bool
) -> None:
    d = len(names)
    domain = Domain(features=tuple(names), lower=(0.0,) * d, upper=(1.0,) * d)
    m = design_mechanism(
        LLOYD, domain, n_clusters=1, n_records=9, epsilon=1.0, public_seed=PublicSeed.from_int(5)
    )
    result = Result(
        mechanism=m,
        centroids=np.full((1, d), 0.5),
        noisy_counts=np.ones(1),
        count_error=0.0,
        accuracy=Accuracy(
            errors=np.zeros((1, d)),
            status=(Status.SETTLED,),
            radius=np.ones(d) if has_figures else None,
            beyond=np.ones((1, d)) if has_figures else None,
        ),
    )
    header, row = csv.reader(io.StringIO(centroids_csv(result)))
    assert len(set(header)) == len(header) == len(row) == (4 if has_figures else 2) * d + 5
    assert (header[0], header[d + 1], header[-1]) == ("cluster", "noisy_count", "privacy")
    assert all(
        column in (name, f"feature_{name}", f"feature_feature_{name}")
        for column, name in zip(header[1:], names, strict=False)
    )
    beside = [d + 2, 2 * d + 3, 3 * d + 3] if has_figures else [d + 2]
    for first, prefix in zip(beside, ("se", "radius", "beyond"), strict=False):
        assert [f"{prefix}_{column}" for column in header[1 : d + 1]] == header[first : first + d]
    assert _strict(centroids_json(result))["features"] == names


def test_standard_errors_are_empty_where_a_centroid_stayed() -> None:
    result = _result(epsilon=0.001, seed=7)
    assert 0 < result.updated.sum() < 3
    rows = list(csv.reader(io.StringIO(centroids_csv(result))))[1:]
    clusters = result.summary()["clusters"]
    for row, cluster, updated in zip(rows, clusters, result.updated, strict=True):
        assert (row[4:6] == ["", ""]) == (not updated)
        assert (cluster["standard_errors"] is None) == (not updated)


def test_the_settings_in_the_folder_are_those_of_the_run() -> None:
    result = _result()
    written = result.files()
    assert set(written) == {"centroids.csv", "centroids.json", "privacy.json", "mechanism.toml"}
    assert LloydMechanism.from_toml(written["mechanism.toml"].decode()) == result.mechanism
    federated = _federated(result)
    written = federated.files()
    assert set(written) == {
        "centroids.csv",
        "centroids.json",
        "privacy.json",
        "plan.toml",
        "rounds.json",
    }
    assert Plan.from_toml(written["plan.toml"].decode()) == federated.plan
    assert _strict(written["rounds.json"].decode()) == [
        {"round": 1, "included": ["a", "b", "c"]},
        {"round": 2, "included": ["a", "c"]},
    ]
    assert _strict(written["privacy.json"].decode())["federated"]["unconfirmed"] == ["b"]


def test_rounds_that_are_doubted_are_named_in_the_statement_and_on_the_screen_and_otherwise_nothing_is_said() -> (
    None
):
    believed = _federated(_result())
    assert believed.doubts == []
    for rounds in ((2,), (1, 2)):
        doubted = msgspec.structs.replace(believed, doubtful=rounds)
        (sentence,) = doubted.doubts
        assert all(str(number) in sentence for number in rounds)
        written = doubted.files()
        marked = [
            round["round"]
            for round in _strict(written["rounds.json"].decode())
            if round.get("doubtful")
        ]
        assert marked == list(rounds)
        assert _strict(written["privacy.json"].decode())["cautions"] == [
            *believed.statement()["cautions"],
            sentence,
        ]
        fine = reliability(believed)
        more = [fact for fact in reliability(doubted) if fact not in fine]
        assert more == [Fact.of("warning", caution=sentence)]


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0, 1e4])
def test_the_summary_is_strict_json_that_reads_back_exactly(epsilon: float) -> None:
    result = _result(epsilon=epsilon)
    read = _strict(to_json(result.summary()))
    assert [cluster["centroid"] for cluster in read["clusters"]] == result.centroids.tolist()
    counts = [cluster["noisy_count"] for cluster in read["clusters"]]
    assert counts == result.noisy_counts.tolist()
    in_ones = result.mechanism.number_bits == 0
    assert {type(count) for count in counts} == {int if in_ones else float}
    assert {cluster["noisy_count_standard_error"] for cluster in read["clusters"]} == {
        result.count_error
    }
    assert read["privacy"] == _strict(result.files()["privacy.json"].decode())
    assert (read["private"], read["privacy"]["epsilon"]) == (True, epsilon)


def test_what_leaked_stands_in_the_statement() -> None:
    result = _result()
    leaking = _leaking(result, "bounds leak")
    federated = _federated(result)
    taken = msgspec.structs.replace(federated.mechanism, taken_from_the_data=("bounds leak",))
    assert federated.plan is not None
    of_plan = msgspec.structs.replace(federated.plan, mechanism=taken)
    federated = msgspec.structs.replace(federated, mechanism=taken, plan=of_plan)
    for said in map(Result.statement, (leaking, federated)):
        assert (said["private"], said["taken_from_the_data"], said["protected"]) == (
            False,
            ["bounds leak"],
            [],
        )
        assert said["cautions"][0] == _NOT_COVERED
        assert said["outside_the_guarantee"][0]["code"] == "taken_from_the_data"
    assert result.statement()["taken_from_the_data"] == []
    assert result.statement()["private"] is result.summary()["private"] is True
    assert leaking.summary()["private"] is False


def test_every_file_of_a_run_without_noise_says_not_private() -> None:
    for name, content in _result(LLOYD).files().items():
        assert b"NOT PRIVATE" in content, name
    for name, content in _result().files().items():
        assert b"NOT PRIVATE" not in content, name


def test_a_marked_mechanism_still_reads_back() -> None:
    result = _result(LLOYD)
    assert LloydMechanism.from_toml(result.files()["mechanism.toml"].decode()) == result.mechanism


def test_every_file_of_a_run_with_bounds_from_the_data_says_that_they_are_not_covered() -> None:
    # three centroids give the widths of the bounds away by their digits alone, so the table needs
    # the mark of its own
    leaking = _leaking(_result(), "bounds were taken from the data")
    texts = {name: content.decode() for name, content in leaking.files().items()}
    assert texts.keys() == {"centroids.csv", "centroids.json", "privacy.json", "mechanism.toml"}
    for name in ("centroids.csv", "centroids.json", "mechanism.toml"):
        assert _NOT_COVERED in texts[name]
        assert _NOT_COVERED not in _result().files()[name].decode()
    assert LloydMechanism.from_toml(texts["mechanism.toml"]) == leaking.mechanism
    header, *rows = csv.reader(io.StringIO(texts["centroids.csv"]))
    assert header[-1] == "privacy"
    assert {row[-1] for row in rows} == {_NOT_COVERED}


def test_the_estimate_of_the_loss_stands_in_the_statement_with_all_that_it_means() -> None:
    m = design_mechanism(
        FASTLLOYD, DOMAIN, n_clusters=3, n_records=500, epsilon=1.0, public_seed=PublicSeed.from_int(5),
        n_expected=400, estimate_loss=True, loss_share=0.1,
    )  # fmt: skip
    clustering = central.cluster(
        m, LocalRecords(m.domain, DOMAIN.to_grid([[50.0, 1.0]] * 300)), SeededNoise(0)
    )
    noise = uncertainty.noise_deviation(m)
    result = Result.of(m, clustering, noise, loss=uncertainty.loss_estimate(m, clustering))
    said = result.statement()
    stated, loss, answer = said["loss_estimate"], m.loss, clustering.loss
    assert loss is not None
    assert answer is not None
    unit = 2**loss.shift / 4**16
    assert stated["value"] == answer * unit == 400 * stated["per_expected_record"]
    assert stated["standard_error"] == float(loss.scale) * unit
    assert stated["cap"] == pytest.approx(stated["cap_distance"] ** 2) == loss.squared_cap / 4**16
    assert stated["share_of_budget"] == pytest.approx(0.1, rel=1e-6)
    assert (stated["sensitivity"], stated["noise_scale_exact"]) == (loss.cap, str(loss.scale))
    assert facts.sentence(Fact.of("protected_loss")) in said["protected"]
    assert result.summary()["privacy"] == said
    assert _result().statement()["loss_estimate"] is None
