"""Tests of PE-means: single steps, by hand if possible, the exact privacy cost, and whole runs."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from clone import ROOT
from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.base.randomness import Draws, PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.accountant import Accountant, GaussianRelease
from fastlloyd.dp.gdp import gdp_mu
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import BudgetError, PlanError
from fastlloyd.testing import InjectedNoise, SeededNoise
from fastlloyd_lab.experiments import pe_means
from fastlloyd_lab.experiments.methods import METHODS, Setting
from fastlloyd_lab.experiments.pe_means import PEMeans
from fastlloyd_lab.experiments.problem import make_problem
from fastlloyd_lab.experiments.spec import read

RECORD = 2**16  # units of a vote
SEED = PublicSeed.from_int(3)
N_RECORDS = st.integers(1, 200)


def cube(d: int, q: int = 16) -> Domain:
    return Domain(
        features=tuple(map(str, range(d))), lower=(-1.0,) * d, upper=(1.0,) * d, fraction_bits=q
    )


def plan(
    d: int = 2, k: int = 2, n: int = 100, epsilon: float = 1.0, delta: float = 1e-3, q: int = 16
) -> PEMeans:
    return PEMeans(domain=cube(d, q), n_clusters=k, n_records=n, epsilon=epsilon, delta=delta)


def draws(number: int = 1) -> Draws:
    return Draws(PublicSeed.from_int(number), b"test")


class Listening:
    """Source of noise that keeps a list of the requests."""

    private = False

    def __init__(self, noise: Callable[[Fraction, int], NDArray[np.int64]]) -> None:
        self.noise = noise
        self.asked: list[tuple[Fraction, int]] = []

    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        self.asked.append((scale, size))
        return self.noise(scale, size)

    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        raise AssertionError(f"Laplace noise of scale {scale} was asked for, {size} times")


def silent() -> Listening:
    return Listening(lambda _, size: np.zeros(size, dtype=np.int64))


def seeded(seed: int) -> Listening:
    return Listening(SeededNoise(seed).gaussian)


def records(d: int = 2, n: int = 100, seed: int = 1) -> IntArray:
    """Return two groups of grid points, around -1/2 and 1/2."""
    X = (
        np.random.default_rng(seed).normal(0, 0.05, (n, d))
        + np.where(np.arange(n) % 2, 0.5, -0.5)[:, None]
    )
    return np.clip(np.rint(X * RECORD), -RECORD, RECORD).astype(np.int64)


# What is fixed beforehand


@pytest.mark.parametrize(
    ("d", "epsilon", "T"),
    [
        (1, 0.1, 4),
        (2, 1.0, 5),
        (4, 1.0, 8),
        (4, 2.0, 16),
        (4, 1.25, 10),
        (13, 0.5, 14),
        (84, 1.0, 36),
        (16, 4.0, 64),
        (2, 1.5, 8),
    ],
)
def test_there_are_4_root_d_generations_and_epsilon_times_as_many_above_1(
    d: int, epsilon: float, T: int
) -> None:
    assert (
        plan(d=d, epsilon=epsilon).n_generations
        == T
        == math.floor(4 * math.sqrt(d) * max(1.0, epsilon))
    )


@pytest.mark.parametrize(
    ("n", "k", "L"), [(5000, 15, 66), (150, 3, 10), (178, 3, 11), (1, 1, 4), (24, 1, 4), (25, 1, 5)]
)
def test_a_centroid_has_a_fifth_of_its_records_as_mutants_and_four_at_least(
    n: int, k: int, L: int
) -> None:
    assert plan(n=n, k=k).n_mutants == L


def test_a_budget_or_a_size_it_cannot_work_with_is_refused_before_anything_is_packed() -> None:
    with pytest.raises(BudgetError, match="epsilon"):
        plan(epsilon=math.inf)
    with pytest.raises(BudgetError, match="delta"):
        plan(delta=0.0)
    assert plan(n=5 * 65_535, k=1).n_mutants == 65_535
    with pytest.raises(PlanError, match="needs 65537 candidates"):
        plan(n=5 * 65_536, k=1)


# Privacy


def releases(p: PEMeans) -> list[GaussianRelease]:
    """Return all votes of a run as releases for the accountant. Their cost does not depend on the
    number of candidates.
    """
    sensitivity = p.question(p.n_clusters).sensitivity
    return (
        sensitivity.gaussian_releases([p.scale], NeighboringRelation.ADD_OR_REMOVE_ONE)
        * p.n_generations
    )


@settings(max_examples=25)
@given(st.floats(0.01, 5), st.sampled_from([1e-9, 1e-6, 1e-3, 0.1]), st.integers(1, 60))
def test_the_votes_of_all_generations_cost_mu_squared_and_no_finer_noise_would_do(
    epsilon: float, delta: float, d: int
) -> None:
    p = plan(d=d, epsilon=epsilon, delta=delta)
    T, whole = p.n_generations, Fraction(gdp_mu(epsilon, delta)) ** 2
    found = releases(p)
    assert len(found) == T
    assert {r.squared_sensitivity for r in found} == {Fraction(RECORD) ** 2}
    spent = sum((r.mu_squared for r in found), Fraction(0))
    assert spent == T * Fraction(RECORD) ** 2 / p.scale**2 <= whole
    assert T * Fraction(RECORD) ** 2 / (p.scale - Fraction(1, 2**16)) ** 2 > whole
    assert p.sigma == pytest.approx(math.sqrt(T) / gdp_mu(epsilon, delta), rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_a_run_draws_the_noise_that_the_accountant_is_told_of_and_keeps_its_guarantee(
    epsilon: float,
) -> None:
    p, noise = plan(epsilon=epsilon), seeded(1)
    pe_means.cluster(p, records(), SEED, noise)
    assert [scale**2 for scale, _ in noise.asked] == [release.variance for release in releases(p)]
    accountant = Accountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(releases(p))
    assert accountant.get_delta(epsilon) <= p.delta * (1 + 1e-12)


@settings(max_examples=40)
@given(N_RECORDS, st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_one_record_more_moves_one_vote_by_1(n: int, d: int, seed: int) -> None:
    p, rng = plan(d=d, n=n), np.random.default_rng(seed)
    X, candidates = (rng.integers(-RECORD, RECORD + 1, (rows, d)) for rows in (n, 12))
    fewer, more = (pe_means.noisy_votes(p, candidates, some, silent()) for some in (X[:-1], X))
    assert sorted(more - fewer) == [0.0] * 11 + [1.0]
    assert more.sum() == n


def test_noise_on_a_vote_is_in_units_of_a_65536th_of_a_record_and_votes_are_counted_at_the_nearest() -> (
    None
):
    X, candidates = np.array([[-9], [-8], [1], [7]]), np.array([[-10], [0], [2], [10]])
    # the record at 1 is as near to 0 as to 2: the first has it
    noise = InjectedNoise([[RECORD, -RECORD, 1, 0]])
    h = pe_means.noisy_votes(plan(d=1, q=4), candidates, X, noise)
    assert h.tolist() == [3.0, 0.0, 2.0**-16, 1.0]


# The steps


@pytest.mark.parametrize(
    ("h", "total", "kept"),
    [
        ([3.0, 1.0, -1.0, 1.5, 3.0], 8, [3.0, 1.0, 0, 1.5, 3.0]),
        ([3.0, 1.0, -1.0, 1.5, 3.0], 7, [3.0, 0, 0, 1.5, 3.0]),
        ([3.0, 1.0, -1.0, 1.5, 3.0], 6, [3.0, 0, 0, 0, 3.0]),
        ([3.0, 1.0, -1.0, 1.5, 3.0], 1, [3.0, 0, 0, 0, 3.0]),  # equal votes are kept together
        (
            [3.0, 1.0, -1.0, 1.5, 3.0],
            9,
            [3.0, 1.0, 0, 1.5, 3.0],
        ),  # there are not as many: all above 0
        ([-1.0, -2.0], 5, [0, 0]),
    ],
)
def test_the_largest_votes_that_reach_the_number_of_records_are_kept(
    h: list[float], total: int, kept: list[float]
) -> None:
    assert pe_means.largest(np.array(h), total).tolist() == kept


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=30, unique=True), st.integers(1, 300))
def test_no_vote_could_be_left_out_of_those_kept(votes: list[float], total: int) -> None:
    weights = pe_means.largest(np.array(votes), total)
    kept = weights[weights > 0]
    assert (weights >= 0).all()
    assert sorted(kept, reverse=True) == sorted(votes, reverse=True)[: len(kept)]
    assert np.cumsum(np.sort(kept)[::-1])[:-1].max(initial=0.0) < total
    assert kept.sum() >= total * (1 - 1e-12) or len(kept) == sum(vote > 0 for vote in votes)


def test_votes_are_weak_if_their_energy_is_less_than_that_of_the_noise_on_all() -> None:
    assert not pe_means.is_weak(np.array([3.0, 4.0, 0.0]), math.sqrt(8.3))
    assert pe_means.is_weak(np.array([3.0, 4.0, 0.0]), math.sqrt(8.4))
    assert not pe_means.is_weak(np.array([1.0, 1.0]), 1.0)


def test_a_generation_is_the_one_worked_out_by_hand() -> None:
    """Three records are at -60, one at -40, one at 40, and three at 60. Noise takes one vote from
    the candidate in the middle, which is then left out. The centroids are two weighted means: of
    -60 (3 votes) and -40 (1 vote), and of 60 (3 votes) and 40 (1 vote).
    """
    p = plan(d=1, n=8, q=6)
    X = np.array([[-60]] * 3 + [[-40], [40]] + [[60]] * 3)
    candidates = np.array([[-60], [-40], [0], [40], [60]])
    h = pe_means.noisy_votes(p, candidates, X, InjectedNoise([[0, 0, -RECORD, 0, 0]]))
    assert h.tolist() == [3, 1, -1, 1, 3]
    C = pe_means.selected(p, candidates, h, pe_means.largest(h, p.n_records), draws())
    assert sorted(C[:, 0]) == pytest.approx([-55, 55], rel=1e-12)


def test_where_too_few_votes_are_kept_the_candidates_with_most_are_the_centroids() -> None:
    p = plan(d=1, k=3, q=4)
    candidates, h = np.array([[-9], [-5], [1], [5], [9]]), np.array([-3.0, 8.0, 2.0, -0.5, -1.0])
    C = pe_means.selected(p, candidates, h, pe_means.largest(h, 9), draws())
    assert C[:, 0].tolist() == [-5, 1, 5]


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(1, 4), N_RECORDS)
def test_the_first_candidates_lie_in_the_box(d: int, k: int, n: int) -> None:
    p = plan(d=d, k=k, n=n)
    points = pe_means.first_candidates(p, SEED)
    assert points.shape == ((p.n_mutants + 1) * k, d)
    assert np.abs(points).max() <= RECORD


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(4, 40), st.integers(0, 2**32))
def test_the_next_candidates_are_the_centroids_and_mutants_in_the_box(
    d: int, k: int, L: int, seed: int
) -> None:
    p, C = plan(d=d, k=k), draws(seed).uniform(-float(RECORD), RECORD, (k, d))
    C[0] = RECORD  # in a corner
    points = pe_means.next_candidates(p, C, L, draws(seed + 1))
    assert points.shape == ((L + 1) * k, d)
    assert np.array_equal(points[:k], np.rint(C))
    assert np.abs(points).max() <= RECORD


def test_a_mutant_is_a_hundredth_of_half_the_diagonal_times_a_levy_step_away() -> None:
    p, C = plan(d=2, k=2), np.array([[100.0, -200.0], [3000.0, 0.0]])
    stream = draws()
    u, v = stream.normal((2, 5, 2)), stream.normal((2, 5, 2))
    points = pe_means.next_candidates(p, C, 5, draws())[2:].reshape(2, 5, 2)
    for j in range(2):
        for m in range(5):
            for i in range(2):
                step = 0.5075 * u[j, m, i] / abs(v[j, m, i]) ** (4 / 7)
                expected = C[j, i] + 0.01 * math.sqrt(2) * RECORD * step
                assert points[j, m, i] == pytest.approx(
                    min(max(expected, -RECORD), RECORD), abs=0.51 + abs(step)
                )  # s_u has four digits


@pytest.mark.parametrize("index", [1.0, 1.5, 1.75, 1.9])
def test_levy_steps_have_the_tails_of_the_stable_law(index: float) -> None:
    """Both sides are the density far from 0, times |x|^(1 + index). For s u / |v|^(1 / index) it
    follows from a mean over u, and for the stable law from its series.
    """
    s = pe_means.mantegna_deviation(index)
    moment = 2 ** (index / 2) * math.gamma((index + 1) / 2) / math.sqrt(math.pi)  # E |u|^index
    ratio = index * s**index * moment / math.sqrt(2 * math.pi)
    stable = math.gamma(1 + index) * math.sin(math.pi * index / 2) / math.pi
    assert ratio == pytest.approx(stable, rel=1e-12)


def test_the_deviation_for_index_3_over_2_is_the_published_one() -> None:
    assert pe_means.mantegna_deviation(1.5) == pytest.approx(0.6966, abs=5e-5)


# A run


def test_without_noise_two_groups_are_found() -> None:
    p, noise = plan(), silent()
    C = pe_means.cluster(p, records(), SEED, noise)
    assert np.allclose(sorted(C[:, 0]), [-RECORD / 2, RECORD / 2], atol=0.05 * RECORD)
    assert [size for _, size in noise.asked] == [22] * 5


def test_weak_votes_halve_the_number_of_mutants_down_to_4() -> None:
    """In each generation, one candidate gets 500 to 900 votes, which reaches the 400 records. Its
    square is less than the sum of squares of the noise on 10 candidates or more.
    """
    p = plan(epsilon=0.01, delta=1e-6, n=400)
    noise = Listening(lambda _, size: np.eye(1, size, dtype=np.int64)[0] * 500 * RECORD)
    pe_means.cluster(p, records(n=400), SEED, noise)
    assert 10 * p.sigma**2 > 900**2
    assert [size for _, size in noise.asked] == [2 * (L + 1) for L in (40, 20, 10, 5, 4)]


@settings(max_examples=10)
@given(N_RECORDS, st.integers(1, 2), st.sampled_from([0.001, 0.3, 1.2]), st.integers(0, 2**32 - 1))
def test_whatever_the_noise_there_are_k_centroids_in_the_box(
    n: int, d: int, epsilon: float, seed: int
) -> None:
    k = 1 + seed % min(3, n)
    p = plan(d=d, k=k, n=n, epsilon=epsilon)
    C = pe_means.cluster(p, records(d=d, n=n), SEED, seeded(seed))
    assert C.shape == (k, d)
    assert np.abs(C).max() <= RECORD


def test_a_run_follows_from_its_seeds() -> None:
    def run(public: int, noise: int) -> FloatArray:
        return pe_means.cluster(
            plan(d=1, n=60), records(d=1, n=60), PublicSeed.from_int(public), SeededNoise(noise)
        )

    assert np.array_equal(run(1, 2), run(1, 2))
    assert not np.array_equal(run(1, 2), run(1, 3))
    assert not np.array_equal(run(1, 2), run(2, 2))


def test_it_is_a_method_of_experiments_that_runs_centrally_for_any_number_of_clients() -> None:
    problem = make_problem("two", records().astype(np.float64), 2)
    method = METHODS["pe-means"]
    assert (method.label, method.private, method.options) == ("PE-means", True, frozenset())
    outcomes = [
        method.cluster(
            problem,
            Setting(
                epsilon=1.0,
                delta=1e-3,
                clients=clients,
                preset="paper",
                public_seed=SEED,
                noise_seed=2**256 - 1,
            ),
        )
        for clients in (1, 3)
    ]
    assert np.array_equal(outcomes[0].centroids, outcomes[1].centroids)
    assert outcomes[0].n_iterations == 5
    alone = pe_means.cluster(plan(), problem.grid, SEED, SeededNoise(2**256 - 1)) / RECORD
    assert np.array_equal(outcomes[0].centroids, alone)


def test_the_example_compares_it_with_fastlloyd() -> None:
    spec = read(ROOT / "lab/examples/pe_means.toml")
    assert spec.grid[0].methods == ("fastlloyd", "pe-means")
