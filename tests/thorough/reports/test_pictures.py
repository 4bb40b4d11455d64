"""The picture: a valid PNG for every shape of result; the records decide nothing in it."""

import itertools
import struct
import subprocess
import sys
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from fastlloyd.errors import OutputError
from fastlloyd.reports import figures
from fastlloyd.reports.names import Names
from fastlloyd.reports.picture import Picture
from fastlloyd.reports.pictures import (
    MAX_PANELS,
    draw,
    features_shown,
    figure_of,
)


def _picture(d: int, k: int, *, seed: int = 0, **changes: object) -> Picture:
    rng = np.random.default_rng(seed)
    settings: dict[str, object] = {
        "features": tuple(f"feature {i}" for i in range(d)),
        "centroids": rng.uniform(20, 80, (k, d)),
        "errors": rng.uniform(1, 4, (k, d)),
        "noisy_counts": rng.uniform(10, 500, k),
        "centre": np.full(d, 50.0),
        "half_widths": np.full(d, 50.0),
        "title": "fastlloyd",
    }
    return Picture(**(settings | changes))  # type: ignore[arg-type]  # tests replace single fields


def _size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def test_the_picture_is_twice_as_wide_as_a_page_of_800_pixels() -> None:
    assert _size(draw(_picture(2, 3))) == (1600, 1200)
    width, height = _size(draw(_picture(1, 3)))
    assert width == 1600
    assert height < 1200


@pytest.mark.parametrize(
    "picture",
    [
        _picture(1, 1),
        _picture(3, 1, errors=np.full((1, 3), np.nan)),
        _picture(5, 70, noisy_counts=np.full(70, -3.0)),
        _picture(2, 2, errors=np.zeros((2, 2)), private=False),
        _picture(4, 3, errors=np.full((3, 4), 1e9)),
        _picture(
            2, 1, features=("cost in $", "\u5e74\u9f84 $^$ _x"), records=np.array([[1.0, 2.0]])
        ),
        _picture(1, 2, records=np.array([[1.0], [99.0]])),
        _picture(4, 2, centroids=np.full((2, 4), 50.0)),
        _picture(3, 2, records=np.array([[1.0, 2.0, 3.0], [99.0, 50.0, 1.0]])),
    ],
    ids=[
        "point",
        "stayed",
        "no counts",
        "no noise",
        "huge noise",
        "odd names",
        "line",
        "coincident",
        "records",
    ],
)
def test_extreme_results_are_drawn_without_a_warning(picture: Picture) -> None:
    _size(draw(picture))


def test_the_same_result_gives_the_same_picture() -> None:
    assert draw(_picture(3, 2)) == draw(_picture(3, 2))


def _texts(monkeypatch: pytest.MonkeyPatch, picture: Picture) -> str:
    """All that is written in a picture, and its metadata."""
    from matplotlib.figure import Figure

    seen: list[str] = []

    def keep(self: Figure, *_: object, metadata: dict[str, str], **__: object) -> None:
        seen.extend(text.get_text() for text in self.findobj(Text))
        seen.extend(metadata.values())

    with monkeypatch.context() as patched:
        patched.setattr(Figure, "savefig", keep)
        draw(picture)
    return "\n".join(seen)


