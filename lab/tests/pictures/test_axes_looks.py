"""Tests of the style of lines. A method has one colour in every figure, and everybody can
distinguish the colours.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastlloyd_lab import pictures
from fastlloyd_lab.experiments.reading import read
from fastlloyd_lab.pictures import axes
from fastlloyd_lab.pictures.summaries import Summaries, Summary
from made_up_results import ABLATION, G2, METHODS, Cells, rows, swept, write

SMALL_G2 = {name: G2[name] for name in ("g2-2-30", "g2-2-50", "g2-16-30", "g2-16-50")}
SMALL_ABLATION = {name: ABLATION[name] for name in list(ABLATION)[:2]}


def _summaries(folder: Path, made: Iterable[Cells], **settings: Sequence[str]) -> Summaries:
    # figures, the only setting here
    return Summaries.of(read(write(folder, made, **settings)))  # type: ignore[arg-type]


def test_a_method_looks_the_same_in_every_figure_whatever_others_there_are(tmp_path: Path) -> None:
    few = axes.styles(_summaries(tmp_path / "few", rows(SMALL_G2, ["momentlloyd"], runs=1)))
    many = axes.styles(_summaries(tmp_path / "many", rows(SMALL_G2, [*METHODS, "a", "b"], runs=1)))
    assert {each.method: look for each, look in few.items()} == {
        "momentlloyd": axes.LOOKS["momentlloyd"]
    }
    for variant, look in many.items():
        assert look == axes.LOOKS.get(variant.method, look)
    assert {*METHODS} <= axes.LOOKS.keys()


def test_all_lines_of_a_method_have_a_shade_of_its_colour(tmp_path: Path) -> None:
    from matplotlib.colors import rgb_to_hsv, to_rgb

    found = _summaries(
        tmp_path,
        swept(SMALL_ABLATION, runs=1, others=["momentlloyd", "pe-means"]),
        figures=["ablation"],
    )
    for variant, look in axes.styles(found).items():
        hue, own = (
            rgb_to_hsv(to_rgb(c))[0] for c in (look.colour, axes.LOOKS[variant.method].colour)
        )
        assert hue == pytest.approx(own, abs=0.01)
    (drawing,), _ = pictures.draw(found)
    panel = drawing.figure.axes[0]
    level = {str(line.get_color()) for line in panel.get_lines() if len(line.get_xdata()) == 2}  # type: ignore[arg-type]
    assert {axes.LOOKS[name].colour for name in ("momentlloyd", "pe-means")} <= level
    blue = rgb_to_hsv(to_rgb(axes.LOOKS["fastlloyd"].colour))[0]
    others = {str(line.get_color()) for line in panel.get_lines()} - level
    assert len(others) == 3
    assert all(rgb_to_hsv(to_rgb(c))[0] == pytest.approx(blue, abs=0.01) for c in others)


# Machado, Oliveira and Fernandes (2009): linear RGB as people without one kind of cone see it
VISIONS = {
    "common": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_of_methods_are_told_apart_with_every_common_vision(vision: str) -> None:
    """A distance of ten units of CIELAB is a clear difference. All distances are more than
    fifteen.
    """
    colours = [*(look.colour for look in axes.LOOKS.values()), *axes._OTHERS]
    seen = [_lab(colour, VISIONS[vision]) for colour in colours]
    assert len(colours) == 9
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 15


def _lab(colour: str, vision: Sequence[Sequence[float]]) -> "np.ndarray[Any, Any]":
    from matplotlib.colors import to_rgb

    srgb = np.array(to_rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1, 1.089)
    xyz = np.array(to_xyz) @ np.clip(np.array(vision) @ linear, 0, 1) / white
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array((116 * y - 16, 500 * (x - y), 200 * (y - z)))


def test_lines_differ_in_more_than_their_colour(tmp_path: Path) -> None:
    looks = axes.styles(_summaries(tmp_path, rows(SMALL_G2, [*METHODS, *"abcdefgh"], runs=1)))
    assert len(looks) == 12
    for one, other in combinations(looks.values(), 2):
        assert (one.dashes, one.mark) != (other.dashes, other.mark)


def test_a_logarithmic_axis_of_ratios_has_ticks_where_only_intervals_reach() -> None:
    from matplotlib.figure import Figure

    panel = Figure().subplots()
    style, wide = (
        axes.LOOKS["fastlloyd"],
        [Summary(n=9, mean=m, half_width=h, median=m) for m, h in ((0.3, 0.1), (1.7, 30.0))],
    )
    axes.draw_ratios(panel, [(style, [(0.2, wide[0]), (0.8, wide[1])])], [0.3, 1.7])
    low, high = np.log10(panel.get_ylim())
    heights = (np.log10(panel.get_yticks()) - low) / (high - low)
    assert panel.get_yscale() == "log"
    assert ((heights > 0.5) & (heights < 1)).any()
    assert ((heights > 0) & (heights < 0.5)).any()


def test_lines_that_lie_on_each_other_are_all_seen(tmp_path: Path) -> None:
    """A line on top of another has gaps or an open mark, through which the line below it is
    visible.
    """
    looks = axes.styles(_summaries(tmp_path, rows(SMALL_G2, METHODS, runs=1)))
    fast, naive = (
        next(look for variant, look in looks.items() if variant.method == name)
        for name in ("fastlloyd", "glloyd")
    )
    assert fast.of_line()["zorder"] < naive.of_line()["zorder"]
    assert naive.of_line()["markerfacecolor"] == "none"
    assert naive.size > fast.size
