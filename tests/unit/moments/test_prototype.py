"""The prototype in `examples/` runs with the queries of `fastlloyd.moments`, and spends what it may, exactly."""

from pathlib import Path

import numpy as np
import pytest

from fastlloyd.expander import PublicSeed
from fastlloyd.experiments.methods import Setting, load_method
from fastlloyd.experiments.problem import make_problem

FOLDER = Path(__file__).parents[3] / "examples/experiment"


@pytest.mark.parametrize(
    ("queries", "n", "d", "epsilon"),
    [("FLOATS", 60, 2, 0.5), ("INTEGERS", 60, 2, 0.5), ("INTEGERS", 300, 5, 4.0), ("INTEGERS", 80, 40, 1.0)],
)
def test_the_prototype_returns_centroids_in_the_box(queries: str, n: int, d: int, epsilon: float) -> None:
    X = np.random.default_rng(d).normal(size=(n, d)) + 3 * np.arange(n)[:, None] % 2
    problem = make_problem("two", X, 2)
    setting = Setting(
        epsilon=epsilon,
        delta=1e-3,
        clients=1,
        preset="paper",
        public_seed=PublicSeed.from_hex("00" * 32),
        noise_seed=7,
    )
    outcome = load_method(f"moment_prototype.py:{queries}", FOLDER).cluster(problem, setting)  # it checks what is spent
    assert outcome.centroids.shape == (2, d)
    assert np.abs(outcome.centroids).max() <= 1
