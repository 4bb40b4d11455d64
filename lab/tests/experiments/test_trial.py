"""Tests of single trials: the product's four methods, the measures, and failures."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.errors import DataError, PlanError
from fastlloyd_lab.experiments.measures import MEASURES
from fastlloyd_lab.experiments.methods import METHODS, Method, Outcome, Setting, check_option
from fastlloyd_lab.experiments.problem import Problem, load_problem, make_problem
from fastlloyd_lab.experiments.trial import Trial, perform, run_trial

RNG = np.random.default_rng(3)
RAW = np.vstack([RNG.normal(centre, 1, (60, 3)) * (1, 10, 100) for centre in (0, 8)])
PROBLEM = make_problem("two", RAW, 2)
TRIAL = Trial(
    dataset="two",
    method="fastlloyd",
    method_source="fastlloyd",
    epsilon=1.0,
    delta="paper",
    clients=1,
    preset="paper",
    options={},
    run=0,
    measures=("nicv", "centroid_mse", "n_empty"),
    seed=1,
)


def setting(**changed: Any) -> Setting:
    fields: dict[str, Any] = {
        "epsilon": 1.0,
        "delta": 1e-3,
        "clients": 1,
        "preset": "paper",
        "public_seed": PublicSeed.from_int(5),
        "noise_seed": 2**256 - 7,
    }
    return Setting(**(fields | changed))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("clients", [2, 5])
def test_the_central_model_and_a_federated_run_give_the_same_centroids_bit_for_bit(
    name: str, clients: int
) -> None:
    central, federated = (METHODS[name].cluster(PROBLEM, setting(clients=n)) for n in (1, clients))
    assert np.array_equal(central.centroids, federated.centroids)
    assert central.n_iterations == federated.n_iterations


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"alpha": 0.8}, False),  # what FastLloyd is without options
        ({"alpha": 0.3}, True),
        ({"radius": "step", "postprocessing": "fold", "clipping": True}, False),
        ({"radius": "constant"}, True),
        ({"clipping": False}, True),
        ({"preset": "paper"}, False),
        ({"preset": "default"}, True),
        ({"initialization": "halving"}, False),
        ({"initialization": "bisection"}, True),
    ],
)
def test_an_option_is_the_field_of_the_algorithm_or_of_its_start(
    options: dict[str, Any], changes: bool
) -> None:
    plain, swept = (
        METHODS["fastlloyd"].cluster(PROBLEM, setting(options=o, epsilon=0.05))
        for o in ({}, options)
    )
    assert np.array_equal(plain.centroids, swept.centroids) is not changes


def test_only_fastlloyd_takes_the_options_of_the_ablation() -> None:
    takers = {name for name, method in METHODS.items() if "alpha" in method.options}
    assert takers == {"fastlloyd"}
    assert {name for name, method in METHODS.items() if not method.private} == {"lloyd"}


@pytest.mark.parametrize("name", ["glloyd", "fastlloyd", "momentlloyd"])
def test_clients_who_add_the_noise_themselves_are_an_option_of_federated_methods(name: str) -> None:
    by_server, unsaid, by_clients = (
        METHODS[name].cluster(PROBLEM, setting(options=options, clients=3)).centroids
        for options in ({"trust": "server-noise"}, {}, {"trust": "client-noise"})
    )
    assert np.array_equal(by_server, unsaid)
    assert not np.array_equal(by_server, by_clients)
    with pytest.raises(PlanError, match="clients = 2"):
        METHODS[name].cluster(PROBLEM, setting(options={"trust": "client-noise"}, clients=1))
    with pytest.raises(PlanError, match="trust 'nobody' is"):
        check_option("trust", "nobody")


def test_options_of_other_methods_are_not_judged() -> None:
    check_option("rounds", 7)


@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 2**32 - 1), st.integers(-3, 6))
def test_records_fill_the_box_and_a_constant_feature_is_0(
    n: int, d: int, seed: int, power: int
) -> None:
    raw = np.random.default_rng(seed).normal(size=(n, d)) * 10.0**power
    raw[:, 0] = raw[0, 0]
    problem = make_problem("x", raw, 1)
    assert not problem.X[:, 0].any()
    assert not problem.grid[:, 0].any()
    assert np.abs(problem.X).max(initial=0) <= 1
    if n > 1:
        assert (problem.X[:, 1:].max(axis=0) == 1).all()
        assert (problem.X[:, 1:].min(axis=0) == -1).all()
    assert np.abs(problem.grid / 2**problem.domain.fraction_bits - problem.X).max() <= 2.0**-16


@pytest.mark.parametrize("low", [-1.7e308, -5e-324, 0.0, 1.0])
@pytest.mark.parametrize("high", [1e-300, 1 + 2**-52, 1.7e308])
def test_any_range_of_floats_fills_the_box(low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    problem = make_problem("x", np.array([[high, low], [high, high]]), 1)
    assert np.array_equal(problem.X, [[0, -1], [0, 1]])


@pytest.mark.parametrize("values", [np.zeros((0, 2)), np.zeros(3), np.array([[np.nan]])])
def test_records_that_are_no_table_of_finite_numbers_are_refused(values: FloatArray) -> None:
    with pytest.raises(DataError, match=r"a table|finite numbers"):
        make_problem("x", values, 1)


@pytest.mark.parametrize("k", [0, 4])
def test_more_clusters_than_records_or_none_are_refused(k: int) -> None:
    with pytest.raises(DataError, match="n_clusters"):
        make_problem("x", np.eye(3), k)


@given(st.integers(1, 6), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_a_set_is_refused_exactly_where_its_distinct_records_are_fewer_than_its_clusters(
    k: int, n: int, seed: int
) -> None:
    values = np.random.default_rng(seed).integers(0, 3, (n, 1)).astype(np.float64)
    distinct = len({float(value) for value in values[:, 0]})
    if distinct >= k:
        assert make_problem("x", values, k).n_clusters == k
    else:
        with pytest.raises(DataError, match="n_clusters"):
            make_problem("x", values, k)


def test_a_set_of_code_is_a_pair_or_a_function_that_gives_one(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "PAIR = ([[0.0], [1.0]], 2)\n\ndef made():\n    return PAIR\n\nNONE = 3\nTEXT = (['a'],"
        " 1)\n"
    )
    pair, made = (load_problem(f"s.py:{name}", tmp_path) for name in ("PAIR", "made"))
    assert pair.digest == made.digest
    assert pair.n_clusters == 2
    with pytest.raises(DataError, match="no pair"):
        load_problem("s.py:NONE", tmp_path)
    with pytest.raises(DataError, match="no numbers"):
        load_problem("s.py:TEXT", tmp_path)


def test_a_trial_gives_the_same_row_whenever_it_runs() -> None:
    rows = [
        run_trial(TRIAL, METHODS["fastlloyd"], problem)
        for problem in (PROBLEM, make_problem("two", RAW, 2))
    ]
    assert rows[0].pop("seconds") >= 0
    assert rows[1].pop("seconds") >= 0
    assert rows[0] == rows[1]
    assert rows[0]["status"] == "ok"
    assert rows[0]["delta"] == 1 / (120 * math.log(120))


def test_the_measures_of_a_row_are_those_of_its_centroids() -> None:
    row = run_trial(TRIAL, METHODS["fastlloyd"], PROBLEM)
    outcome = METHODS["fastlloyd"].cluster(
        PROBLEM,
        setting(delta=row["delta"], public_seed=TRIAL.public_seed, noise_seed=TRIAL.noise_seed),
    )
    nearest = ((PROBLEM.X[:, np.newaxis] - outcome.centroids) ** 2).sum(axis=2).min(axis=1)
    assert row["nicv"] == pytest.approx(nearest.mean(), rel=1e-12)
    assert set(row) >= set(TRIAL.measures)


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_a_number_on_the_reference_centroids(name: str) -> None:
    value = MEASURES[name].compute(PROBLEM, PROBLEM.reference)
    assert isinstance(value, float)
    assert not math.isnan(value)


def test_the_reference_is_at_distance_0_of_itself_and_leaves_no_cluster_empty() -> None:
    assert MEASURES["centroid_mse"].compute(PROBLEM, PROBLEM.reference[::-1]) == 0
    assert MEASURES["n_empty"].compute(PROBLEM, PROBLEM.reference) == 0


def method(cluster: Callable[[Problem, Setting], Any]) -> Method:
    return Method(name="mine", label="mine", cluster=cluster)


HALF = np.array([[0.0, 0.0, 0.0], [0.0, np.nan, 0.0]])


@pytest.mark.parametrize(
    ("centroids", "reason"),
    [
        (
            np.zeros((3, 3)),
            "method 'mine' returned centroids of shape (3, 3); expected float64 of shape (2, 3)",
        ),
        (HALF, "method 'mine' returned centroids with NaN in 1 of 2 rows"),
        (
            np.full((2, 3), -np.inf),
            "method 'mine' returned centroids with an infinite coordinate in 2 of 2 rows",
        ),
        (None, "method 'mine' returned centroids that are None"),
        ([[0, 0, 0], [0, 0]], "method 'mine' returned centroids that are no array"),
        ([["0"] * 3] * 2, "method 'mine' returned centroids that are str"),
        (
            np.zeros((2, 3), dtype=complex),
            "method 'mine' returned centroids that are complex128 values",
        ),
        (np.full((2, 3), 1e200), "float64"),  # finite, and too far away to be measured
    ],
    ids=["shape", "nan", "infinite", "none", "ragged", "text", "complex", "far"],
)
def test_centroids_that_cannot_be_measured_make_a_failed_row(centroids: Any, reason: str) -> None:
    row = run_trial(TRIAL, method(lambda *_: Outcome(centroids=centroids, n_iterations=1)), PROBLEM)
    assert row["status"] == "failed"
    assert reason in row["error"]
    assert "nicv" not in row
    assert row["n_records"] == 120


@pytest.mark.parametrize(
    "n_iterations", [None, "5", -1, 5.0, True, math.nan, 2**70, np.array([1, 2])]
)
def test_a_number_of_iterations_that_is_none_makes_a_failed_row(n_iterations: Any) -> None:
    row = run_trial(
        TRIAL,
        method(lambda *_: Outcome(centroids=PROBLEM.reference, n_iterations=n_iterations)),
        PROBLEM,
    )
    assert row["status"] == "failed"
    assert "method 'mine' returned n_iterations" in row["error"]
    assert "expected a whole number, 0 or more" in row["error"]


@pytest.mark.parametrize("outcome", [None, PROBLEM.reference, (PROBLEM.reference, 5)])
def test_what_is_no_outcome_makes_a_failed_row(outcome: Any) -> None:
    row = run_trial(TRIAL, method(lambda *_: outcome), PROBLEM)
    assert "expected an Outcome of centroids and n_iterations" in row["error"]


def test_whole_numbers_of_numpy_and_lists_of_numbers_are_what_they_stand_for() -> None:
    # a list
    given = Outcome(centroids=PROBLEM.reference.tolist(), n_iterations=np.int64(5))  # type: ignore[arg-type]
    listed, array = (
        run_trial(TRIAL, method(lambda *_, o=outcome: o), PROBLEM)
        for outcome in (given, Outcome(centroids=PROBLEM.reference, n_iterations=5))
    )
    assert listed | {"seconds": 0} == array | {"seconds": 0}
    assert msgspec.msgpack.encode(listed | {"seconds": 0}) == msgspec.msgpack.encode(
        array | {"seconds": 0}
    )


def test_what_a_method_raises_is_one_sentence_of_its_row() -> None:
    def broken(problem: Problem, setting: Setting) -> Outcome:
        raise RuntimeError("two\nlines")

    row = run_trial(TRIAL, method(broken), PROBLEM)
    assert (row["status"], row["error"]) == ("failed", "RuntimeError: two lines")


@pytest.mark.parametrize(
    "raised", [SystemExit("enough"), SystemExit(0), KeyboardInterrupt()], ids=repr
)
def test_a_method_that_would_end_the_process_fails_its_trial(raised: BaseException) -> None:
    def ending(problem: Problem, setting: Setting) -> Outcome:
        raise raised

    row = run_trial(TRIAL, method(ending), PROBLEM)
    assert row["status"] == "failed"
    said = f"sys.exit({raised.code!r})" if isinstance(raised, SystemExit) else "KeyboardInterrupt"
    assert said in row["error"]


def test_a_set_that_cannot_be_had_fails_its_trials(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text("def absent():\n    raise OSError('no network')\n")
    report = perform(msgspec.structs.replace(TRIAL, dataset="s.py:absent"), tmp_path)
    assert (report.row["status"], report.row["error"]) == ("failed", "OSError: no network")
    assert report.digest == ""
