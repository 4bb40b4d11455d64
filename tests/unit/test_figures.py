"""The picture: a valid PNG for every shape of result, along directions that the records do not decide."""

import re
import struct
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd import figures
from fastlloyd.errors import OutputError
from fastlloyd.figures import Picture, choose_view, draw, principal_directions


def _picture(d: int, k: int, *, seed: int = 0, **changes: object) -> Picture:
    rng = np.random.default_rng(seed)
    settings: dict[str, object] = {
        "features": tuple(f"feature {i}" for i in range(d)),
        "centroids": rng.uniform(20, 80, (k, d)),
        "errors": rng.uniform(1, 4, (k, d)),
        "noisy_counts": rng.uniform(10, 500, k),
        "centre": np.full(d, 50.0),
        "half_widths": np.full(d, 50.0),
        "unit": np.full(d, 50.0),
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
        _picture(2, 1, features=("cost in $", "\u5e74\u9f84 $^$ _x"), records=np.array([[1.0, 2.0]])),
        _picture(1, 2, records=np.array([[1.0], [99.0]])),
        _picture(4, 2, centroids=np.full((2, 4), 50.0)),
        _picture(3, 2, records=np.array([[1.0, 2.0, 3.0], [99.0, 50.0, 1.0]])),
    ],
    ids=["point", "stayed", "no counts", "no noise", "huge noise", "odd names", "line", "coincident", "records"],
)
def test_extreme_results_are_drawn_without_a_warning(picture: Picture) -> None:
    _size(draw(picture))


def test_the_same_result_gives_the_same_picture() -> None:
    assert draw(_picture(3, 2)) == draw(_picture(3, 2))


def _texts(monkeypatch: pytest.MonkeyPatch, picture: Picture) -> str:
    """All that is written in a picture, and its metadata."""
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    seen: list[str] = []

    def keep(self: Figure, *_: object, metadata: dict[str, str], **__: object) -> None:
        seen.extend(text.get_text() for text in self.findobj(Text))
        seen.extend(metadata.values())

    with monkeypatch.context() as patched:
        patched.setattr(Figure, "savefig", keep)
        draw(picture)
    return "\n".join(seen)


def test_a_picture_with_records_or_without_noise_says_that_it_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both in the picture and in the metadata of the file."""
    records = np.array([[10.0, 10.0]])
    assert _texts(monkeypatch, _picture(2, 3, records=records)).count("NOT PRIVATE") == 2
    assert "contains raw data: NOT PRIVATE" in _texts(monkeypatch, _picture(2, 3, records=records))
    assert _texts(monkeypatch, _picture(2, 3, private=False)).count("NOT PRIVATE") == 2
    assert _texts(monkeypatch, _picture(2, 3, covered=False)).count("NOT PRIVATE") == 2
    assert "NOT PRIVATE" not in _texts(monkeypatch, _picture(2, 3))


def test_every_cluster_is_numbered_and_the_axes_name_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    written = _texts(monkeypatch, _picture(2, 3)).splitlines()
    assert {"0", "1", "2", "feature 0", "feature 1"} <= set(written)
    assert "hollow" in _texts(monkeypatch, _picture(2, 1, errors=np.full((1, 2), np.nan)))


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 6), k=st.integers(1, 6))
def test_records_do_not_move_the_axes_of_the_view(seed: int, d: int, k: int) -> None:
    """Directions and labels come from noisy centroids; only the limits make room for records that were asked for."""
    rng = np.random.default_rng(seed)
    without = choose_view(_picture(d, k, seed=seed))
    with_records = choose_view(_picture(d, k, seed=seed, records=rng.uniform(0, 100, (20, d))))
    assert np.array_equal(without.axes, with_records.axes)
    assert without.labels == with_records.labels


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(3, 8), k=st.integers(1, 8))
def test_the_main_directions_are_orthonormal_and_no_pair_of_features_shows_more(seed: int, d: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    points, weights = rng.normal(size=(k, d)), rng.uniform(-1, 10, k)
    plane = principal_directions(points, weights)
    assert np.allclose(plane.T @ plane, np.eye(2), atol=1e-12)
    w = np.maximum(weights, 0)
    if w.sum() == 0:
        w = np.ones(k)
    spread = np.cov(points.T, aweights=w, ddof=0).reshape(d, d)
    shown = np.trace(plane.T @ spread @ plane)
    assert all(spread[i, i] + spread[j, j] <= shown + 1e-9 for i, j in combinations(range(d), 2))


def test_under_a_common_scale_the_widest_feature_is_seen_as_the_widest() -> None:
    narrow = np.array([50.0, 5.0, 5.0])
    points = np.array([[20.0, 46.0, 50.0], [80.0, 54.0, 50.0]])
    common = choose_view(_picture(3, 2, centroids=points, half_widths=narrow, unit=np.full(3, 50.0)))
    per_feature = choose_view(_picture(3, 2, centroids=points, half_widths=narrow, unit=narrow))
    heading = "where centroids differ most (half widths of the domain)\n"
    assert common.labels[0] == heading + "weights: 0.99 feature 0"
    assert per_feature.labels[0] == heading + "weights: 0.80 feature 1, 0.60 feature 0"


def test_axes_that_are_no_features_say_what_they_are_and_which_features_weigh_most_in_short_lines() -> None:
    """A direction that is a feature is called by its name."""
    names = tuple(f"a rather long name of feature {i}" for i in range(5))
    for label, rank in zip(choose_view(_picture(5, 4, features=names)).labels, ("most", "second most"), strict=True):
        heading, *lines = label.splitlines()
        assert heading == f"where centroids differ {rank} (half widths of the domain)"
        assert lines[0].startswith("weights: 0.")
        assert max(map(len, lines)) <= figures.LABEL
        weights = re.findall(r"(\N{MINUS SIGN}?[01]\.\d\d) a rather", " ".join(lines))
        sizes = [abs(float(weight.replace(figures.MINUS, "-"))) for weight in weights]
        assert sizes == sorted(sizes, reverse=True)
        assert 1 <= len(sizes) <= 3
    alone = _picture(3, 2, centroids=np.array([[20.0, 50.0, 50.0], [80.0, 50.0, 50.0]]))
    assert choose_view(alone).labels[0] == "feature 0\n(half widths of the domain)"


def test_two_centroids_are_shown_along_their_line_and_a_feature_it_leaves_out() -> None:
    plane = principal_directions(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), np.array([5.0, 5.0]))
    assert np.allclose(plane[:, 0], np.array([1, 1, 0]) / np.sqrt(2))
    assert np.allclose(plane[:, 1], [0, 0, 1])


@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 5))
def test_noise_in_the_view_spreads_as_noise_in_the_features_does(seed: int, d: int) -> None:
    """Two routes: the covariance in the plane, and the projection of plus and minus one error along each feature."""
    picture = _picture(d, 3, seed=seed)
    view, errors = choose_view(picture), picture.errors[0]
    steps = np.array([view.project((view.origin + step)[None, :])[0] for step in np.diag(errors)])
    assert np.allclose(view.covariance(errors), steps.T @ steps)


def test_without_matplotlib_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(OutputError, match=r"pip install .?matplotlib"):
        draw(_picture(2, 2))


def test_importing_the_module_does_not_import_matplotlib() -> None:
    script = "import sys, fastlloyd.figures; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603 - our own interpreter


def test_colours_are_distinct() -> None:
    assert len(set(figures.PALETTE)) == len(figures.PALETTE) == 8
