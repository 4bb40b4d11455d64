"""Tests of figures: every panel, line, label and number is drawn, has the same style in all
figures, and gives the same file every time.
"""

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from fastlloyd.errors import DataError
from fastlloyd_lab import pictures
from fastlloyd_lab.experiments.reading import read
from fastlloyd_lab.pictures import Drawing, axes, sheet
from fastlloyd_lab.pictures.summaries import Summaries, Summary, Variant
from made_up_results import (
    ABLATION,
    G2,
    METHODS,
    REAL,
    SYNTH,
    SYNTH_K,
    Cells,
    fail,
    rows,
    swept,
    write,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

SMALL_G2 = {name: G2[name] for name in ("g2-2-30", "g2-2-50", "g2-16-30", "g2-16-50")}
SMALL_SYNTH = {name: shape for name, shape in SYNTH.items() if shape[1] <= 4 and shape[2] <= 4}
SMALL_ABLATION = {name: ABLATION[name] for name in list(ABLATION)[:2]}


def _summaries(folder: Path, made: Iterable[Cells], **settings: Sequence[str]) -> Summaries:
    # figures, the only setting here
    return Summaries.of(read(write(folder, made, **settings)))  # type: ignore[arg-type]


def _draw(folder: Path, made: Iterable[Cells], name: str) -> list[Drawing]:
    return _drawn(_summaries(folder, made, figures=[name]))


def _drawn(summaries: Summaries) -> list[Drawing]:
    drawings, refused = pictures.draw(summaries)
    for why in refused:
        raise DataError(why)
    return drawings


def _texts(drawing: Drawing) -> list[str]:
    from matplotlib.text import Text

    texts = [each for each in drawing.figure.findobj() if isinstance(each, Text)]
    return [text.get_text() for text in texts if text.get_text()]


def _only_nicv(row: Cells) -> Cells:
    return row | {"silhouette": None, "davies_bouldin": None, "centroid_mse": None}


def _legend(drawing: Drawing) -> list[str]:
    return [text.get_text() for legend in drawing.figure.legends for text in legend.get_texts()]


def _colours(panel: "Axes") -> set[str]:
    return {str(line.get_color()) for line in panel.get_lines()}


def test_curves_have_a_panel_for_each_set_and_a_figure_for_each_measure(tmp_path: Path) -> None:
    sets = {name: REAL[name] for name in ("iris", "adult", "mnist")}
    drawings = _draw(tmp_path, rows(sets, runs=2), "curves")
    assert [each.name for each in drawings] == [
        "curves-nicv", "curves-silhouette", "curves-davies_bouldin", "curves-centroid_mse"
    ]  # fmt: skip
    for drawing in drawings:
        panels = drawing.figure.axes
        assert [panel.get_title() for panel in panels] == list(sets)
        assert all("epsilon" in panel.get_xlabel() for panel in panels)
        assert _legend(drawing) == ["Lloyd, no noise", "SuLloyd", "GLloyd", "FastLloyd"]
        assert any("not private" in text for text in _texts(drawing))
        assert "N=48,842  d=6  k=3" in _texts(drawing)
    assert "NICV, scaled units" in _texts(drawings[0])


def test_curves_show_the_means(tmp_path: Path) -> None:
    made = rows({"iris": REAL["iris"]}, ["lloyd", "glloyd"], runs=3)
    (panel,) = _draw(tmp_path, made, "curves")[0].figure.axes
    values = [float(str(row["nicv"])) for row in made]
    flat, falling = (np.asarray(line.get_ydata(), dtype=float) for line in panel.get_lines())
    assert flat == pytest.approx([np.mean(values[:3])] * 5)
    assert falling == pytest.approx(np.mean(np.reshape(values[3:], (5, 3)), axis=1))
    assert len(panel.collections) == 2  # bands


def test_values_over_more_than_a_decade_are_on_a_logarithmic_axis_unless_they_are_scores(
    tmp_path: Path,
) -> None:
    made = rows({"iris": REAL["iris"]})
    for row in made:
        row["silhouette"] = 0.001 if row["method"] == "sulloyd" else 0.5
    nicv, silhouette, *_ = _draw(tmp_path, made, "curves")
    assert [d.figure.axes[0].get_yscale() for d in (nicv, silhouette)] == ["log", "linear"]


def test_many_sets_are_spread_over_several_sheets(tmp_path: Path) -> None:
    made = [_only_nicv(row) for row in rows(G2, ["glloyd"], runs=1)]
    drawings = _draw(tmp_path, made, "curves")
    assert [each.name for each in drawings] == ["curves-nicv-1", "curves-nicv-2"]
    assert [len(each.figure.axes) for each in drawings] == [20, 10]


def test_what_could_not_be_shown_is_said_at_the_foot(tmp_path: Path) -> None:
    made = rows({"mnist": REAL["mnist"], "iris": REAL["iris"]}, ["sulloyd", "lloyd"])
    made[0], made[-1] = fail(made[0], "it broke"), fail(made[-1], "it broke")
    drawings = {each.name: each for each in _draw(tmp_path, made, "curves")}
    assert "2 failed trials are left out." in " ".join(_texts(drawings["curves-nicv"])).replace(
        "\n", " "
    )
    infinite = sum(row["davies_bouldin"] == np.inf for row in made)
    assert infinite > 1
    assert f"{infinite} infinite values are left out." in drawings["curves-davies_bouldin"].caption


def test_scaling_is_relative_to_sulloyd_along_the_axis_that_varies(tmp_path: Path) -> None:
    by_d, by_k = _draw(
        tmp_path,
        rows(SMALL_G2 | {name: SYNTH_K[name] for name in ("synthk-2-1", "synthk-8-1")}),
        "scaling",
    )
    assert (by_d.name, by_k.name) == ("scaling-g2-n_features", "scaling-synthk-n_clusters")
    assert by_d.figure.axes[0].get_xlabel() == "number of dimensions d"
    assert by_k.figure.axes[0].get_xlabel() == "number of clusters k"
    assert [tick.get_text() for tick in by_k.figure.axes[0].get_xticklabels()] == ["2", "8"]
    line = next(line for line in by_d.figure.axes[0].get_lines() if line.get_marker() == "s")
    assert np.asarray(line.get_ydata()).tolist() == [1.0, 1.0]  # SuLloyd itself
    assert "Each point averages up to 2 sets." in by_d.caption


def test_heat_maps_hold_the_number_of_every_cell(tmp_path: Path) -> None:
    made = rows(SMALL_SYNTH, ["sulloyd", "fastlloyd"], runs=3)
    (drawing,) = _draw(tmp_path, made, "heatmaps")
    theirs, ours, improvement = drawing.figure.axes
    assert [panel.get_title() for panel in (theirs, ours, improvement)] == [
        "SuLloyd",
        "FastLloyd",
        "Improvement, %",
    ]
    for panel in (theirs, ours, improvement):
        assert len(panel.texts) == len(panel.patches) == 4
    found = Summaries.of(read(tmp_path))
    areas = [
        np.mean(
            [
                float(
                    np.mean(
                        list(
                            found.areas(f"synth-2-2-{r}", Variant(m, (), 2), "nicv").by_run.values()
                        )
                    )
                )
                for r in (1, 2, 3)
            ]
        )
        for m in ("sulloyd", "fastlloyd")
    ]
    shown = [
        next(text.get_text() for text in panel.texts if text.get_position() == (0, 0))
        for panel in (theirs, ours)
    ]
    assert [float(text) for text in shown] == pytest.approx(areas, rel=5e-3)
    percent = next(text.get_text() for text in improvement.texts if text.get_position() == (0, 0))
    assert float(percent.strip("()")) == pytest.approx(100 * (1 - areas[1] / areas[0]), abs=0.51)


def test_the_ablation_has_a_panel_for_each_radius_and_a_line_for_each_postprocessing_and_clipping(
    tmp_path: Path,
) -> None:
    (drawing,) = _draw(tmp_path, swept(SMALL_ABLATION, runs=3), "ablation")
    assert [panel.get_title() for panel in drawing.figure.axes] == [
        "radius: step",
        "radius: constant",
    ]
    assert sorted(_legend(drawing)) == sorted(
        f"{first}, {second}"
        for first in ("no postprocessing", "truncate", "fold")
        for second in ("clipping", "no clipping")
    )
    for panel in drawing.figure.axes:
        assert len(panel.get_lines()) == 7  # and the baseline
        assert all(
            np.asarray(line.get_xdata()).tolist() == [0.2, 0.4, 0.6, 0.8, 1.0]
            for line in panel.get_lines()[1:]
        )
    assert drawing.figure.axes[0].get_ylim() == drawing.figure.axes[1].get_ylim()


def test_in_the_ablation_a_private_method_without_its_options_is_a_level_line_in_every_panel(
    tmp_path: Path,
) -> None:
    made = swept(SMALL_ABLATION, runs=3, others=["momentlloyd", "lloyd"])
    (drawing,) = _draw(tmp_path, made, "ablation")
    assert {"momentlloyd"} == {name for name in _legend(drawing) if "clipping" not in name}
    mean = {
        m: np.mean([float(str(row["nicv"])) for row in made if row["method"] == m])
        for m in ("momentlloyd", "glloyd")
    }
    for panel in drawing.figure.axes:
        (level,) = panel.get_lines()[7:]
        assert np.asarray(level.get_ydata()) == pytest.approx(mean["momentlloyd"] / mean["glloyd"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("scaling", "needs a family of sets"),
        ("heatmaps", "needs a family of sets"),
        ("ablation", "needs results in which the option alpha was swept"),
        ("curve", "'curve' is unknown .did you mean 'curves'"),
    ],
)
def test_a_figure_that_cannot_be_drawn_of_the_results_is_refused(
    name: str, said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=said):
        _draw(tmp_path, rows({"iris": REAL["iris"]}, runs=1), name)


OVERHEAD = """transport,clients,dataset,n,k,d,latency_ms,runtime_ms,low,high,bytes,ring_bits
mpi,2,S1,5000,15,2,0.25,6.5,6.1,6.9,1500,64
mpi,2,S1,5000,15,2,0.25,6.4,6.0,6.8,800,32
mpi,8,S1,5000,15,2,0.25,9.4,9.0,9.8,6400,64
grpc,2,LSun,400,3,2,0.25,9.0,8.0,10.0,700,64
published-fastlloyd,2,S1,5000,15,2,0.25,5.81,5.73,5.89,1440,
published-mohassel,2,S1,5000,15,2,0.25,49087,,,,
mpi,2,S1,5000,15,2,25,56,55,57,1500,64
"""


def test_overheads_are_drawn_by_latency_and_published_figures_are_hollow(tmp_path: Path) -> None:
    (tmp_path / "overhead.csv").write_text(OVERHEAD)
    near, far = _drawn(Summaries.of(read(tmp_path)))
    assert (near.title, far.name) == (
        "Runtime and bytes of one iteration, latency 0.25 ms",
        "overhead-2",
    )
    assert _legend(near) == [
        "FastLloyd over MPI, 32 bits", "FastLloyd over MPI, 64 bits", "FastLloyd over gRPC",
        "FastLloyd, published", "Mohassel et al., published",
    ]  # fmt: skip
    runtimes, traffics = near.figure.axes[:2], near.figure.axes[2:]
    assert [panel.get_title() for panel in runtimes] == ["S1", "LSun"]
    assert [panel.get_ylabel() for panel in near.figure.axes] == ["ms", "", "bytes", ""]
    marked = [line for line in runtimes[0].get_lines() if line.get_marker() not in ("None", "")]
    assert [np.asarray(line.get_ydata()).tolist() for line in marked] == [
        [6.4], [6.5, 9.4], [], [5.81], [49087.0],
    ]  # fmt: skip
    assert [line.get_markerfacecolor() == "none" for line in marked] == [False] * 3 + [True] * 2
    for panels in (runtimes, traffics):
        assert len({panel.get_ylim() for panel in panels}) == 1
        assert [tick.get_text() for tick in panels[0].get_xticklabels()] == ["2", "8"]
    for panel in (*near.figure.axes, *far.figure.axes):
        panel.figure.canvas.draw()
        low, high = panel.get_ylim()
        # an axis without numbers says nothing
        assert sum(low <= mark <= high for mark in panel.get_yticks()) >= 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [("runtime_ms", "ms", "no column 'runtime_ms'"), ("9.4", "x", "no number")],
)
def test_a_damaged_table_of_overheads_is_refused(
    old: str, new: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "overhead.csv").write_text(OVERHEAD.replace(old, new))
    with pytest.raises(DataError, match=said):
        _drawn(Summaries.of(read(tmp_path)))


