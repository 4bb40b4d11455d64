"""How the cost of an iteration grows with N, k and d over two decades each; the picture of docs/performance.md."""

from pathlib import Path

import numpy as np

from benchmarks.kernels import iteration, problem
from benchmarks.timing import paired
from fastlloyd.figures import new_figure, to_png

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "scaling.png"
BASE = {"N": 100_000, "k": 10, "d": 10}
GRIDS = {
    "N": [10_000, 31_600, 100_000, 316_000, 1_000_000],
    "k": [3, 10, 32, 100, 300],
    "d": [3, 10, 32, 100, 300],
}
TITLE = "Cost of one exact iteration against records, clusters and features"
LABELS = {"N": "records N", "k": "clusters k", "d": "features d"}


def measured(repetitions: int) -> dict[str, list[tuple[int, float]]]:
    """Median seconds of an iteration for every point of the three grids."""
    found: dict[str, list[tuple[int, float]]] = {}
    for axis, sizes in GRIDS.items():
        found[axis] = []
        for size in sizes:
            shape = BASE | {axis: size}
            work = iteration(*problem(shape["N"], shape["k"], shape["d"]))
            found[axis].append((size, paired(work, lambda: None, repetitions).ours))
    return found


def slopes(found: dict[str, list[tuple[int, float]]]) -> dict[str, float]:
    """Exponents of the least squares lines through the logarithms: 1 is linear growth."""
    logarithms = {axis: np.log(np.array(points)).T for axis, points in found.items()}
    return {axis: float(np.polyfit(x, y, 1)[0]) for axis, (x, y) in logarithms.items()}


def draw(found: dict[str, list[tuple[int, float]]]) -> None:
    """Three panels on logarithmic scales with lines of slope 1 through the middle point."""
    figure = new_figure(3.8, PICTURE.name)
    for place, (axis, points) in enumerate(found.items(), 1):
        panel = figure.add_subplot(1, 3, place)
        sizes, seconds = np.array(points).T
        middle = len(points) // 2
        panel.loglog(sizes, 1e3 * seconds, "o-", color="#0072B2", label="measured")
        panel.loglog(sizes, 1e3 * seconds[middle] * sizes / sizes[middle], ":", color="#555555", label="linear")
        others = ", ".join(f"{name} = {value:,}" for name, value in BASE.items() if name != axis)
        panel.set_title(others, fontsize=10)
        panel.set_xlabel(LABELS[axis])
        if place == 1:
            panel.set_ylabel("one iteration, ms")
            panel.legend(frameon=False)
        panel.grid(visible=True, which="major", alpha=0.3)
    figure.suptitle(TITLE, fontsize=12)
    PICTURE.write_bytes(to_png(figure, TITLE))
