"""The clearest split of noisy votes: how it is found, when there is none, and where it is said."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from sklearn.metrics import silhouette_samples

from clone import ROOT
from command_line import Command, strict
from designs import design_mechanism
from fastlloyd import FastLloyd, MomentLloyd
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.suggestion import (
    MOST_CLUSTERS,
    NoisyVotes,
    Split,
    clearest_split,
    one_gaussian,
    silhouette,
    squared_extents,
    sure_places,
)
from fastlloyd.mechanisms.uncertainty import Accuracy, Status
from fastlloyd.reports.result import Result
from fastlloyd.reports.telling import suggestions
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
def test_the_clearest_split_has_as_many_groups_as_there_are_whatever_was_planned_above(
    k: int, noise: float
) -> None:
    noisy = votes(CENTRES[:k], noise=noise)
    found = {clearest_split(noisy, planned, SEED) for planned in (k, k + 1, 10)}
    assert found == {Split(clearest=k)}


@pytest.mark.parametrize("planned", [1, 2, 3])
def test_nothing_is_said_if_the_clearest_split_has_more_groups_than_were_planned(
    planned: int,
) -> None:
    assert clearest_split(votes(CENTRES[:4], noise=4.0), planned, SEED) is None


NEAR = np.array([[-0.6, 0.0], [0.5, 0.18], [0.5, -0.18]])
PAIRS = np.array([[-0.6, -0.18], [-0.6, 0.18], [0.6, -0.18], [0.6, 0.18]])


@pytest.mark.parametrize(("centres", "finer"), [(NEAR, 3), (PAIRS, 4)])
@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_groups_inside_the_clearest_split_are_named_beside_it(
    centres: Matrix, finer: int, noise: float
) -> None:
    noisy = votes(centres, noise=noise, width=0.07)
    assert clearest_split(noisy, 10, SEED) == Split(clearest=2, finer=finer)
    # no number is above the one that was planned
    assert clearest_split(noisy, 2, SEED) == Split(clearest=2)


def _density(values: Matrix) -> NoisyVotes:
    """Votes of 10,000 records with that density on the grid, with noise."""
    counts = 10_000 * values / values.sum() + 4 * np.random.default_rng(7).normal(size=len(GRID))
    return NoisyVotes(places=GRID, votes=counts, deviation=4.0)


@pytest.mark.parametrize(
    "values",
    [
        np.exp(-(GRID**2).sum(axis=1) / (2 * 0.3**2)),
        np.exp(-(GRID**2 / (2 * np.array([0.4, 0.1]) ** 2)).sum(axis=1)),
        (np.abs(GRID) < 0.75).all(axis=1).astype(np.float64),
        ((GRID**2).sum(axis=1) < 0.7**2).astype(np.float64),
    ],
    ids=["Gaussian", "long Gaussian", "square", "disc"],
)
@pytest.mark.parametrize("planned", [1, 2, 4, 10, 20])
def test_votes_of_records_without_groups_have_no_clear_split(values: Matrix, planned: int) -> None:
    assert clearest_split(_density(values), planned, SEED) == Split()


def test_the_null_has_the_moments_and_the_noise_of_the_votes() -> None:
    noisy = _density(np.exp(-(((GRID - 0.2) / [0.3, 0.15]) ** 2).sum(axis=1) / 2))
    sure = sure_places(noisy)
    null = one_gaussian(noisy, sure, Draws(SEED, b"test"))
    again = sure_places(null)
    for which, one in ((sure, noisy), (again, null)):
        w = one.votes[which] / one.votes[which].sum()
        assert w @ GRID[which] == pytest.approx([0.2, 0.2], abs=0.03)
        spread = np.sqrt(w @ (GRID[which] - w @ GRID[which]) ** 2)
        assert spread == pytest.approx([0.3, 0.15], abs=0.04)
    empty = np.linalg.norm(GRID - 0.2, axis=1) > 1.3
    assert null.votes[empty].std() == pytest.approx(4.0, rel=0.3)
    assert null.votes.sum() == pytest.approx(noisy.votes.sum(), abs=6 * 4 * len(GRID) ** 0.5)


def test_nothing_is_said_without_votes_that_stand_out_or_for_very_many_clusters() -> None:
    noisy, rng = votes(CENTRES[:3]), np.random.default_rng(1)
    assert clearest_split(None, 10, SEED) is None
    assert clearest_split(noisy, MOST_CLUSTERS + 1, SEED) is None
    drowned = NoisyVotes(places=GRID, votes=10 + 40 * rng.normal(size=len(GRID)), deviation=40.0)
    assert clearest_split(drowned, 10, SEED) is None
    empty = NoisyVotes(places=GRID, votes=-np.ones(len(GRID)), deviation=4.0)
    assert clearest_split(empty, 10, SEED) is None
    few = NoisyVotes(places=GRID[:3], votes=np.full(3, 100.0), deviation=4.0)
    assert clearest_split(few, 10, SEED) is None


def test_the_same_votes_and_seed_say_the_same_and_are_left_as_they_were() -> None:
    noisy = votes(CENTRES, noise=4.0)
    before = copy.deepcopy(noisy)
    assert clearest_split(noisy, 10, SEED) == clearest_split(noisy, 10, SEED) == Split(clearest=5)
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


RESULT = Result(
    mechanism=design_mechanism(
        FASTLLOYD,
        Domain(features=("a",), lower=(0.0,), upper=(1.0,)),
        n_clusters=1,
        n_records=9,
        epsilon=1.0,
        public_seed=SEED,
    ),
    centroids=np.full((1, 1), 0.5),
    noisy_counts=np.ones(1),
    count_error=1.0,
    accuracy=Accuracy(errors=np.zeros((1, 1)), status=(Status.SETTLED,)),
)
RNG = np.random.default_rng(4)
X = CENTRES[RNG.integers(0, 4, 2000)] + RNG.normal(0, 0.08, (2000, 2))
PUBLIC: dict[str, Any] = {"bounds": (-1, 1), "n_records": 2500, "random_state": 0, "epsilon": 3.0}
OPTIONS = ("--bounds=-1:1", "--n-records", "2500", "--epsilon", "3", "--public-seed", "1")


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch, repeatable_noise: None) -> None:
    """The same noise in every run of a test: with other noise one run in many may find another
    split.
    """
    for module in ("jobs.fit", "federation.simulation"):
        monkeypatch.setattr(f"fastlloyd.{module}.SystemNoise", lambda: SeededNoise(2))


@pytest.mark.usefixtures("seeded")
def test_a_fitted_model_has_the_split_of_its_votes_also_once_it_is_pickled_or_copied() -> None:
    assert not hasattr(MomentLloyd(8, **PUBLIC), "clearest_split_")
    model = MomentLloyd(8, **PUBLIC).fit(X)
    assert "_split" not in vars(model)  # no fit waits for it
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 - its own
    assert (again.clearest_split_, again.finer_split_) == (4, None)
    assert copy.deepcopy(model).clearest_split_ == model.clearest_split_ == 4
    other = FastLloyd(8, **PUBLIC).fit(X)
    assert (other.clearest_split_, other.finer_split_) == (None, None)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("persons", [False, True])
def test_votes_along_directions_show_a_split_too_and_so_do_those_of_persons(
    persons: bool,
) -> None:
    """Three groups in eight features, which lie along two directions."""
    rng = np.random.default_rng(5)
    owners = np.arange(6000) % 2000
    rows = rng.choice([-0.5, 0.5], (3, 8))[owners % 3] + rng.normal(0, 0.1, (6000, 8))
    public = PUBLIC | {"n_records": 2500 if persons else 7000}
    model = MomentLloyd(8, **public).fit(rows, groups=owners if persons else None)
    assert model.mechanism_.n_directions > 2
    assert model.clearest_split_ == 3


@pytest.mark.usefixtures("seeded")
def test_the_split_of_an_earlier_fit_is_forgotten() -> None:
    model = MomentLloyd(3, **PUBLIC).fit(X)
    assert model.clearest_split_ is None
    assert model.set_params(n_clusters=8).fit(X).clearest_split_ == 4


SPLIT = "The released numbers split most clearly into 4 groups; finer groups may exist inside them."


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("command", [("fit",), ("simulate", "--clients", "3")])
def test_commands_say_it_on_the_screen_to_programs_and_in_the_file_for_programs(
    fastlloyd: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savetxt("groups.csv", X, delimiter=",", header="a,b", comments="")
    run = (command[0], "groups.csv", *command[1:], *OPTIONS)
    said = " ".join(fastlloyd(*run, "-k", "8", "--out", "result").out.split())
    assert SPLIT in said
    kept = strict(Path("result/centroids.json").read_text())
    assert (kept["clearest_split"], kept["finer_split"]) == (4, None)
    assert MomentLloyd.from_result("result").clearest_split_ == 4
    code, out, err = fastlloyd(*run, "-k", "8", "--no-out", "--json")
    assert code == 0
    assert (strict(out)["clearest_split"], strict(out)["finer_split"]) == (4, None)
    assert SPLIT in " ".join(err.split())
    code, out, err = fastlloyd(*run, "-k", "4", "--no-out", "--json", "--algorithm", "fastlloyd")
    assert (strict(out)["clearest_split"], strict(out)["votes_tell"]) == (None, False)
    assert "split" not in err


def test_the_fact_names_the_finer_split_and_says_when_there_are_no_clear_groups() -> None:
    said = {
        split: facts
        for split in (None, Split(), Split(clearest=2, finer=5))
        for facts in [list(suggestions(split))]
    }
    assert said[None] == []
    assert said[Split()] == [Fact.of("no_clear_groups")]
    assert said[Split(clearest=2, finer=5)] == [Fact.of("clearest_and_finer_split", n=2, finer=5)]


def test_nothing_that_users_see_says_that_votes_suggest_a_number() -> None:
    root = ROOT
    pages = [*(root / "docs").rglob("*.md"), *(root / "src").rglob("*.py"), root / "README.md"]
    texts = {path: " ".join(path.read_text().lower().split()) for path in pages}
    assert not [
        path
        for path, text in texts.items()
        if "votes suggest" in text or "suggested_n_clusters" in text
    ]