def test_one_figure_that_cannot_be_drawn_costs_no_other(tmp_path: Path) -> None:
    sets = {name: SYNTH_K[name] for name in ("synthk-2-1", "synthk-8-1")} | {
        "g2-2-30": G2["g2-2-30"],
        "g2-4-30": G2["g2-4-30"],
    }
    made = [_only_nicv(row) for row in rows(sets, ["sulloyd", "fastlloyd"], runs=1)]
    made = [row for row in made if "g2" not in str(row["dataset"]) or row["method"] != "sulloyd"]
    drawings, refused = pictures.draw(
        _summaries(tmp_path, made, figures=["ablation", "scaling", "curve", "curves"])
    )
    assert [each.name for each in drawings] == ["scaling-synthk-n_clusters", "curves-nicv"]
    assert [" ".join(why.split()[:2]) for why in refused] == [
        "figure 'ablation'",
        "figure 'scaling'",
        "figure 'curve'",
    ]
    assert "needs sulloyd at two epsilons or more on the sets g2-..." in refused[1]


def test_nothing_is_drawn_of_trials_that_all_failed(tmp_path: Path) -> None:
    made = [fail(row, "no") for row in rows(SMALL_G2, runs=1)]
    for name in ("curves", "scaling"):
        with pytest.raises(DataError, match="nothing to draw"):
            _draw(tmp_path, made, name)


