"""Folders of results with invented numbers, in the form in which an experiment leaves them."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0)
MEASURES = ("nicv", "silhouette", "davies_bouldin", "centroid_mse")
METHODS = ("lloyd", "sulloyd", "glloyd", "fastlloyd")
REAL = {
    "iris": (150, 4, 3), "lsun": (400, 2, 3), "s1": (5000, 2, 15), "house": (1837, 3, 3), "adult": (48842, 6, 3),
    "wine": (178, 13, 3), "breast": (699, 9, 2), "yeast": (1484, 8, 10), "mnist": (10000, 784, 10), "birch2": (25000, 2, 100),
}  # fmt: skip
G2 = {
    f"g2-{d}-{s}": (2048, d, 2)
    for d in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    for s in (30, 50, 70)
}
SYNTH_K = {f"synthk-{k}-1": (10000, 2, k) for k in (2, 4, 8, 16, 32, 64, 128)}
SYNTH = {
    f"synth-{k}-{d}-{r}": (10000, d, k)
    for k in (2, 4, 8, 16, 32) for d in (2, 4, 8, 16, 32, 64, 128, 256, 512) for r in (1, 2, 3)
}  # fmt: skip
ABLATION = {
    f"ablation-{k}-{d}-{s}": (2048, d, k) for k in (2, 8) for d in (2, 16) for s in ("0.25", "0.75")
}

Cells = dict[str, object]
Harm = Callable[[str, int, int, int], float]
_EXCESS: dict[str, Harm] = {  # error beyond Lloyd's at epsilon 1
    "lloyd": lambda *_: 0.0,
    "sulloyd": lambda _, n, d, k: 6 * d**1.4 * k / n,
    "glloyd": lambda _, n, d, k: 5 * d**0.9 * k / n,
    "fastlloyd": lambda _, n, d, k: 3 * d**0.8 * k**0.6 / n,
}


def rows(
    sets: dict[str, tuple[int, int, int]],
    methods: Sequence[str] = METHODS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    runs: int = 5,
    seed: int = 0,
) -> list[Cells]:
    """Return a row for each trial. Its errors fall with epsilon, and grow with d and k."""
    rng = np.random.default_rng(seed)
    made = []
    for (name, (n, d, k)), method in product(sets.items(), methods):
        for epsilon, run in product([math.inf] if method == "lloyd" else epsilons, range(runs)):
            excess = _EXCESS.get(method, _EXCESS["glloyd"])(method, n, d, k) / min(epsilon, 1e9)
            noise = float(np.exp(rng.normal(0, 0.15 if method != "lloyd" else 0.02)))
            made.append(
                _row(name, (n, d, k), method, epsilon, run, excess * noise, 0.02 * d * noise)
            )
    return made


def _row(
    name: str,
    shape: tuple[int, int, int],
    method: str,
    epsilon: float,
    run: int,
    excess: float,
    floor: float,
) -> Cells:
    n, d, k = shape
    measures = {
        "nicv": floor + min(excess, 2.0) * d**0.5,
        "silhouette": 0.7 / (1 + excess) - 0.1,
        "davies_bouldin": math.inf if excess > 1.8 else 0.6 + excess,
        "centroid_mse": 1e-4 * d + excess**2,
    }
    return {
        "dataset": name, "n_records": n, "n_features": d, "n_clusters": k, "method": method, "epsilon": epsilon,
        "delta": 0.0 if method == "lloyd" else 1e-4, "clients": 2, "run": run, "status": "ok", "error": "",
        **measures, "n_iterations": 7, "seconds": 0.01,
    }  # fmt: skip


def swept(
    sets: dict[str, tuple[int, int, int]], *, runs: int = 5, others: Sequence[str] = ()
) -> list[Cells]:
    """Return rows of FastLloyd with all combinations of alpha, radius, postprocessing and clipping
    at one epsilon. Also return rows of GLloyd, and of the methods in `others`.
    """
    made = []
    for options in product(
        (0.2, 0.4, 0.6, 0.8, 1.0), ("step", "constant"), ("none", "truncate", "fold"), (True, False)
    ):
        alpha, radius, postprocessing, clipping = options
        gain = 1 + (alpha - 0.8) ** 2 + 0.3 * (radius == "constant") + 0.2 * (not clipping)
        gain += {"none": 0.8, "truncate": 0.3, "fold": 0.0}[postprocessing]
        for row in rows(sets, ["fastlloyd"], epsilons=[0.1], runs=runs, seed=int(10 * alpha)):
            row["nicv"] = float(str(row["nicv"])) * gain
            made.append(_with_options(row, *options))
    plain = [
        _with_options(row, None, None, None, None)
        for row in rows(sets, ["glloyd", *others], epsilons=[0.1], runs=runs)
    ]
    return made + plain


def _with_options(row: Cells, *values: object) -> Cells:
    names = list(row)
    head, tail = names[: names.index("status")], names[names.index("status") :]
    options = dict(zip(("alpha", "radius", "postprocessing", "clipping"), values, strict=True))
    return {name: row[name] for name in head} | options | {name: row[name] for name in tail}


def fail(row: Cells, sentence: str) -> Cells:
    """Return the row as that of a trial that failed."""
    empty: Cells = dict.fromkeys((*MEASURES, "n_iterations", "seconds"))
    return row | empty | {"status": "failed", "error": sentence}


def write(
    folder: Path,
    made: Iterable[Cells],
    *,
    title: str = "Made-up results",
    figures: Sequence[str] = ("curves",),
) -> Path:
    """Write the folder of an experiment with these rows, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = list(made)
    (folder / "spec.toml").write_text(
        f"title = {json.dumps(title)}\nfigures = {json.dumps(list(figures))}\nseed = 1\n"
    )
    (folder / "trials.jsonl").write_text("".join(json.dumps(_finite(row)) + "\n" for row in listed))
    provenance = {
        "fastlloyd": "0",
        "machine": "made up",
        "note": "NOT PRIVATE",
        "data": {"iris": "00" * 32},
    }
    (folder / "provenance.json").write_text(json.dumps(provenance))
    return folder


def _finite(row: Cells) -> Cells:
    """Return the row with infinite numbers as text, because JSON has none."""
    return {
        name: str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell
        for name, cell in row.items()
    }
