"""The tumours of the demo have public bounds that hold their records."""

import sys

import numpy as np
import pytest

from fastlloyd.errors import DataError
from fastlloyd.evaluation.tumours import TUMOUR_BOUNDS, load_tumours
from fastlloyd.records.bounds import parse_bounds


def test_the_tumours_have_the_columns_that_their_bounds_name() -> None:
    pytest.importorskip("sklearn", reason="the tumours ship with scikit-learn")
    table = load_tumours()
    assert table.values.shape == (569, 3)
    assert table.columns == tuple(TUMOUR_BOUNDS)
    text = ",".join(f"{name}={lower}:{upper}" for name, (lower, upper) in TUMOUR_BOUNDS.items())
    parsed = parse_bounds(text, table.columns)
    assert np.array_equal(np.transpose(parsed), list(TUMOUR_BOUNDS.values()))


def test_w21_public_bounds_hold_every_record_and_are_round_figures_not_the_extremes() -> None:
    pytest.importorskip("sklearn", reason="the tumours ship with scikit-learn")
    values = load_tumours().values
    lower, upper = np.transpose(list(TUMOUR_BOUNDS.values()))
    assert (lower <= values.min(axis=0)).all()
    assert (values.max(axis=0) < upper).all()
    assert np.array_equal(2 * lower, np.round(2 * lower))
    assert np.array_equal(2 * upper, np.round(2 * upper))


def test_the_columns_of_tumours_are_those_of_their_names() -> None:
    sklearn_datasets = pytest.importorskip(
        "sklearn.datasets", reason="the tumours ship with scikit-learn"
    )
    bunch = sklearn_datasets.load_breast_cancer()
    for column, values in zip(load_tumours().columns, load_tumours().values.T, strict=True):
        assert np.array_equal(values, bunch.data[:, list(bunch.feature_names).index(column)])


def test_bounds_cannot_be_changed_by_a_caller() -> None:
    with pytest.raises(TypeError):
        # that it is refused is what is tested
        TUMOUR_BOUNDS["mean radius"] = (0.0, 1.0)  # type: ignore[index]


def test_without_scikit_learn_the_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match=r'not installed.*"scikit-learn'):
        load_tumours()
