"""Standard errors of centroids: the formula by hand, and against the spread of many runs."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from designs import design_mechanism, design_plan
from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering import kernels
from fastlloyd.clustering.domain import Domain
from fastlloyd.federation.plan.plan import Client, Masks, TrustMode, noise_deviation_of_run
from fastlloyd.mechanisms import central
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.mechanism import Clustering, Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.uncertainty import (
    NoiseDeviation,
    noise_deviation,
    noise_errors,
    relative_errors,
)
from fastlloyd.reports.plan_facts import noise_factor
from fastlloyd.testing import SeededNoise
from kinds import lloyd_of
from lloyd_queries import around, moved

pytestmark = pytest.mark.usefixtures("repeatable_noise")

DOMAIN = Domain(features=("age", "dose"), lower=(0.0, -1.0), upper=(100.0, 3.0))
N = 3000
N_RUNS = 3000


def _mechanism(algorithm: Algorithm) -> LloydMechanism:
    return design_mechanism(
        algorithm,
        DOMAIN,
        n_clusters=1,
        n_records=N,
        epsilon=0.5,
        public_seed=PublicSeed.from_int(1),
        n_iterations=1,
    )


def _spread_over_errors(
    m: LloydMechanism, deviation: NoiseDeviation, draw: Callable[[], IntArray]
) -> np.ndarray:
    """Ratio of the centroids' distance from the noiseless ones to the standard error they come
    with, root mean square.
    """
    [round] = m.rounds
    start = m.initial_centroids()
    corner = DOMAIN.to_grid(np.random.default_rng(0).uniform([80, 2.2], [100, 3.0], (N, 2)))
    exact = around(m, round, start).evaluate(corner)
    noiseless = DOMAIN.from_grid(moved(m, round, start, exact).centroids)
    squares = np.zeros((1, 2))
    for _ in range(N_RUNS):
        clustering = moved(m, round, start, exact + draw())
        errors = noise_errors(m, clustering, deviation, clustering.noisy_counts(m.count_bits))
        squares += ((DOMAIN.from_grid(clustering.centroids) - noiseless) / errors) ** 2
    return np.sqrt(squares / N_RUNS)


@pytest.mark.parametrize("algorithm", [FASTLLOYD, GLLOYD, SULLOYD], ids=lambda a: a.name)
def test_centroids_spread_over_runs_as_their_standard_errors_say(algorithm: Algorithm) -> None:
    """Power: over 3000 runs the ratio deviates by 1.3 % (Gaussian) or 1.7 % (Laplace, two
    independent terms), so 9 % is more than five deviations. In this corner of the domain sums and
    counts contribute about alike: leaving either out, or the sqrt(2) of Laplace noise, changes the
    ratio by 34 % or more.
    """
    m = _mechanism(algorithm)
    noise = SeededNoise(7)
    ratio = _spread_over_errors(m, noise_deviation(m), lambda: m.draw_noise(m.rounds[0], noise))
    assert np.allclose(ratio, 1, atol=0.09)


@pytest.mark.parametrize(
    "masks", [pytest.param(Masks.GROUP, marks=pytest.mark.campaign), Masks.PAIRWISE]
)
def test_in_client_noise_every_included_client_widens_the_spread(masks: Masks) -> None:
    """Power: as above; with 4 of 5 clients, h = 3, forgetting the factor sqrt(4 / 3) = 1.155
    changes the ratio by 15 %.
    """
    clients = tuple(Client(name=f"c{i}", max_records=N // 5) for i in range(5))
    plan = design_plan(
        FASTLLOYD,
        DOMAIN,
        clients=clients,
        run_id=bytes(16),
        n_clusters=1,
        epsilon=0.5,
        public_seed=PublicSeed.from_int(1),
        n_iterations=1,
        max_dropouts=1,
        masks=masks,
    )
    m, noise = lloyd_of(plan), SeededNoise(8)

    def draw() -> IntArray:
        return sum(
            (plan.draw_client_noise(m.rounds[0], noise, 4) for _ in range(4)),
            np.zeros((1, 3), dtype=np.int64),
        )

    assert np.allclose(_spread_over_errors(m, noise_deviation_of_run(plan, 4), draw), 1, atol=0.09)


@pytest.mark.parametrize("masks", Masks)
def test_the_deviation_of_a_run_is_the_noise_factor_times_what_the_guarantee_needs(
    masks: Masks,
) -> None:
    clients = tuple(Client(name=f"c{i}", max_records=100) for i in range(6))
    plan = design_plan(
        FASTLLOYD,
        DOMAIN,
        clients=clients,
        run_id=bytes(16),
        n_clusters=3,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        max_dropouts=2,
        masks=masks,
    )
    central = noise_deviation(plan.clustering)
    assert noise_factor(plan) == noise_factor(plan, 6)
    for n in (4, 5, 6):
        found, factor = noise_deviation_of_run(plan, n), noise_factor(plan, n)
        assert math.isclose(found.sums, factor * central.sums, rel_tol=1e-5)
        assert math.isclose(
            found.counts, factor * central.counts, rel_tol=1e-5
        )  # shares are rounded up


def test_in_server_noise_the_number_of_clients_does_not_matter() -> None:
    plan = design_plan(
        SULLOYD,
        DOMAIN,
        clients=(Client(name="a", max_records=100), Client(name="b", max_records=100)),
        run_id=bytes(16),
        n_clusters=2,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        trust=TrustMode.SERVER_NOISE,
        max_dropouts=1,
        masks=Masks.GROUP,
    )
    assert (
        noise_deviation_of_run(plan, 1)
        == noise_deviation_of_run(plan, 2)
        == noise_deviation(plan.clustering)
    )


def test_an_example_has_the_errors_worked_out_by_hand() -> None:
    """Relative sums, count 50 with deviation 2, sums with deviation 1000 grid units, moves of 3000
    and -4000 grid units.
    """
    m = design_mechanism(
        FASTLLOYD,
        DOMAIN,
        n_clusters=2,
        n_records=N,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(1),
        n_iterations=2,
    )
    previous = np.array([[0, 0], [100, 100]])
    clustering = Clustering(
        centroids=previous + np.array([[3000, -4000], [0, 0]]),
        previous=previous,
        answer=np.array([[0, 0, 50], [0, 0, 1]]),
        updated=np.array([True, False]),
    )
    errors = noise_errors(
        m, clustering, NoiseDeviation(sums=1000.0, counts=2.0), clustering.noisy_counts(0)
    )
    by_hand = [
        math.hypot(1000, 2 * 3000) / 50 * 100 / 2**17,
        math.hypot(1000, 2 * 4000) / 50 * 4 / 2**17,
    ]
    assert np.allclose(errors[0], by_hand, rtol=1e-12)
    radius = math.sqrt(m.rounds[-1].squared_radius or 0)
    assert np.isclose(
        relative_errors(m, errors)[0], math.hypot(*np.hypot(1000, [6000, 8000])) / 50 / radius
    )


def test_counts_on_a_finer_grid_are_counts_of_records() -> None:
    coarse, fine = (
        design_mechanism(
            GLLOYD,
            DOMAIN,
            n_clusters=1,
            n_records=N,
            epsilon=1.0,
            public_seed=PublicSeed.from_int(1),
            count_bits=bits,
        )
        for bits in (0, 3)
    )
    points = np.array([[500, -700]])
    deviation = NoiseDeviation(sums=1000.0, counts=2.0)
    once, eightfold = (
        Clustering(
            centroids=points,
            previous=points,
            answer=np.array([[0, 0, count]]),
            updated=np.array([True]),
        )
        for count in (40, 320)
    )
    one, other = (
        noise_errors(m, clustering, deviation, clustering.noisy_counts(m.count_bits))
        for m, clustering in ((coarse, once), (fine, eightfold))
    )
    assert np.array_equal(one, other)
    assert math.isclose(noise_deviation(coarse).counts, noise_deviation(fine).counts, rel_tol=1e-3)


def test_without_noise_nothing_is_uncertain() -> None:
    m = _mechanism(LLOYD)
    points = m.initial_centroids()
    clustering = Clustering(
        centroids=points, previous=points, answer=np.array([[0, 0, 9]]), updated=np.array([True])
    )
    assert noise_deviation(m) == NoiseDeviation(sums=0.0, counts=0.0)
    assert not noise_errors(m, clustering, noise_deviation(m), np.array([9.0])).any()
    assert m.rounds[0].sum_scale == Fraction(0)


class _RememberedNoise(SeededNoise):
    """Remembers what it gave last, and its deviation."""

    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        self.last, self.deviation = super().gaussian(scale, size), float(scale)
        return self.last

    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        self.last, self.deviation = (
            super().two_sided_geometric(scale, size),
            math.sqrt(2) * float(scale),
        )
        return self.last


def _moment_mechanism(k: int = 3, n: int = N) -> Mechanism:
    return design_mechanism(
        MOMENTLLOYD,
        DOMAIN,
        n_clusters=k,
        n_records=n,
        epsilon=0.5,
        public_seed=PublicSeed.from_int(1),
    )


@pytest.mark.parametrize(
    "m",
    [
        _mechanism(FASTLLOYD),
        _mechanism(GLLOYD),
        _mechanism(SULLOYD),
        _moment_mechanism(),
        _moment_mechanism(15, 5000),
    ],
    ids=["fastlloyd", "glloyd", "sulloyd", "momentlloyd", "momentlloyd-15"],
)
def test_noisy_counts_are_the_counts_of_the_last_round_and_the_noise_drawn_for_them(
    m: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is shrunk to equal sizes or brought to a sum. A record counts for the centroid it was
    nearest to before the last update, in FastLloyd within the radius. Clusters are compared in the
    order of the rounds, which is that of the noise.
    """
    monkeypatch.setattr(Clustering, "by_noisy_count", lambda self: self)
    X = m.domain.to_grid(np.random.default_rng(3).uniform([0, -1], [60, 2], (N - 700, 2)))
    noise = _RememberedNoise(4)
    ended = central.cluster(m, LocalRecords(m.domain, X), noise)
    counts = np.bincount(kernels.assign(X, ended.previous), minlength=m.n_clusters) << m.count_bits
    if isinstance(m, LloydMechanism):
        counts = around(m, m.rounds[-1], ended.previous).evaluate(X)[:, -1]
    assert np.array_equal(ended.noisy_counts(m.count_bits), (counts + noise.last) / 2**m.count_bits)
    assert noise_deviation(m).counts * 2**m.count_bits == pytest.approx(noise.deviation)
