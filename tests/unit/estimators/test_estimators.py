"""The four estimators: parameters, warnings, attributes, and agreement with the central driver."""

import inspect
import json
import pickle
import re
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fastlloyd import (
    FastLloyd,
    FastLloydError,
    GLloyd,
    Lloyd,
    MomentLloyd,
    NoisyResultWarning,
    PrivacyLeakWarning,
    SuLloyd,
)
from fastlloyd.errors import (
    BudgetError,
    ClippedRecordsWarning,
    DataError,
    PlanError,
    WeakGuaranteeWarning,
)
from fastlloyd.evaluation.metrics import wcss
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.moment_lloyd.rounds import StepRound
from fastlloyd.records.declared import AMBIGUOUS
from fastlloyd.testing import SeededNoise
from refusals import raises_code

pytestmark = pytest.mark.usefixtures("repeatable_noise")

X = load_iris().data
BOUNDS = ([4, 2, 1, 0], [8, 5, 7, 3])
PUBLIC: dict[str, Any] = {"bounds": BOUNDS, "n_records": 200, "random_state": 0}
ESTIMATORS = [MomentLloyd, FastLloyd, GLloyd, SuLloyd, Lloyd]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_with_public_settings_nothing_leaks_and_nothing_warns(kind: type[FastLloyd]) -> None:
    model = kind(3, **PUBLIC).fit(X)
    assert model.cluster_centers_.shape == (3, 4)
    assert model.noisy_counts_.shape == (3,)
    rounds: tuple[object, ...] = model.mechanism_.rounds
    assert model.n_iter_ == sum(isinstance(round, LloydRound | StepRound) for round in rounds) >= 2
    assert model.n_features_in_ == 4
    assert model.privacy_spent_["taken_from_the_data"] == []
    assert model.privacy_spent_["private"] is (kind is not Lloyd)


@pytest.mark.parametrize("scaling", ["per-feature", "common"])
@pytest.mark.parametrize(
    ("bounds", "used"),
    [
        (BOUNDS, [[4, 8], [2, 5], [1, 7], [0, 3]]),
        ((0, 8), 4 * [[0, 8]]),
        (None, np.column_stack([X.min(axis=0), X.max(axis=0)]).tolist()),
    ],
)
@pytest.mark.filterwarnings(f"ignore::{PrivacyLeakWarning.__module__}.PrivacyLeakWarning")
def test_the_bounds_that_a_fit_used_are_an_attribute(
    bounds: Any, used: list[list[float]], scaling: str
) -> None:
    model = FastLloyd(3, **PUBLIC | {"bounds": bounds, "scaling": scaling})
    assert not hasattr(model, "bounds_")
    model.fit(X).bounds_[:] = 0  # a copy
    assert (model.bounds_.dtype, model.bounds_.shape) == (np.dtype(np.float64), (4, 2))
    assert model.bounds_.tolist() == used
    assert "bounds_" in dir(model)


