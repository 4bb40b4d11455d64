"""A fitted estimator in a notebook: its clusters as a table, as cards and as a picture."""

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fastlloyd import MomentLloyd
from fastlloyd.errors import DataError, OutputError
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


@pytest.fixture(scope="module")
def wide() -> Any:
    names = [f"x{j}" for j in range(3)]
    made = MomentLloyd(2, bounds=([0] * 3, [100] * 3), n_records=400, epsilon=5.0)
    return made.fit(np.random.default_rng(2).uniform(0, 100, (300, len(names))))


def test_a_plot_goes_into_the_axes_that_are_given(model: Any) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    figure = figure_module.Figure()
    left, right = figure.subplots(1, 2)
    assert model.plot(ax=right, title="Wards", names={0: "elderly"}) is figure
    assert len(left.get_children()) == len(figure_module.Figure().add_subplot().get_children())
    assert right.get_title() == "Wards; epsilon 5"
    assert any("elderly" in text.get_text() for text in right.texts)
    assert (right.get_xlabel(), right.get_ylabel()) == ("x0", "x1")
    marks = [each.get_offsets()[0].tolist() for each in right.collections]
    assert marks == [pytest.approx(centre) for centre in model.cluster_centers_]


def test_panels_of_many_features_fill_the_axes_that_are_given(wide: Any) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    figure = figure_module.Figure()
    part = figure.subfigures(1, 2)[0]  # axes may be in a part of a figure
    ax = part.add_axes((0.1, 0.1, 0.8, 0.7))
    assert wide.plot(ax=ax) is figure
    panels = ax.child_axes
    assert [panel.get_title() for panel in panels] == ["x0", "x1", "x2"]
    assert [len(panel.get_yticklabels()) for panel in panels[:1]] == [2]
    assert not ax.axison
    figure.draw_without_rendering()
    outer, inner = ax.get_window_extent(), [panel.get_window_extent() for panel in panels]
    assert all(outer.x0 - 1 <= box.x0 < box.x1 <= outer.x1 + 1 for box in inner)
    assert all(one.x1 < other.x0 for one, other in pairwise(inner))


def test_records_in_given_axes_are_marked_as_not_private(model: Any, wide: Any) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    for each, records in ((model, X), (wide, np.full((5, 3), 20.0))):
        ax = figure_module.Figure().add_subplot()
        each.plot(records, ax=ax)
        assert "NOT PRIVATE" in ax.get_title()


def test_what_is_no_plane_with_straight_axes_is_refused(model: Any) -> None:
    figure_module = pytest.importorskip("matplotlib.figure")
    figure = figure_module.Figure()
    for wrong in (figure, figure.subplots(1, 2), figure.add_subplot(projection="polar"), "ax"):
        with pytest.raises(DataError, match="ax is "):
            model.plot(ax=wrong)


def test_without_matplotlib_given_axes_are_refused_in_a_sentence(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(OutputError, match="matplotlib"):
        model.plot(ax=object())
