"""Growth of the cost of an iteration with the number of records N, clusters k and features d, over
two decades each. Draws the picture of docs/results/performance.md.
"""

import os
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.report import as_table
from benchmarks.rivals import mixture
from benchmarks.sides import fastlloyd_kernel
from benchmarks.timing import in_turn, spent
from fastlloyd.base.arrays import FloatArray
from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering.parallel import one_blas_thread
from fastlloyd.reports.figures import new_figure, to_png

PICTURE = Path(__file__).parents[2] / "docs" / "results" / "images" / "scaling.png"
REPETITIONS = 25
BASE = {"N": 100_000, "k": 10, "d": 10}
GRIDS = {
    "N": [10_000, 31_600, 100_000, 316_000, 1_000_000],
    "k": [3, 10, 32, 100, 300],
    "d": [3, 10, 32, 100, 300],
}
TITLE = "Cost of one exact iteration in one thread against records, clusters and features"
LABELS = {"N": "records N", "k": "clusters k", "d": "features d"}


Points = dict[str, list[tuple[int, float]]]


def table() -> str:
    """Draw the picture, and return a table of the straight line that fits best for N, k and d."""
    found = measured()
    draw(found)
    rows = []
    for axis, points in found.items():
        fixed, each, farthest = _line(*np.array(points).T)
        span = f"{LABELS[axis]}, {points[0][0]:,} to {points[-1][0]:,}"
        rows.append([span, f"{1e3 * fixed:.3f}", f"{1e3 * each:.3g}", f"{100 * farthest:.0f} %"])
    return as_table(
        ["axis", "at any size, ms", "for each more, ms", "farthest point from that line"],
        "lrrr",
        rows,
    )


@mock.patch.dict(os.environ, OMP_NUM_THREADS="1")
def measured() -> Points:
    """Return the median CPU seconds of an iteration in one thread, for every point of the three
    grids.
    """
    is_compiled(1 << 40)
    found: Points = {axis: [] for axis in GRIDS}
    for axis, sizes in GRIDS.items():
        for size in sizes:
            n, k, d = (BASE | {axis: size}).values()
            work = fastlloyd_kernel(*mixture(n, k, d))
            with one_blas_thread():
                seconds = in_turn([partial(spent, work)], REPETITIONS)[:, 0, 1]
            found[axis].append((size, float(np.median(seconds))))
    return found


def _line(sizes: FloatArray, seconds: FloatArray) -> tuple[float, float, float]:
    """Fit a straight line by least squares of relative deviations.

    Return the seconds at size 0, the additional seconds per unit of size, and the largest relative
    deviation.
    """
    columns = np.stack([1 / seconds, sizes / seconds], axis=1)
    (fixed, each), *_ = np.linalg.lstsq(columns, np.ones(len(seconds)))
    return float(fixed), float(each), float(np.abs(columns @ (fixed, each) - 1).max())


def draw(found: Points) -> None:
    """Draw three panels with logarithmic scales, and the straight lines that fit best."""
    from matplotlib.ticker import LogLocator, NullFormatter

    figure = new_figure(3.8, PICTURE.name)
    for place, (axis, points) in enumerate(found.items(), 1):
        panel = figure.add_subplot(1, 3, place)
        sizes, seconds = np.array(points).T
        fixed, each, _ = _line(sizes, seconds)
        everywhere = np.geomspace(sizes[0], sizes[-1], 50)
        panel.loglog(sizes, 1e3 * seconds, "o-", color="#0072B2", label="measured")
        panel.loglog(
            everywhere,
            1e3 * (fixed + each * everywhere),
            ":",
            color="#555555",
            label="linear in the size",
        )
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter(NullFormatter())
        others = ", ".join(f"{name} = {value:,}" for name, value in BASE.items() if name != axis)
        panel.set_title(others, fontsize=10)
        panel.set_xlabel(LABELS[axis])
        if place == 1:
            panel.set_ylabel("one iteration, ms")
            panel.legend(frameon=False)
        panel.grid(visible=True, which="major", alpha=0.3)
    figure.suptitle(TITLE, fontsize=12)
    PICTURE.write_bytes(to_png(figure, TITLE))