def test_names_of_users_are_text_and_no_mathematics(tmp_path: Path) -> None:
    made = rows({"cost in $x^2$ _y_ <b>": (10, 2, 2)}, ["$\\alpha", "lloyd"], runs=2)
    for drawing in _draw(tmp_path, made, "curves"):
        assert pictures.save(drawing, "svg").startswith(b"<?xml")


@pytest.mark.parametrize("kind", pictures.FORMATS)
def test_the_same_results_give_the_same_file(kind: str, tmp_path: Path) -> None:
    made = rows({"iris": REAL["iris"]}, ["lloyd", "glloyd"], runs=2)
    first, second = (
        pictures.save(_draw(tmp_path / str(n), made, "curves")[0], kind) for n in range(2)
    )
    assert first == second
    assert not re.search(rb"CreationDate|dc:date|Creation Time", first)
    if kind == "png":
        width, _ = struct.unpack(">II", first[16:24])
        assert width == 1440


def _drawn_texts(drawing: Drawing) -> list["Text"]:
    """Return all texts that are visible. Tick labels beyond the ends of an axis are left out."""
    texts = [
        *drawing.figure.texts,
        *(text for legend in drawing.figure.legends for text in legend.get_texts()),
    ]
    for panel in drawing.figure.axes:
        texts += [*panel.texts, panel.title, panel.xaxis.label, panel.yaxis.label]
        for axis, place in ((panel.xaxis, 0), (panel.yaxis, 1)):
            low, high = axis.get_view_interval()
            texts += [
                text for text in axis.get_ticklabels() if low <= text.get_position()[place] <= high
            ]
    return [text for text in texts if text.get_text().strip()]


