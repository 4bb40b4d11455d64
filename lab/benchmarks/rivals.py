"""Times of whole fits and of single iterations, compared with rivals: scikit-learn, its extension
by Intel, faiss and SuperKMeans.

`python -m benchmarks.rivals` prints the tables and writes them to docs/results/performance.md. With
`--quick` it measures a few small shapes and writes nothing. Without the environment .venv-rivals,
only scikit-learn is compared.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.report import as_table, machine, milliseconds, publish
from benchmarks.sides import RECORDS, START, Array, Side
from benchmarks.timing import in_turn

LAB = Path(__file__).parents[1]
PYTHON = LAB.parent / ".venv-rivals" / "bin" / "python"
Shape = tuple[int, int, int]
Maker = Callable[[int, int, int], tuple[Array, Array]]
SHAPE = "records, clusters, features"
FITS = [
    (1_000_000, 10, 16), (1_000_000, 2, 2), (1_000_000, 3, 3), (1_000_000, 100, 8),
    (500_000, 1000, 16), (200_000, 256, 128),
    (50_000, 1000, 64), (10_000_000, 16, 8), (5_000, 500, 784), (10_000, 10, 784), (100_000, 10, 8),
    (10_000, 5, 5),
    (300, 3, 4),
]  # fmt: skip
KERNELS = [
    (250_000, 100, 8), (1_000_000, 10, 16), (100_000, 1000, 16), (1_000_000, 16, 8),
    (50_000, 1000, 64), (20_000, 10, 784),
    (500_000, 4, 24), (500_000, 10, 32), (50_000, 256, 128), (5_000, 500, 784), (100_000, 32, 64),
    (250_000, 2, 64),
]  # fmt: skip
# MomentLloyd beside KMeans, which goes on until it converges
DEFAULTS = [
    (1_000_000, 10, 16), (100_000, 10, 8), (10_000, 10, 784), (10_000, 5, 5), (300, 3, 4),
]  # fmt: skip
REPETITIONS = 7


class Rival(NamedTuple):
    """Library to measure, and the type of the numbers that it gets."""

    library: str
    dtype: str


OURS = [Rival("fastlloyd", "float64"), Rival("fastlloyd", "float32")]
SCIKIT_LEARN = [Rival("scikit-learn", "float64"), Rival("scikit-learn", "float32")]
INTELEX = [Rival("scikit-learn-intelex", "float64"), Rival("scikit-learn-intelex", "float32")]
FAISS = [Rival("faiss-cpu", "float32")]
SUPERKMEANS = [Rival("superkmeans", "float32"), Rival("superkmeans-defaults", "float32")]
ELSEWHERE = INTELEX + FAISS + SUPERKMEANS  # in .venv-rivals


class Found(NamedTuple):
    """Times for one shape of the records. Each array has wall and CPU time, (2,).

    ours : median seconds of fastlloyd.
    ratios : median of a rival's time divided by the time of fastlloyd with the same type of
        numbers.
    """

    shape: str
    ours: dict[Rival, Array]
    ratios: dict[Rival, Array]


def main() -> int:
    """Measure all fits and iterations, print the tables, and write the sections. Return the exit
    code.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="the last three shapes of each table; writes nothing"
    )
    quick = parser.parse_args().quick
    few = slice(-3, None) if quick else slice(None)
    everyone = SCIKIT_LEARN + INTELEX + FAISS + SUPERKMEANS
    fits, uniform_fits = (
        measured("fit", FITS[few], OURS, everyone, threads=2, records=records)
        for records in (mixture, uniform)
    )
    kernels = measured(
        "kernel", KERNELS[few], OURS[1:], SCIKIT_LEARN + FAISS, threads=1, records=mixture
    )
    defaults, uniform_defaults = (
        measured("defaults", DEFAULTS[few], OURS[1:], SCIKIT_LEARN[1:], threads=2, records=records)
        for records in (mixture, uniform)
    )
    versions = [
        line.replace("==", " ")
        for line in (LAB / "requirements-rivals.in").read_text().splitlines()
        if "==" in line
    ]
    where = f"{machine()}; {', '.join(versions) if PYTHON.exists() else 'without .venv-rivals'}."
    for name, content in (
        ("fits", f"{standing(fits)}\n\n{where}\n\n{table(fits)}"),
        ("uniform", f"{standing(uniform_fits)}\n\n{table(uniform_fits)}"),
        ("defaults", f"{table(defaults)}\n\nOn uniform records:\n\n{table(uniform_defaults)}"),
        ("kernels", table(kernels)),
    ):
        publish(name, content, write=not quick)
    return 0


