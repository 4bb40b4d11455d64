"""Sentences about clusters: the rule by a second route, and how often a page is wrong."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.base.arrays import FloatArray
from fastlloyd.reports.profile import ALPHA, KAPPA, MOST, Centres, Profile


def centres(seed: int, k: int = 4, d: int = 3, noise: float = 0.3, settled: float = 0.8) -> Centres:
    rng = np.random.default_rng(seed)
    return Centres(
        values=rng.normal(0, 1, (k, d)),
        errors=rng.uniform(0.1, 1, (k, d)) * noise,
        counts=np.sort(rng.uniform(-5, 100, k))[::-1],
        count_error=3.0,
        settled=rng.random(k) < settled,
        half_widths=np.full(d, 5.0),
    )


def deviation_of_contrast(of: Centres, i: int, j: int) -> tuple[float, float]:
    """A contrast and its deviation, by loops over the rule's formula."""
    S = [c for c in range(len(of.values)) if of.settled[c]]
    n = {c: max(float(of.counts[c]), of.count_error) for c in S}
    N = sum(n.values())
    a = sum(n[c] / N * float(of.values[c, j]) for c in S)
    variance = (1 - n[i] / N) ** 2 * (KAPPA * of.errors[i, j]) ** 2
    for c in S:
        if c != i:
            variance += (n[c] / N) ** 2 * (KAPPA * of.errors[c, j]) ** 2
        variance += ((of.values[c, j] - a) / N) ** 2 * (KAPPA * of.count_error) ** 2
    return float(of.values[i, j]) - a, math.sqrt(variance)


@given(seed=st.integers(0, 2**32), k=st.integers(1, 7), d=st.integers(1, 5))
def test_a_side_is_stated_if_and_only_if_the_interval_of_the_contrast_excludes_0(
    seed: int, k: int, d: int
) -> None:
    of = centres(seed, k, d)
    found, S = Profile.of(of), int(of.settled.sum())
    for i in range(k):
        for j in range(d):
            if not of.settled[i] or S < 2:
                assert found.sides[i, j] == 0
                continue
            z = NormalDist().inv_cdf(1 - ALPHA / (2 * 2 * S * d))
            contrast, deviation = deviation_of_contrast(of, i, j)
            assert found.reaches[i, j] == pytest.approx(z * deviation)
            is_stated = abs(contrast) > z * deviation
            assert found.sides[i, j] == (int(np.sign(contrast)) if is_stated else 0)


@given(
    seed=st.integers(0, 2**32), k=st.integers(1, 7), d=st.integers(1, 5), all_settle=st.booleans()
)
def test_a_centre_is_the_highest_only_if_its_interval_is_above_those_of_all_others(
    seed: int, k: int, d: int, all_settle: bool
) -> None:
    of = centres(seed, k, d, noise=0.1, settled=1.0 if all_settle else 0.8)
    found = Profile.of(of)
    reach = found.z * KAPPA * of.errors
    for i, claims in enumerate(found.claims):
        assert len(claims) <= MOST
        for feature, side, is_extreme in claims:
            assert side == found.sides[i, feature] != 0
            beyond = [
                (of.values[i] - reach[i] - of.values[c] - reach[c])[feature] > 0
                if side > 0
                else (of.values[c] - reach[c] - of.values[i] - reach[i])[feature] > 0
                for c in range(k)
                if c != i
            ]
            assert is_extreme == (k > 2 and bool(of.settled.all()) and all(beyond))


@given(seed=st.integers(0, 2**32), scale=st.floats(0.01, 100), shift=st.floats(-100, 100))
def test_statements_do_not_depend_on_the_unit_of_a_feature(
    seed: int, scale: float, shift: float
) -> None:
    of = centres(seed, noise=0.2, settled=1.0)
    other = of._replace(
        values=of.values * scale + shift,
        errors=of.errors * scale,
        half_widths=of.half_widths * scale,
    )
    assert Profile.of(other).claims == Profile.of(of).claims


def false_pages(truth: FloatArray, n_pages: int, seed: int) -> tuple[int, int]:
    """Pages with a false statement, and statements, of centres with normal noise."""
    rng, (k, d) = np.random.default_rng(seed), truth.shape
    counts = np.full(k, 200.0)
    errors = np.full((k, d), 0.2)
    together = truth.mean(axis=0)
    n_false = n_stated = 0
    for _ in range(n_pages):
        of = Centres(
            values=truth + rng.normal(0, KAPPA * errors),
            errors=errors,
            counts=counts + rng.normal(0, 10, k),
            count_error=10.0,
            settled=np.ones(k, dtype=bool),
            half_widths=np.full(d, 5.0),
        )
        found = Profile.of(of)
        n_stated += int((found.sides != 0).sum())
        is_false = (found.sides != 0) & (found.sides != np.sign(truth - together))
        highest = [
            (i, j) for i, claims in enumerate(found.claims) for j, s, top in claims if top and s > 0
        ]
        n_false += bool(is_false.any()) or any(truth[i, j] < truth[:, j].max() for i, j in highest)
    return n_false, n_stated


def test_at_most_one_page_in_twenty_has_a_false_sentence() -> None:
    # If 5 % of pages were false, more than 100 of 1000 would be with probability below 1e-9.
    # A rule without the factor for all intervals (z = 1.96) is caught: 60 % of its pages are false.
    alike = np.zeros((5, 8))
    n_false, _ = false_pages(alike, 1000, seed=1)
    assert n_false <= 100


def test_centres_that_are_apart_are_told_apart() -> None:
    truth = np.zeros((5, 8))
    truth[np.arange(5), np.arange(5)] = 3.0
    n_false, n_stated = false_pages(truth, 100, seed=2)
    assert n_false <= 15
    assert n_stated >= 100 * 5  # each centre stands out in its own feature


def test_without_two_settled_clusters_nothing_is_stated() -> None:
    of = centres(1)
    for settled in ([False] * 4, [True, False, False, False]):
        found = Profile.of(of._replace(settled=np.array(settled)))
        assert not found.sides.any()
        assert found.claims == ((),) * 4