def _assert_no_label_lies_on_another_or_beyond_the_edge(drawing: Drawing, least: int) -> None:
    pictures.save(drawing, "png")
    boxes = [(text.get_text(), text.get_window_extent()) for text in _drawn_texts(drawing)]
    assert len(boxes) > least
    for (name, one), (other, another) in combinations(boxes, 2):
        assert not one.padded(-1).overlaps(another.padded(-1)), (name, other)
    width, height = drawing.figure.bbox.size
    for name, box in boxes:
        assert box.x0 >= 0, name
        assert box.y0 >= 0, name
        assert box.x1 <= width, name
        assert box.y1 <= height, name


def test_no_label_lies_on_another_or_beyond_the_edge(tmp_path: Path) -> None:
    """The test compares titles, notes, legend, and labels of axes and panels, on a sheet with ten
    panels.
    """
    made = [_only_nicv(row) for row in rows(REAL, [*METHODS, "somebody else's method"], runs=2)]
    made[0] = fail(made[0], "it broke")
    (drawing,) = _draw(tmp_path, made, "curves")
    _assert_no_label_lies_on_another_or_beyond_the_edge(drawing, least=100)


def test_no_label_of_heat_maps_with_two_rows_lies_on_another_or_beyond_the_edge(
    tmp_path: Path,
) -> None:
    """The label of the vertical axis is written upwards. It is longer than two rows of numbers are
    high.
    """
    (drawing,) = _draw(tmp_path, rows(SMALL_SYNTH, ["sulloyd", "fastlloyd"], runs=3), "heatmaps")
    _assert_no_label_lies_on_another_or_beyond_the_edge(drawing, least=20)