@pytest.mark.parametrize(
    ("given", "leaks"),
    [
        ({}, ["bounds", "n_records", "delta"]),
        ({"bounds": BOUNDS}, ["n_records", "delta"]),
        ({"bounds": BOUNDS, "delta": 1e-6}, ["n_records"]),
        ({"n_records": 200}, ["bounds"]),
    ],
)
def test_what_is_taken_from_the_data_is_named_in_a_warning(
    given: dict[str, Any], leaks: list[str]
) -> None:
    with pytest.warns(PrivacyLeakWarning) as caught:
        model = FastLloyd(3, **given).fit(X)
    [message] = [
        str(warning.message) for warning in caught if warning.category is PrivacyLeakWarning
    ]
    assert all(leak in message for leak in leaks)
    assert all(leak in message or leak not in ("bounds", "n_records", "delta") for leak in leaks)
    assert ("delta" in message) is ("delta" in leaks)
    assert "; ".join(model.privacy_spent_["taken_from_the_data"]) in message
    assert model.privacy_spent_["private"] is False
    assert model.privacy_spent_["protected"] == []
    assert model.privacy_spent_["cautions"][0].startswith(
        "NOT PRIVATE: settings were taken from the data"
    )
    assert "private=False" in repr(model.privacy_spent_)
    assert {warning.category for warning in caught} <= {PrivacyLeakWarning, NoisyResultWarning}


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise in every run of a test."""
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(0))


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("kind", [MomentLloyd, FastLloyd, GLloyd, SuLloyd])
def test_a_fit_whose_noise_dominates_says_so_at_the_callers_line(kind: type[FastLloyd]) -> None:
    with pytest.warns(NoisyResultWarning, match="The noise dominates") as caught:
        kind(3, epsilon=1e-3, **PUBLIC).fit(X)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.filterwarnings("ignore:epsilon is 1(000|e.09):fastlloyd.errors.WeakGuaranteeWarning")
@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("kind", [MomentLloyd, FastLloyd, GLloyd, SuLloyd])
def test_a_fit_with_little_noise_does_not_say_so_however_many_clusters_are_empty(
    kind: type[FastLloyd],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoisyResultWarning)
        kind(3, epsilon=1e3, delta=1e-6, **PUBLIC).fit(X)
        model = kind(8, epsilon=1e9, delta=1e-6, **PUBLIC).fit(X[:2])
        assert Lloyd(8, **PUBLIC).fit(X[:2]).noisy_counts_.max() <= 2  # no noise at all
    assert (model.noisy_counts_ < 0.5).sum() >= 6


@pytest.mark.usefixtures("seeded")
def test_a_warning_made_an_error_leaves_the_results_that_were_paid_for() -> None:
    model = FastLloyd(3, epsilon=1e-3, **PUBLIC)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoisyResultWarning)
        with pytest.raises(NoisyResultWarning):
            model.fit(X)
    assert model.predict(X).shape == (150,)
    assert model.privacy_spent_["epsilon"] <= 1e-3


@pytest.mark.parametrize("kind", [FastLloyd, GLloyd, SuLloyd])
def test_random_state_seeds_the_start_and_never_the_noise(kind: type[FastLloyd]) -> None:
    first, second = (kind(3, epsilon=0.01, **PUBLIC).fit(X) for _ in range(2))
    assert np.array_equal(
        first.mechanism_.initial_centroids(), second.mechanism_.initial_centroids()
    )
    # Given all else, the difference of the two noises on one count takes no value with probability
    # above 1 / (2 b) (two-sided geometric) or 1 / (3 b) (Gaussian), b its scale, and the noises on
    # three counts are independent.
    assert (1 / (2 * first.mechanism_.rounds[-1].count_scale)) ** 3 < 1e-9
    assert not np.array_equal(first.noisy_counts_, second.noisy_counts_)
    other = kind(3, **PUBLIC | {"random_state": 1}).fit(X)
    assert not np.array_equal(
        first.mechanism_.initial_centroids(), other.mechanism_.initial_centroids()
    )


def test_a_random_state_instance_moves_on_from_fit_to_fit_and_can_be_repeated() -> None:
    def seeds() -> list[str]:
        state = np.random.RandomState(0)
        models = [FastLloyd(3, **PUBLIC | {"random_state": state}) for _ in range(2)]
        return [model.fit(X).mechanism_.public_seed for model in (*models, models[0])]

    assert len(set(seeds())) == 3
    assert seeds() == seeds()
    assert FastLloyd(3, **PUBLIC | {"random_state": np.int64(0)}).fit(X).mechanism_.public_seed == (
        FastLloyd(3, **PUBLIC).fit(X).mechanism_.public_seed
    )


def test_without_random_state_every_fit_starts_elsewhere() -> None:
    seeds = {
        FastLloyd(3, **PUBLIC | {"random_state": None}).fit(X).mechanism_.public_seed
        for _ in range(3)
    }
    assert len(seeds) == 3


def test_predict_transform_and_score_agree() -> None:
    model = FastLloyd(3, **PUBLIC)
    labels = model.fit_predict(X)
    assert labels is model.labels_
    assert labels.dtype == model.predict(X).dtype == np.int32
    distances = model.transform(X)
    assert np.array_equal(labels, model.predict(X))
    assert np.array_equal(labels, distances.argmin(axis=1))
    assert model.score(X) == pytest.approx(-(distances.min(axis=1) ** 2).sum(), rel=1e-12)
    domain = model.mechanism_.domain
    scaled = domain.to_grid(X) / 2**domain.fraction_bits
    centres = (
        domain.to_grid(model.cluster_centers_) / 2**domain.fraction_bits
    )  # folded: none lies outside the bounds
    assert -model.score(X) == pytest.approx(wcss(scaled, centres), rel=1e-12)


def test_lloyd_is_the_same_loop_without_noise() -> None:
    model = Lloyd(3, **PUBLIC).fit(X)

    class Silence:
        private = False

        def gaussian(self, *_: object) -> np.ndarray[Any, np.dtype[np.int64]]:
            raise AssertionError

        two_sided_geometric = gaussian

    grid = model.mechanism_.domain.to_grid(X)
    again = cluster(model.mechanism_, LocalRecords(model.mechanism_.domain, grid), Silence())
    assert np.array_equal(
        model.mechanism_.domain.from_grid(again.centroids), model.cluster_centers_
    )
    assert model.noisy_counts_.sum() == len(X)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_standard_errors_are_in_the_units_of_each_feature_and_shrink_with_epsilon(
    kind: type[FastLloyd],
) -> None:
    many = np.repeat(X, 100, axis=0)
    public: dict[str, Any] = {"n_records": 20_000, "random_state": 0}
    if kind is Lloyd:
        assert not Lloyd(3, bounds=BOUNDS, **public).fit(many).cluster_centers_std_.any()
        return
    rough, fine = (
        kind(3, epsilon=epsilon, bounds=BOUNDS, **public).fit(many) for epsilon in (0.2, 5.0)
    )
    assert rough.cluster_centers_std_.shape == (3, 4)
    # With 25 times the epsilon sigma is a fifteenth or less; counts and radii differ by less than
    # 3. Not all of MomentLloyd's errors is noise: what lies beyond its radius does not shrink with
    # sigma.
    times = 1.5 if kind is MomentLloyd else 3
    assert (
        0
        < times * np.nanmedian(fine.cluster_centers_std_)
        < np.nanmedian(rough.cluster_centers_std_)
    )
    low, high = (np.array(end) / 2.54 for end in BOUNDS)
    inches = kind(3, epsilon=5.0, bounds=(low, high), **public).fit(many / 2.54)
    ratio = np.nanmedian(fine.cluster_centers_std_) / np.nanmedian(inches.cluster_centers_std_)
    assert 1.3 < ratio < 5


@pytest.mark.parametrize(
    ("estimator", "bits"),
    [
        *((kind, 16) for kind in (FastLloyd, SuLloyd, Lloyd, MomentLloyd)),
        (GLloyd, 13),
        (partial(GLloyd, preset="paper"), 16),
        (partial(GLloyd, fraction_bits=15), 15),
        (partial(FastLloyd, fraction_bits=15), 15),
    ],
)
def test_the_grid_is_the_papers_but_that_of_glloyd(
    estimator: Callable[..., FastLloyd], bits: int
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuaranteeWarning)  # the paper's delta
        assert estimator(3, **PUBLIC).fit(X).mechanism_.domain.fraction_bits == bits


def test_where_all_noise_rounds_to_zero_glloyd_is_lloyd() -> None:
    with pytest.warns(WeakGuaranteeWarning, match="hardly any protection"):
        private = GLloyd(3, epsilon=1e15, delta=1e-6, fraction_bits=16, **PUBLIC).fit(
            X
        )  # on the grid of Lloyd
    # one of 7 * 3 * 5 values is not 0 with probability 105 * 2 Phi(-25) < 1e-130
    assert all(
        max(round.sum_scale, round.count_scale) < 0.02 for round in private.mechanism_.rounds
    )
    plain = Lloyd(3, **PUBLIC).fit(X)
    assert np.array_equal(private.cluster_centers_, plain.cluster_centers_)
    assert np.array_equal(private.noisy_counts_, plain.noisy_counts_)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"n_clusters": 0}, PlanError, "n_clusters is 0"),
        ({"n_clusters": 201}, PlanError, "n_clusters is 201"),
        ({"n_clusters": "3"}, PlanError, "n_clusters is '3'; expected an integer"),
        ({"epsilon": 0}, BudgetError, "epsilon is 0"),
        ({"epsilon": float("nan")}, BudgetError, "epsilon is nan"),
        ({"epsilon": "1"}, PlanError, "epsilon is '1'; expected a number"),
        ({"epsilon": None}, PlanError, "epsilon is None; expected a number"),
        ({"fraction_bits": "16"}, PlanError, "fraction_bits is '16'; expected an integer"),
        ({"delta": 1.0}, BudgetError, "delta is 1.0"),
        ({"delta": 0}, BudgetError, "delta is 0"),
        ({"bounds": ([8, 5, 7, 3], [4, 2, 1, 0])}, PlanError, "reversed"),
        ({"bounds": ([0, 0], [1, 1])}, PlanError, "bounds are not a pair"),
        (
            {"bounds": ([0, 0, 0, 0], [8])},
            PlanError,
            "bounds are not a pair (lower, upper) of numbers or arrays of length 4",
        ),
        ({"bounds": ("0", "8")}, PlanError, "bounds are not a pair"),
        ({"bounds": "08"}, PlanError, "bounds are not a pair"),
        ({"bounds": (["0", "0", "0", "0"], 8)}, PlanError, "bounds are not a pair"),
        ({"bounds": (0, 0)}, PlanError, "are equal"),
        ({"bounds": 3}, PlanError, "bounds are not a pair"),
        ({"n_records": 149}, DataError, "more records than the cap of 149"),
        (
            {"n_records": 0},
            PlanError,
            "n_records is 0, the cap on the number of records",
        ),
        ({"n_expected": 201}, PlanError, "n_expected is 201, above n_records"),
        ({"preset": "papr"}, PlanError, "did you mean 'paper'"),
        ({"scaling": "comon"}, PlanError, "did you mean 'common'"),
        ({"radius": "steps"}, PlanError, "did you mean 'step'"),
        ({"noise": "none"}, PlanError, "use the algorithm lloyd"),
        ({"n_iter": 0}, PlanError, "n_iter"),
        ({"n_iter": 1.5}, PlanError, "n_iter is 1.5; expected an integer"),
        ({"alpha": 0}, PlanError, "alpha is 0"),
        ({"min_count": -1}, PlanError, "min_count is -1"),
        ({"fraction_bits": 30}, PlanError, "fraction_bits 30"),
        ({"random_state": -1}, PlanError, "seed"),
    ],
)
def test_nonsense_is_refused_with_the_name_of_the_parameter(
    given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)) as caught:
        FastLloyd(**{"n_clusters": 3} | PUBLIC | given).fit(X)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, FastLloydError)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, object])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(poison: float, kind: type) -> None:
    records = X.astype(kind)
    records[17, 2] = poison
    words = (
        "X contains NaN, which stands for"
        if np.isnan(poison)
        else "X contains infinity, or a value too large for float64;"
    )
    model = FastLloyd(3, **PUBLIC).fit(X)
    from_data = FastLloyd(3, n_records=200)
    for use in (
        FastLloyd(3, **PUBLIC).fit,
        from_data.fit,
        model.predict,
        model.transform,
        model.score,
        model.plot,
    ):
        with pytest.raises(DataError, match=words) as refused:
            use(records)
        assert len(str(refused.value)) < 160


@pytest.mark.parametrize("column", [8675309.0 + np.arange(150) * 1e-9, np.full(150, 1e303)])
def test_bounds_that_cannot_be_taken_from_the_data_are_not_shown(
    column: npt.NDArray[np.float64],
) -> None:
    with np.errstate(over="ignore"), pytest.raises(DataError) as caught:
        FastLloyd(3, n_records=200).fit(np.c_[X, column])
    assert (
        str(caught.value)
        == "the values of column 'x4' lie too far apart or too close together to take bounds from"
        " them; state bounds, or rescale the column"
    )
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_constant_column_is_no_error_when_its_bounds_are_not_equal() -> None:
    records = np.column_stack([X[:, 0], np.full(len(X), 7.0)])
    with pytest.warns(PrivacyLeakWarning):
        model = FastLloyd(2).fit(records)
    assert np.isfinite(model.cluster_centers_).all()


def test_the_preset_paper_sets_what_the_experiments_set() -> None:
    with pytest.warns(WeakGuaranteeWarning, match=r"/ \(100 n_records\)"):
        model = FastLloyd(3, preset="paper", **PUBLIC).fit(X)
    m = model.mechanism_
    assert m.initialization.value == "halving"
    assert m.min_count == 0
    assert m.delta == pytest.approx(1 / (200 * np.log(200)))


def test_every_axis_of_the_ablation_is_a_parameter() -> None:
    for radius in ("none", "constant", "step"):
        for postprocessing in ("none", "truncate", "fold"):
            for clipping in (False, True):
                for noise in ("gaussian", "laplace"):
                    model = FastLloyd(
                        3,
                        radius=radius,
                        postprocessing=postprocessing,
                        clipping=clipping,
                        noise=noise,
                        alpha=0.5,
                        **PUBLIC,
                    ).fit(X)
                    fields = model.mechanism_.algorithm
                    assert (fields.radius.value, fields.postprocessing.value) == (
                        radius,
                        postprocessing,
                    )
                    assert (fields.clipping, fields.noise.value) == (clipping, noise)
                    assert float(fields.alpha) == 0.5


def test_estimators_clone_print_and_work_in_a_pipeline() -> None:
    model = FastLloyd(3, epsilon=2.0, **PUBLIC)
    assert clone(model).get_params() == model.get_params()
    assert "epsilon=2.0" in repr(model)
    pipeline = make_pipeline(StandardScaler(), FastLloyd(3, bounds=(-4, 4), n_records=200))
    assert pipeline.fit(X).predict(X).shape == (150,)
    assert pipeline.fit_transform(X).shape == (150, 3)


def test_a_clone_has_the_settings_and_nothing_of_the_fit() -> None:
    model = FastLloyd(3, **PUBLIC | {"bounds": {"a": (0, 1)}, "n_expected": 100})
    copy = clone(model.set_params(bounds=BOUNDS).fit(X))
    assert copy.get_params() == model.get_params()
    assert not any(name.endswith("_") and not name.startswith("_") for name in vars(copy))
    assert copy.set_params(n_clusters=2, scaling="common").fit(X).cluster_centers_.shape == (2, 4)


def test_a_grid_search_fits_once_per_candidate_and_fold_and_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spent: list[float] = []

    def counted(mechanism: LloydMechanism, *rest: Any) -> Clustering:
        spent.append(mechanism.epsilon)
        return cluster(mechanism, *rest)

    monkeypatch.setattr("fastlloyd.jobs.fit.central.cluster", counted)
    search = GridSearchCV(FastLloyd(epsilon=0.5, **PUBLIC), {"n_clusters": [2, 3]}, cv=3).fit(X)
    assert spent == [0.5] * (2 * 3 + 1)
    assert search.best_estimator_.n_clusters in (2, 3)
    assert search.predict(X).shape == (150,)


def test_common_scaling_keeps_the_distances_of_the_original_units() -> None:
    model = FastLloyd(3, **PUBLIC | {"scaling": "common"}).fit(X)
    half_width = 3.0  # of the widest feature, bounds 1 to 7
    original = np.linalg.norm(X[:, None] - model.cluster_centers_, axis=2)
    # a record moves by at most half a grid unit in each of 4 features
    assert np.abs(model.transform(X) * half_width - original).max() <= 2 * half_width / 2**16
    apart = FastLloyd(3, **PUBLIC).fit(X)
    scaled = (X[:, None] - apart.cluster_centers_) / (np.subtract(BOUNDS[1], BOUNDS[0]) / 2)
    assert np.abs(apart.transform(X) - np.linalg.norm(scaled, axis=2)).max() <= 2 / 2**16


@pytest.mark.parametrize("method", ["fit", "fit_predict", "fit_transform", "score"])
def test_weights_of_records_are_refused(method: str) -> None:
    model = FastLloyd(3, **PUBLIC).fit(X)
    name = "FastLloyd.score" if method == "score" else "FastLloyd.fit"
    with pytest.raises(
        TypeError,
        match=name.replace(".", r"\.") + r"\(\) got an unexpected keyword argument 'sample_weight'",
    ):
        getattr(model, method)(X, sample_weight=np.ones(len(X)))
    with pytest.raises(TypeError, match=r"SuLloyd\.fit\(\).*argument 'weights'"):
        SuLloyd(3, **PUBLIC).fit(X, weights=1)


def test_what_is_computed_in_blocks_is_what_is_computed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = FastLloyd(3, **PUBLIC).fit(X)
    distances, loss = model.transform(X), model.score(X)
    monkeypatch.setattr(
        "fastlloyd.estimators.predicting.kernels.blocks",
        lambda n, *_: [(i, min(i + 7, n)) for i in range(0, n, 7)],
    )
    assert np.array_equal(model.transform(X), distances)
    assert model.score(X) == pytest.approx(loss, rel=1e-12)


def test_parameters_are_the_same_for_all_four_of_the_paper_and_some_of_them_for_our_own() -> None:
    signatures = {str(inspect.signature(kind)) for kind in ESTIMATORS if kind is not MomentLloyd}
    assert len(signatures) == 1
    ours, papers = (
        inspect.signature(MomentLloyd).parameters,
        inspect.signature(FastLloyd).parameters,
    )
    assert [str(papers[name]) for name in ours] == [str(parameter) for parameter in ours.values()]
    assert papers.keys() - ours.keys() == {
        "preset", "n_iter", "initialization", "min_count", "radius", "alpha", "postprocessing", "clipping", "noise"
    }  # fmt: skip


def test_replace_one_adds_more_noise_at_the_same_epsilon() -> None:
    one, other = (
        FastLloyd(3, neighboring_relation=relation, n_iter=3, **PUBLIC).fit(X)
        for relation in ("add_or_remove_one", "replace_one")
    )
    assert other.mechanism_.rounds[0].sum_scale > 1.5 * one.mechanism_.rounds[0].sum_scale
    assert other.privacy_spent_["neighboring_relation"] == "replace_one"


@pytest.mark.usefixtures("seeded")
def test_no_warning_but_of_leaks_and_of_noise_comes_out_of_a_fit() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", NoisyResultWarning)  # a last move may have been a long one
        FastLloyd(3, epsilon=5.0, **PUBLIC).fit(X).predict(X)


@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint8])
def test_integers_of_numpy_are_integers(integer: type) -> None:
    model = FastLloyd(
        integer(3),
        **PUBLIC | {"n_records": integer(200), "fraction_bits": integer(16), "n_iter": integer(2)},
    ).fit(X)
    assert model.mechanism_ == type(model.mechanism_).from_toml(model.mechanism_.to_toml())


def test_a_cell_of_text_is_refused_without_being_quoted() -> None:
    records = X.astype(object)
    records[3, 1] = "Maria S., positive"
    model = FastLloyd(3, **PUBLIC).fit(X)
    from_data = FastLloyd(3, n_records=200)
    for use in (
        FastLloyd(3, **PUBLIC).fit,
        from_data.fit,
        model.predict,
        model.transform,
        model.score,
        model.plot,
    ):
        with pytest.raises(DataError, match="select numeric columns") as refused:
            use(records)
        assert "Maria" not in "".join(traceback.format_exception(refused.value))


def test_too_few_records_for_the_clusters_are_refused_without_their_number() -> None:
    with pytest.raises(DataError, match="n_clusters is 8") as refused:
        FastLloyd(8, bounds=BOUNDS).fit(X[:5])
    assert "5" not in str(refused.value)


@pytest.mark.parametrize("shape", ["a column", "a record", "complex numbers"])
def test_records_of_the_wrong_shape_are_refused_without_being_printed(shape: str) -> None:
    records = {"a column": X[:, 0], "a record": X[0], "complex numbers": X + 1j}[shape]
    model = FastLloyd(3, **PUBLIC).fit(X)
    for use in (FastLloyd(3, **PUBLIC).fit, model.predict):
        with pytest.raises(DataError, match=r"Reshape|holds complex") as refused:
            use(records)
        assert "5.1" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("kind", [FastLloyd, GLloyd, SuLloyd])
def test_the_estimate_of_the_loss_is_the_clipped_loss_and_noise_from_its_part_of_the_budget(
    kind: type[FastLloyd],
) -> None:
    with pytest.warns(WeakGuaranteeWarning):
        model = kind(3, epsilon=1e4, estimate_loss=True, loss_share=0.25, **PUBLIC).fit(X)
    said = model.privacy_spent_["loss_estimate"]
    assert (said["share_of_budget"], model.privacy_spent_["epsilon"]) == (
        pytest.approx(0.25, rel=0.01),
        1e4,
    )
    # Each record is rounded by at most half a unit; noise of 40 of its scales has a probability
    # below 1e-17.
    squared = (model.transform(X) ** 2).min(axis=1)
    unit = said["cap"] / said["sensitivity"]
    exact = np.minimum(squared, said["cap"]).sum()
    assert abs(model.noisy_loss_ - exact) <= (len(X) / 2 + 1 + 40 * said["noise_scale"]) * unit
    assert (
        exact > 20 * (len(X) / 2 + 1 + 40 * said["noise_scale"]) * unit
    )  # so that the comparison says something


def test_without_being_asked_no_loss_is_estimated_and_nothing_is_spent_on_it() -> None:
    model = FastLloyd(3, **PUBLIC).fit(X)
    assert not hasattr(model, "noisy_loss_")
    assert model.privacy_spent_["loss_estimate"] is None
    with pytest.raises(PlanError, match=r"loss_share.*effect"):
        FastLloyd(3, loss_share=0.1, **PUBLIC).fit(X)
    shares: list[tuple[Any, type[Exception]]] = [
        (0, BudgetError),
        (1.5, BudgetError),
        (np.nan, BudgetError),
        ("much", PlanError),
    ]
    for share, fault in shares:
        with pytest.raises(fault, match="loss_share"):
            FastLloyd(3, estimate_loss=True, loss_share=share, **PUBLIC).fit(X)


def test_a_fit_without_the_loss_keeps_none_of_an_earlier_fit() -> None:
    model = FastLloyd(3, estimate_loss=True, **PUBLIC).fit(X)
    assert hasattr(model, "noisy_loss_")
    model.set_params(estimate_loss=False).fit(X)
    assert not hasattr(model, "noisy_loss_")
    assert not hasattr(model, "noisy_loss_std_")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_loss_has_a_standard_deviation_by_its_law_and_the_statement_says_it_too(
    kind: type[FastLloyd],
) -> None:
    model = kind(3, estimate_loss=True, **PUBLIC).fit(X)
    said = model.privacy_spent_["loss_estimate"]
    deviations = {
        MomentLloyd: 1.0,
        FastLloyd: 1.0,
        GLloyd: 1.0,
        SuLloyd: 2**0.5,
        Lloyd: 0.0,
    }  # of noise of scale 1
    assert model.noisy_loss_std_ == pytest.approx(
        deviations[kind] * said["noise_scale"] * said["sensitivity_and_noise_unit"]
    )
    assert said["standard_error"] == model.noisy_loss_std_


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_statement_of_a_fit_is_shown_in_one_line_and_complete_for_programs(
    kind: type[FastLloyd],
) -> None:
    spent = kind(3, **PUBLIC).fit(X).privacy_spent_
    shown = repr(spent)
    assert len(shown) < 200
    assert "\n" not in shown
    for name in ("mechanism", "epsilon", "delta", "mu", "neighboring_relation"):
        assert (f"{name}={spent[name]!r}" in shown) is (spent[name] is not None)
    assert json.loads(json.dumps(spent)) == dict(spent)
    assert pickle.loads(pickle.dumps(spent)) == spent  # noqa: S301 - our own bytes


@pytest.mark.parametrize("answer", ["no", 1, None])
def test_whether_the_loss_is_estimated_is_a_truth_value(answer: Any) -> None:
    with pytest.raises(PlanError, match="estimate_loss"):
        FastLloyd(3, estimate_loss=answer, **PUBLIC).fit(X)


def test_bounds_in_other_units_than_the_records_are_noticed_before_anything_is_spent() -> None:
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.raises(ClippedRecordsWarning, match="of 'x0', 'x1', 'x2', 'x3' lie outside"):
        FastLloyd(3, **PUBLIC).fit(scaled)


@pytest.mark.parametrize("kind", [FastLloyd, MomentLloyd])
def test_the_owner_hears_which_columns_are_clipped_often_and_no_number_of_records(
    kind: type[FastLloyd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of 150 values are less than 2 %, and three are not; nothing of it stays in the model."""
    few, said = X.copy(), []
    few[:2, 1] = 99.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind(3, **PUBLIC).fit(few)
    assert not [each for each in caught if each.category is ClippedRecordsWarning]
    for n in (3, 40):
        outside = X.copy()
        outside[:n, 1] = 99.0
        with pytest.warns(ClippedRecordsWarning, match="'x1' lie outside") as warned:
            model = kind(3, **PUBLIC).fit(outside)
        said.append([str(each.message) for each in warned if "outside" in str(each.message)])
        assert not [name for name in vars(model) if "clipped" in name or "outside" in name]
    assert said[0] == said[1]


def test_a_list_of_two_pairs_is_not_guessed_at() -> None:
    with raises_code(PlanError, AMBIGUOUS):
        FastLloyd(3, **PUBLIC | {"bounds": [(4, 8), (2, 5)]}).fit(X[:, :2])
    FastLloyd(3, **PUBLIC | {"bounds": ([4, 2], [8, 5])}).fit(X[:, :2])
