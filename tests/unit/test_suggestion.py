"""The number of clusters that noisy votes suggest: how it is found, when there is none, and where
it is shown.
"""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import silhouette_samples

from command_line import Command, strict
from fastlloyd import FastLloyd, MomentLloyd
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.mechanisms.suggestion import (
    MOST_CLUSTERS,
    NoisyVotes,
    silhouette,
    squared_extents,
    suggested_n_clusters,
)
from fastlloyd.testing import SeededNoise

Matrix = npt.NDArray[np.float64]
SEED = PublicSeed.from_int(3)
GRID = np.stack(np.meshgrid(*[np.linspace(-1, 1, 21)] * 2), axis=-1).reshape(-1, 2)
CENTRES = np.array([[-0.6, -0.6], [0.6, -0.5], [-0.5, 0.6], [0.6, 0.6], [0.0, 0.0]])


def votes(centres: Matrix, *, noise: float = 0.0, width: float = 0.12) -> NoisyVotes:
    """Those of 1,000 records around each centre, with noise of 4 on every place."""
    squared = ((GRID[:, np.newaxis] - centres) ** 2).sum(axis=2)
    density = np.exp(-squared / (2 * width**2))
    counts = (1000 * density / density.sum(axis=0)).sum(axis=1)
    return NoisyVotes(
        places=GRID,
        votes=counts + noise * np.random.default_rng(0).normal(size=len(GRID)),
        deviation=4.0,
    )


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_as_many_clusters_are_suggested_as_there_are_groups_whatever_was_planned_above(
    k: int, noise: float
) -> None:
    noisy = votes(CENTRES[:k], noise=noise)
    assert {suggested_n_clusters(noisy, planned, SEED) for planned in (k, k + 1, 10)} == {k}


@pytest.mark.parametrize("planned", [1, 2, 3])
def test_nothing_is_suggested_where_one_more_than_was_planned_is_best(planned: int) -> None:
    assert suggested_n_clusters(votes(CENTRES[:4], noise=4.0), planned, SEED) is None


def test_nothing_is_suggested_without_votes_that_stand_out_or_for_very_many_clusters() -> None:
    noisy, rng = votes(CENTRES[:3]), np.random.default_rng(1)
    assert suggested_n_clusters(None, 10, SEED) is None
    assert suggested_n_clusters(noisy, MOST_CLUSTERS + 1, SEED) is None
    drowned = NoisyVotes(places=GRID, votes=10 + 40 * rng.normal(size=len(GRID)), deviation=40.0)
    assert suggested_n_clusters(drowned, 10, SEED) is None
    empty = NoisyVotes(places=GRID, votes=-np.ones(len(GRID)), deviation=4.0)
    assert suggested_n_clusters(empty, 10, SEED) is None
    few = NoisyVotes(places=GRID[:3], votes=np.full(3, 100.0), deviation=4.0)
    assert suggested_n_clusters(few, 10, SEED) is None


def test_the_same_votes_and_seed_suggest_the_same_and_are_left_as_they_were() -> None:
    noisy = votes(CENTRES, noise=4.0)
    before = copy.deepcopy(noisy)
    assert suggested_n_clusters(noisy, 10, SEED) == suggested_n_clusters(noisy, 10, SEED) == 5
    assert np.array_equal(noisy.votes, before.votes)
    assert np.array_equal(noisy.places, before.places)


def test_the_silhouette_of_far_groups_is_that_of_their_records() -> None:
    """By all pairs of records, of which a place has several; with centroids for the others it
    hardly differs.
    """
    rng = np.random.default_rng(2)
    points = np.concatenate([rng.normal(centre, 0.01, (8, 2)) for centre in CENTRES[:3]])
    weights = rng.integers(1, 9, len(points))
    found = silhouette(
        points, weights.astype(np.float64), np.zeros(len(points)), 3, Draws(SEED, b"test")
    )
    labels = np.repeat(np.arange(3), 8)
    by_pairs = silhouette_samples(
        np.repeat(points, weights, axis=0), np.repeat(labels, weights)
    ).mean()
    assert found == pytest.approx(by_pairs, abs=0.01)
    assert 0.95 < found < 1


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_extent_of_a_place_is_that_of_records_that_fill_its_cell_of_a_regular_grid(
    d: int,
) -> None:
    side = 0.3
    places = np.stack(np.meshgrid(*[side * np.arange(3)] * d), axis=-1).reshape(-1, d)
    records = np.random.default_rng(3).uniform(-side / 2, side / 2, (200_000, d))
    found = squared_extents(places, np.arange(len(places)))
    assert found == pytest.approx(np.full(len(places), (records**2).sum(axis=1).mean()), rel=0.01)