def test_marks_of_a_logarithmic_axis_are_few_and_lie_in_its_range() -> None:
    for low, high in ((0.01, 0.3), (1e-5, 3.0), (1e-9, 1e9), (0.9, 10.0)):
        marks = axes.logarithmic_marks(low, high)
        assert 2 <= len(marks) <= 8
        assert low / 10 < marks[0] < marks[-1] < high * 10


def _summary(mean: float, half_width: float = 0.0) -> Summary:
    return Summary(n=9, mean=mean, half_width=half_width, median=mean)


def test_what_lies_far_from_all_the_rest_is_off_a_logarithmic_axis() -> None:
    found = axes.scale([_summary(mean, mean / 5) for mean in (1.8e-10, 0.2, 3.0, 1500.0)])
    assert found is not None
    assert (found.low, found.high, found.logarithmic, found.cut) == (0.2, 1500.0, True, False)
    assert not found.holds(1.8e-10)
    assert 0.2 / 3 < found.ends[0] < 0.2
    assert 1500 < found.ends[1] < 3 * 1500
    zero = axes.scale([_summary(mean) for mean in (0.0, 0.1, 10.0, 1000.0)])
    assert zero is not None
    assert (zero.low, zero.logarithmic) == (0.1, True)


@pytest.mark.parametrize(
    "values",
    [(0.0, 0.01, 0.6), (-0.2, 0.5, 0.7), (1.0, 2.0, 4.0), (1e-3, 1.0), (3.0, 3.0), (0.0, 0.0)],
)
def test_an_axis_holds_all_means_that_are_together(values: tuple[float, ...]) -> None:
    found = axes.scale([_summary(mean) for mean in values])
    assert found is not None
    assert all(found.holds(value) and found.ends[0] < value < found.ends[1] for value in values)
    assert found.logarithmic == (min(values) > 0 and max(values) > 5 * min(values))


def test_an_interval_far_wider_than_the_curves_does_not_press_them_together() -> None:
    for means in ((1.0, 1.2), (1.0, 100.0)):
        found = axes.scale([_summary(mean, 1e6) for mean in means])
        assert found is not None
        assert found.cut
        assert found.ends[1] < 5 * means[1]


def test_a_curve_off_the_axis_and_a_lone_run_are_marked_and_said(tmp_path: Path) -> None:
    made = rows({"iris": REAL["iris"]}, ["lloyd", "sulloyd", "glloyd"], runs=5)
    for row in made:
        row["centroid_mse"] = 1e-12 if row["method"] == "lloyd" else 0.1 + float(str(row["nicv"]))
        row["davies_bouldin"] = np.inf if row["method"] == "sulloyd" else 1.0
    next(row for row in made if row["method"] == "sulloyd")["davies_bouldin"] = 1.5
    by_name = {each.name: each for each in _draw(tmp_path, made, "curves")}
    mse, davies_bouldin = by_name["curves-centroid_mse"], by_name["curves-davies_bouldin"]
    assert "Off the axis, marked at its edge: iris, Lloyd at 1e-12." in mse.caption
    assert mse.figure.axes[0].get_ylim()[0] > 0.01
    assert len([line for line in mse.figure.axes[0].get_lines() if not line.get_clip_on()]) == 5
    assert "Means of fewer than half of the runs: iris (SuLloyd)." in davies_bouldin.caption
    assert [text for text in _texts(davies_bouldin) if text == "1 run"] == ["1 run"]
    assert "marked at its edge" not in davies_bouldin.caption


