"""A fitted estimator in a notebook: its clusters as a table, as cards and as a picture."""

from typing import Any

import numpy as np
import pytest

from fastlloyd import MomentLloyd
from fastlloyd.errors import DataError
from fastlloyd.estimators import showing
from fastlloyd.reports import pictures

X = np.random.default_rng(1).normal([[20, 2]], [3, 0.2], (300, 2))


@pytest.fixture(scope="module")
def model() -> Any:
    return MomentLloyd(2, bounds=([0, 0], [100, 5]), n_records=400, epsilon=5.0).fit(X)


def test_the_summary_is_a_frame_of_noisy_numbers(model: Any) -> None:
    frame = model.summary()
    assert list(frame["cluster"]) == [0, 1]
    assert frame["x0"].to_numpy() == pytest.approx(model.cluster_centers_[:, 0])
    assert list(frame["noisy_count"]) == model.noisy_counts_.tolist()
    assert list(frame["status"]) == model.cluster_status_.tolist()
    reach = 2 * model.cluster_centers_std_[0, 1]
    assert frame["upper_x1"][0] - frame["x1"][0] == pytest.approx(reach)


def test_without_pandas_the_summary_is_of_polars_or_a_dict(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(showing, "find_spec", lambda name: name == "polars" or None)
    assert type(model.summary()).__module__.startswith("polars")
    monkeypatch.setattr(showing, "find_spec", lambda _: None)
    assert model.summary()["cluster"] == [0, 1]


def test_a_notebook_shows_the_cards_in_a_frame_without_scripts(model: Any) -> None:
    html = model._repr_mimebundle_()["text/html"]
    assert "<iframe" in model._repr_html_()
    frame = html[html.index("<iframe") :]
    assert " sandbox " in frame
    assert "Group 0" in frame
    assert frame.count("class=&quot;tells") == 2  # a sentence for each group
    assert "<iframe" not in MomentLloyd(2)._repr_html_()


def test_a_plot_has_a_title_and_names(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    shown: list[Any] = []
    monkeypatch.setattr(pictures, "figure_of", lambda picture, *_: shown.append(picture))
    model.plot(title="Wards, 2026", names={0: "elderly"})
    assert shown[0].title == "Wards, 2026; epsilon 5"
    assert shown[0].names.clusters == {0: "elderly"}
    with pytest.raises(DataError, match="no cluster 2"):
        model.plot(names={2: "x"})