RNG = np.random.default_rng(4)
X = CENTRES[RNG.integers(0, 4, 2000)] + RNG.normal(0, 0.08, (2000, 2))
PUBLIC: dict[str, Any] = {"bounds": (-1, 1), "n_records": 2500, "random_state": 0, "epsilon": 3.0}
OPTIONS = ("--bounds=-1:1", "--n-records", "2500", "--epsilon", "3", "--public-seed", "1")


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch, repeatable_noise: None) -> None:
    """The same noise in every run of a test: with other noise one run in many may suggest something
    else.
    """
    for module in ("estimators.base", "dp.noise", "federation.simulation"):
        monkeypatch.setattr(f"fastlloyd.{module}.SystemNoise", lambda: SeededNoise(0))


@pytest.mark.usefixtures("seeded")
def test_a_fitted_model_has_what_its_votes_suggest_also_once_it_is_pickled_or_copied() -> None:
    assert not hasattr(MomentLloyd(8, **PUBLIC), "suggested_n_clusters_")
    model = MomentLloyd(8, **PUBLIC).fit(X)
    assert "suggested_n_clusters_" not in vars(model)  # no fit waits for it
    assert pickle.loads(pickle.dumps(model)).suggested_n_clusters_ == 4  # noqa: S301 - its own
    assert copy.deepcopy(model).suggested_n_clusters_ == model.suggested_n_clusters_ == 4
    assert FastLloyd(8, **PUBLIC).fit(X).suggested_n_clusters_ is None


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("persons", [False, True])
def test_votes_along_directions_suggest_a_number_too_and_so_do_those_of_persons(
    persons: bool,
) -> None:
    """Three groups in eight features, which lie along two directions."""
    rng = np.random.default_rng(5)
    owners = np.arange(6000) % 2000
    rows = rng.choice([-0.5, 0.5], (3, 8))[owners % 3] + rng.normal(0, 0.1, (6000, 8))
    public = PUBLIC | {"n_records": 2500 if persons else 7000}
    model = MomentLloyd(8, **public).fit(rows, groups=owners if persons else None)
    assert model.mechanism_.n_directions > 2
    assert model.suggested_n_clusters_ == 3


@pytest.mark.usefixtures("seeded")
def test_what_the_votes_of_an_earlier_fit_suggested_is_forgotten() -> None:
    model = MomentLloyd(3, **PUBLIC).fit(X)
    assert model.suggested_n_clusters_ is None
    assert model.set_params(n_clusters=8).fit(X).suggested_n_clusters_ == 4


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "3")])
def test_commands_say_it_on_the_screen_and_to_programs_and_in_no_file(
    fastlloyd: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savetxt("groups.csv", X, delimiter=",", header="a,b", comments="")
    run = (command[0], "groups.csv", *command[1:], *OPTIONS)
    said = " ".join(fastlloyd(*run, "-k", "8", "--out", "result").out.split())
    assert (
        "The votes suggest k = 4 (advice from what is released anyway: it costs nothing; a run with"
        " that k spends" in said
    )
    assert not any("suggest" in path.read_text() for path in Path("result").glob("*.[jt]*"))
    code, out, err = fastlloyd(*run, "-k", "4", "--no-out", "--json")
    assert code == 0
    assert strict(out)["suggested_n_clusters"] == 4
    assert "The votes suggest k = 4, which this run has" in " ".join(err.split())
    code, out, err = fastlloyd(*run, "-k", "4", "--no-out", "--json", "--algorithm", "fastlloyd")
    assert strict(out)["suggested_n_clusters"] is None
    assert "suggest" not in err