def test_a_panel_without_any_value_says_so(tmp_path: Path) -> None:
    made = rows({name: REAL[name] for name in ("iris", "s1", "wine", "lsun")}, ["glloyd"], runs=1)
    change: dict[str, dict[str, object]] = {
        "iris": {"davies_bouldin": np.inf},
        "wine": {"davies_bouldin": None},
    }
    made = [
        fail(row, "no") if row["dataset"] == "lsun" else row | change.get(str(row["dataset"]), {})
        for row in made
    ]
    drawing = next(
        each for each in _draw(tmp_path, made, "curves") if each.name == "curves-davies_bouldin"
    )
    assert [panel.get_title() for panel in drawing.figure.axes] == ["iris", "s1", "lsun"]
    iris, _, lsun = drawing.figure.axes
    assert "no finite value" in [text.get_text() for text in iris.texts]
    assert "all trials failed" in [text.get_text() for text in lsun.texts]
    assert len(iris.get_yticks()) == 0
    assert "Not measured: wine." in drawing.caption


def test_every_epsilon_has_a_tick_and_as_many_have_a_number_as_fit(tmp_path: Path) -> None:
    narrow = _draw(tmp_path, [_only_nicv(row) for row in rows(REAL, ["glloyd"], runs=1)], "curves")[
        0
    ].figure.axes[0]
    assert narrow.get_xticks().tolist() == [0.1, 0.25, 0.5, 0.75, 1.0]
    assert [tick.get_text() for tick in narrow.get_xticklabels()] == [".1", ".25", ".5", ".75", "1"]
    axes.label_ticks(narrow, [0.01, 0.02, 5.0, 5.01, 10.0], 1.0)
    assert [tick.get_text() for tick in narrow.get_xticklabels()] == ["0.01", "", "5", "", "10"]
    axes.label_ticks(narrow, [0.5], 1.0)
    assert [tick.get_text() for tick in narrow.get_xticklabels()] == ["0.5"]


@pytest.mark.parametrize(
    "name", ["W" * 300, "a method " * 40, "方法" * 80], ids=["letters", "words", "boxes"]
)
def test_long_names_stay_on_the_sheet(name: str, tmp_path: Path) -> None:
    made = [
        _only_nicv(row)
        for row in rows({name: (10, 2, 2), "g2-2-30": G2["g2-2-30"]}, [name, "sulloyd"], runs=2)
    ]
    (drawing,) = _draw(tmp_path, made, "curves")
    pictures.save(drawing, "png")
    width, _ = drawing.figure.bbox.size
    for text in _drawn_texts(drawing):
        with sheet.boxes_for_letters_the_font_lacks():
            box = text.get_window_extent()
        assert 0 <= box.x0 <= box.x1 <= width, text.get_text()


def test_a_text_is_cut_in_its_middle_and_only_if_it_must_be() -> None:
    assert sheet.fitted("iris", 8, 1.0) == "iris"
    cut = sheet.fitted("method-" * 30 + "17", 8, 1.0)
    assert sheet.width(cut, 8) <= 1.0
    assert cut.startswith("method-")
    assert cut.endswith("17")
    lines = sheet.wrapped("some words " * 20, 8, 1.0)
    assert " ".join(lines).split() == ["some", "words"] * 20
    assert all(sheet.width(line, 8) <= 1.0 for line in lines)


def test_ticks_keep_their_distance_and_both_ends() -> None:
    kept = axes.spaced([0.1, 0.25, 0.5, 0.75, 1.0], 0.25)
    assert kept == [0.1, 0.5, 0.75, 1.0]
    assert all(b - a >= 0.25 * 0.9 for a, b in pairwise(kept))


def test_captions_can_be_written_as_json(tmp_path: Path) -> None:
    drawings = _draw(tmp_path, rows({"iris": REAL["iris"]}, runs=2), "curves")
    content: Mapping[str, str] = json.loads(
        json.dumps({each.name: each.caption for each in drawings})
    )
    assert all(re.search(r"Means of 2 runs", caption) for caption in content.values())
