"""Bundled sets have public bounds that hold their records."""

import sys
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from fastlloyd.errors import DataError
from fastlloyd.evaluation.datasets import IRIS_BOUNDS, TUMOUR_BOUNDS, load_iris, load_tumours
from fastlloyd.records import Table
from fastlloyd.records.bounds import parse_bounds

BUNDLED = [
    pytest.param(load_tumours, TUMOUR_BOUNDS, (569, 3), id="tumours"),
    pytest.param(load_iris, IRIS_BOUNDS, (150, 4), id="iris"),
]


@pytest.mark.parametrize(("loader", "bounds", "shape"), BUNDLED)
def test_a_bundled_set_has_the_columns_its_bounds_name(
    loader: Callable[[], Table], bounds: Mapping[str, tuple[float, float]], shape: tuple[int, int]
) -> None:
    pytest.importorskip("sklearn", reason="the bundled data sets ship with scikit-learn")
    table = loader()
    assert table.values.shape == shape
    assert table.columns == tuple(bounds)
    text = ",".join(f"{name}={lower}:{upper}" for name, (lower, upper) in bounds.items())
    assert np.array_equal(np.transpose(parse_bounds(text, table.columns)), list(bounds.values()))


@pytest.mark.parametrize(("loader", "bounds", "shape"), BUNDLED)
def test_w21_public_bounds_hold_every_record_and_are_round_figures_not_the_extremes(
    loader: Callable[[], Table], bounds: Mapping[str, tuple[float, float]], shape: tuple[int, int]
) -> None:
    pytest.importorskip("sklearn", reason="the bundled data sets ship with scikit-learn")
    values = loader().values
    lower, upper = np.transpose(list(bounds.values()))
    assert (lower <= values.min(axis=0)).all()
    assert (values.max(axis=0) < upper).all()
    assert np.array_equal(2 * lower, np.round(2 * lower))
    assert np.array_equal(2 * upper, np.round(2 * upper))


def test_the_columns_of_tumours_are_those_of_their_names() -> None:
    sklearn_datasets = pytest.importorskip(
        "sklearn.datasets", reason="the bundled data sets ship with scikit-learn"
    )
    bunch = sklearn_datasets.load_breast_cancer()
    for column, values in zip(load_tumours().columns, load_tumours().values.T, strict=True):
        assert np.array_equal(values, bunch.data[:, list(bunch.feature_names).index(column)])


def test_bounds_cannot_be_changed_by_a_caller() -> None:
    for bounds in (TUMOUR_BOUNDS, IRIS_BOUNDS):
        with pytest.raises(TypeError):
            # that it is refused is what is tested
            bounds["mean radius"] = (0.0, 1.0)  # type: ignore[index]


def test_without_scikit_learn_the_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for loader in (load_tumours, load_iris):
        with pytest.raises(DataError, match='not installed: python -m pip install "scikit-learn'):
            loader()