def measured(
    work: str,
    shapes: Sequence[Shape],
    ours: list[Rival],
    rivals: list[Rival],
    *,
    threads: int,
    records: Maker,
) -> list[Found]:
    """Measure each shape, with fastlloyd and all installed rivals by turns.

    work : name of the work: "fit", "kernel" or "defaults".
    records : function that makes the records and the initial centroids of a shape.
    """
    rivals = [rival for rival in rivals if rival in SCIKIT_LEARN or PYTHON.exists()]
    everyone, found = ours + rivals, []
    with ExitStack() as until:
        folder = Path(until.enter_context(tempfile.TemporaryDirectory()))
        pythons = {
            rival.library: str(PYTHON) if rival in ELSEWHERE else sys.executable
            for rival in everyone
        }
        sides = {
            name: Side(work, name, threads=threads, python=python, until=until)
            for name, python in pythons.items()
        }
        for n, k, d in shapes:
            for name, array in zip((RECORDS, START), records(n, k, d), strict=True):
                np.save(folder / name, array)
            for name, side in sides.items():
                side.prepare(folder, [rival.dtype for rival in everyone if rival.library == name])
            taken = in_turn(
                [partial(sides[name].spent, dtype) for name, dtype in everyone], REPETITIONS
            )
            seconds = dict(zip(everyone, taken.swapaxes(0, 1), strict=True))
            beside = {rival: ours[-1] if rival.dtype == "float32" else ours[0] for rival in rivals}
            ratios = {
                rival: np.median(seconds[rival] / seconds[beside[rival]], axis=0)
                for rival in rivals
            }
            found.append(
                Found(
                    f"{n:,}, {k:,}, {d}",
                    {side: np.median(seconds[side], axis=0) for side in ours},
                    ratios,
                )
            )
            print(found[-1].shape, flush=True)
    return found


def mixture(n: int, k: int, d: int) -> tuple[Array, Array]:
    """Return float32 records around k centres, and initial centroids elsewhere, so that a few
    iterations do not converge.

    n, k, d : number of records, of centres and of features.
    """
    rng = np.random.default_rng(0)
    centres = rng.uniform(-0.8, 0.8, (k, d)).astype(np.float32)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X *= np.float32(0.3)
    X += centres[rng.integers(0, k, n)]
    return X.clip(-1, 1, out=X), rng.uniform(-0.8, 0.8, (k, d))


def uniform(n: int, k: int, d: int) -> tuple[Array, Array]:
    """Return uniform float32 records, which have no clusters, and initial centroids."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d)).astype(np.float32)
    return X, rng.uniform(-0.8, 0.8, (k, d))


def standing(found: list[Found]) -> str:
    """Return a table with a row for each rival: the ratio of its time to ours, and the shapes for
    which the rival has the smaller wall time.
    """
    rows = []
    for rival in found[0].ratios:
        faster = sorted(
            ((1 / f.ratios[rival][0], f.shape) for f in found if f.ratios[rival][0] < 1),
            reverse=True,
        )
        where = "; ".join(f"{factor:.2f} at {shape}" for factor, shape in faster)
        rows.append(
            [
                " ".join(rival),
                _ratio(_mean(found, rival)),
                f"{len(found) - len(faster)} of {len(found)}",
                where,
            ]
        )
    return as_table(
        ["rival", "its time / ours", "ours is faster", "the rival is faster, how many times"],
        "lrrl",
        rows,
    )


def table(found: list[Found]) -> str:
    """Return a table of wall and CPU times for every shape. Our times are in milliseconds, and
    those of rivals are multiples of ours. A multiple is bold if the rival is faster.
    """
    rows = [
        [f.shape, *map(milliseconds, f.ours.values()), *map(_ratio, f.ratios.values())]
        for f in found
    ]
    rows.append(
        [
            "geometric mean",
            *("" for _ in found[0].ours),
            *(_ratio(_mean(found, rival)) for rival in found[0].ratios),
        ]
    )
    headings = [
        SHAPE,
        *(f"ours, {side.dtype}, ms" for side in found[0].ours),
        *map(" ".join, found[0].ratios),
    ]
    return as_table(headings, "l" + "r" * (len(headings) - 1), rows)


def _mean(found: list[Found], rival: Rival) -> Array:
    return np.asarray(np.prod([f.ratios[rival] for f in found], axis=0) ** (1 / len(found)))


def _ratio(ratio: Array) -> str:
    bold = "**" if ratio[0] < 1 else ""
    return f"{bold}{ratio[0]:.2f}{bold} / {ratio[1]:.2f}"


if __name__ == "__main__":
    sys.exit(main())