def test_a_picture_with_records_or_without_noise_says_that_it_is_not_private(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both in the picture and in the metadata of the file."""
    records = np.array([[10.0, 10.0]])
    assert _texts(monkeypatch, _picture(2, 3, records=records)).count("NOT PRIVATE") == 2
    assert "contains raw data: NOT PRIVATE" in _texts(monkeypatch, _picture(2, 3, records=records))
    assert _texts(monkeypatch, _picture(2, 3, private=False)).count("NOT PRIVATE") == 2
    assert _texts(monkeypatch, _picture(2, 3, covered=False)).count("NOT PRIVATE") == 2
    assert "NOT PRIVATE" not in _texts(monkeypatch, _picture(2, 3))


def _written(text: Text) -> Bbox:
    """Where a text stands, without the empty lines above it."""
    box, lines = text.get_window_extent(), text.get_text().split("\n")
    return Bbox.from_extents(
        box.x0, box.y0, box.x1, box.y1 - box.height * lines.count("") / len(lines)
    )


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    "changes", [{"records": True}, {"private": False}, {"covered": False}], ids=repr
)
def test_that_a_picture_is_not_private_is_written_beside_nothing_else(
    d: int, changes: dict[str, Any]
) -> None:
    """Where the title is long and the numbers on the axes leave little room."""
    if "records" in changes:
        changes = {"records": np.full((1, d), 4e5)}
    wide: dict[str, Any] = {
        "centre": np.full(d, 5e5),
        "half_widths": np.full(d, 5e5),
        "centroids": np.full((3, d), 4e5),
    }
    title = "momentlloyd, 100 clusters, \u03b5 = 0.4767, \u03b4 = 1.7e-06"
    figure = figure_of(_picture(d, 3, title=title, **wide, **changes))
    figure.draw_without_rendering()
    texts = [
        text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()
    ]
    warning = next(text for text in texts if "NOT PRIVATE" in text.get_text())
    box = warning.get_window_extent()
    assert figure.bbox.containsx(box.x0)
    assert figure.bbox.containsx(box.x1)
    assert figure.bbox.containsy(box.y1)
    assert not [
        text.get_text() for text in texts if text is not warning and box.overlaps(_written(text))
    ]


@pytest.mark.parametrize("d", [3, 8])
@pytest.mark.parametrize("size", [1e-4, 1.0, 3e3, 2e5, 1e6, -4e2, 1e9])
def test_numbers_below_a_panel_do_not_touch(d: int, size: float) -> None:
    drawn = _picture(d, 3)
    larger = {"centroids": drawn.centroids * size, "errors": drawn.errors * abs(size)}
    domain = {"centre": drawn.centre * size, "half_widths": drawn.half_widths * abs(size)}
    figure = figure_of(msgspec.structs.replace(drawn, **domain, **larger))
    figure.draw_without_rendering()
    boxes = []
    for ax in figure.axes:
        low, high = ax.get_xlim()
        ticks = zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)
        boxes += [label.get_window_extent() for tick, label in ticks if low <= tick <= high]
    assert len(boxes) >= d
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))


@pytest.mark.parametrize("k", [12, 30, 60])
def test_the_numbers_of_clusters_of_one_feature_do_not_touch(k: int) -> None:
    """Where all of them stand one below the other."""
    figure = figure_of(_picture(1, k, centroids=np.full((k, 1), 50.0)))
    figure.draw_without_rendering()
    boxes = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
    assert all(boxes[f"{i}"].y0 > boxes[f"{i + 1}"].y1 for i in range(k - 1))


def test_every_cluster_is_numbered_and_the_axes_name_the_features(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = _texts(monkeypatch, _picture(2, 3)).splitlines()
    assert {"0", "1", "2", "feature 0", "feature 1"} <= set(written)
    assert "hollow" in _texts(monkeypatch, _picture(2, 1, errors=np.full((1, 2), np.nan)))


@pytest.mark.parametrize("d", [1, 2])
def test_records_do_not_move_the_axes(d: int) -> None:
    """Limits come from the bounds."""
    records = np.random.default_rng(d).uniform(-500, 500, (20, d))
    for picture in (_picture(d, 3), _picture(d, 3, records=records)):
        ax = figure_of(picture).axes[0]
        assert ax.get_xlim() == (-4.0, 104.0)
        assert ax.get_ylim() == ((-0.8, 3.2) if d == 1 else (-4.0, 104.0))


def test_the_ellipse_of_a_centroid_holds_its_mean_in_95_percent_of_cases() -> None:
    """By simulation: independent Gaussian errors of the features."""
    from matplotlib.patches import Ellipse

    picture = _picture(2, 1)
    ellipse = next(
        patch for patch in figure_of(picture).axes[0].patches if isinstance(patch, Ellipse)
    )
    drawn = np.random.default_rng(1).normal(picture.centroids[0], picture.errors[0], (20_000, 2))
    inside = (((drawn - ellipse.center) / [ellipse.width / 2, ellipse.height / 2]) ** 2).sum(
        axis=1
    ) <= 1
    assert inside.mean() == pytest.approx(0.95, abs=0.006)


def test_without_matplotlib_a_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(OutputError, match=r"pip install .?matplotlib"):
        draw(_picture(2, 2))


def test_importing_the_module_does_not_import_matplotlib() -> None:
    script = "import sys, fastlloyd.reports.pictures; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_of_many_features_those_are_shown_in_which_clusters_differ_beyond_their_errors() -> None:
    """By hand, of ten features: one differs only in a cluster without records, another by noise
    alone.
    """
    centroids = np.tile([[48.0], [52.0], [50.0]], 10)
    centroids[:, 2] = [30, 50, 70]
    centroids[:, 7] = [50, 50, 90]
    errors = np.full((3, 10), 0.5)
    errors[:, 2] = 40
    shown = features_shown(
        _picture(
            10, 3, centroids=centroids, errors=errors, noisy_counts=np.array([90.0, 100.0, -4.0])
        )
    )
    assert list(shown) == [0, 1, 3, 4, 5, 6, 8, 9]


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(3, 40), k=st.integers(1, 30))
def test_every_panel_is_a_feature_once(seed: int, d: int, k: int) -> None:
    shown = features_shown(_picture(d, k, seed=seed))
    assert len(set(shown)) == len(shown) == min(d, MAX_PANELS)
    with_records = _picture(
        d, k, seed=seed, records=np.random.default_rng(seed).uniform(0, 100, (9, d))
    )
    assert list(features_shown(with_records)) == list(shown)


def test_profiles_name_features_and_clusters_and_count_what_they_leave_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = _texts(monkeypatch, _picture(4, 3)).splitlines()
    assert {f"feature {i}" for i in range(4)} <= set(written)
    assert {"0", "1", "2"} <= {line.split("  ")[0] for line in written}
    many = _texts(
        monkeypatch,
        _picture(64, 2, errors=np.full((2, 64), np.nan), records=np.full((1, 64), 50.0)),
    )
    assert "the 8 features in which clusters differ most, of 64;" in many.lower()
    assert "hollow" in many
    assert many.count("NOT PRIVATE") == 2
    assert figure_of(_picture(64, 60)).bbox.width == 2600


def test_a_dashed_line_of_a_profile_is_explained_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside = np.array([[40.0] * 3, [60.0] * 3])
    assert "dashed" not in _texts(monkeypatch, _picture(3, 2, centroids=inside))
    assert "; dashed: bounds." in _texts(
        monkeypatch, _picture(3, 2, centroids=inside - [[0, 0, 40], [0, 0, 0]])
    )


def test_the_words_below_three_panels_fit_the_picture() -> None:
    centroids, errors = np.array([[1.0] * 3, [60.0] * 3]), np.array([[np.nan] * 3, [1.0] * 3])
    figure = figure_of(_picture(3, 2, centroids=centroids, errors=errors))
    figure.draw_without_rendering()
    assert "dashed" in figure.get_supxlabel()
    assert "hollow" in figure.get_supxlabel()
    (caption,) = (text for text in figure.texts if text.get_text() == figure.get_supxlabel())
    assert caption.get_window_extent().x1 < figure.bbox.x1


def test_colours_are_distinct() -> None:
    assert len(set(figures.PALETTE)) == len(figures.PALETTE) == 8


def test_a_picture_says_names_counts_values_and_that_another_run_may_differ(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for d in (2, 4):
        drawn = _picture(d, 3, names=Names(None, {1: "elderly, anaemic"}), count_error=8.0)
        assert "elderly, anaemic" in _texts(monkeypatch, drawn)
        assert "Another run may find other groups" in _texts(monkeypatch, drawn)
    written = _texts(monkeypatch, drawn)
    assert f"about {drawn.noisy_counts[0]:.0f}" in written
    assert drawn.units_at(3).brief(drawn.centroids[2, 3], drawn.errors[2, 3]) in written
    assert "zoom; bounds" in written
