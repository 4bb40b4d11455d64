"""Exact answers keep the inequalities that their questions state, for any records and parameters in
range.

Neither more inequalities nor other coefficients than the probability of a false warning is reckoned
with.
"""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moment_situations as situations
from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.queries.inequalities import Inequality
from fastlloyd.mechanisms.queries.query import Question
from fastlloyd.mechanisms.queries.relative import ClippedLoss, Moments

NAMES = [
    f"{domain.n_features} features, {domain.fraction_bits} bits" for domain in situations.DOMAINS
]
EACH_DOMAIN = pytest.mark.parametrize("domain", situations.DOMAINS, ids=NAMES)
SEEDS = st.integers(0, 2**63)
UNITS = st.sampled_from([2, 98, 2**16])
BITS = st.sampled_from([0, 3, 32])


def questions(domain: Domain, *, units: int, count_bits: int, k: int) -> Iterator[Question]:
    """All that either algorithm asks, with radii from none over 0 to the whole box."""
    yield from situations.questions(domain, units=units, count_bits=count_bits, k=k)
    widest = 4 * domain.squared_half_diagonal
    for squared_radius in (None, 0, 1, 2, 10, widest // 7, widest):
        yield Moments(
            domain=domain, n_clusters=k, squared_radius=squared_radius, count_bits=count_bits
        )
    yield ClippedLoss(domain=domain, n_clusters=k, cap=units, shift=3)


def broken(inequality: Inequality) -> bool:
    """By more than the rounding of the largest numbers."""
    left, right = np.broadcast_arrays(inequality.left, inequality.right)
    return bool((left - right > 2.0**-50 * (np.abs(left) + np.abs(right))).any())


@EACH_DOMAIN
def test_exact_answers_keep_them(domain: Domain) -> None:
    @settings(max_examples=100 if domain.n_features < 40 else 25)
    @given(SEEDS, UNITS, BITS, st.integers(1, 3), st.integers(0, 5))
    def check(seed: int, units: int, count_bits: int, k: int, n: int) -> None:
        generator = np.random.default_rng(seed)
        X = situations.records(domain, n, generator)
        for question in questions(domain, units=units, count_bits=count_bits, k=k):
            answer = situations.query(question, generator).evaluate(X)
            for n_records in (n, n + 1):
                assert not any(map(broken, question.inequalities(answer, n_records)))

    check()


def coefficients(
    question: Question, answer: IntArray, number: int
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """By how much each side of one inequality changes with each entry of the answer, from
    differences.
    """
    step = 1 << 20  # no absolute value is near 0
    base = question.inequalities(answer, 0)[number]
    for place in np.ndindex(answer.shape):
        moved = answer.copy()
        moved[place] += step
        after = question.inequalities(moved, 0)[number]
        yield (after.left - base.left) / step, (after.right - base.right) / step


@pytest.mark.parametrize("domain", situations.DOMAINS[:4], ids=NAMES[:4])
@pytest.mark.parametrize("k", [1, 3])
def test_terms_name_the_coefficients(domain: Domain, k: int) -> None:
    """What noise is reckoned with: the coefficients of left - right, part by part, with any
    sign.
    """
    generator = np.random.default_rng(k)
    for question in questions(domain, units=98, count_bits=3, k=k):
        answer = generator.integers(1 << 30, 1 << 31, question.shape)
        part_of = np.tile(
            np.repeat(np.arange(len(question.parts)), question.parts), question.n_rows
        )
        for number, inequality in enumerate(question.inequalities(answer, 0)):
            shape = np.broadcast(inequality.left, inequality.right).shape
            found = np.abs(
                [np.broadcast_to(a - b, shape) for a, b in coefficients(question, answer, number)]
            )
            for part in range(len(question.parts)):
                of_part = found[part_of == part]
                terms = [term for term in inequality.terms if term.part == part]
                assert len(terms) <= 1
                for power in (1, 2):
                    stated = terms[0].times * np.asarray(terms[0].weight) ** power if terms else 0.0
                    np.testing.assert_allclose(
                        (of_part**power).sum(axis=0), np.broadcast_to(stated, shape), rtol=1e-6
                    )


@EACH_DOMAIN
@pytest.mark.parametrize("k", [1, 2, 7])
def test_there_are_at_most_two_for_each_number(domain: Domain, k: int) -> None:
    for question in questions(domain, units=98, count_bits=3, k=k):
        up, down = np.full(question.shape, 5), np.full(question.shape, -5)
        n = 0
        for one, other in zip(
            question.inequalities(up, 9), question.inequalities(down, 9), strict=True
        ):
            is_absolute = (one.left == other.left) & (one.left >= 0)
            n += one.left.size + int(np.count_nonzero(is_absolute))
        assert 0 < n <= 2 * math.prod(question.shape)


def test_records_at_the_ends_attain_them() -> None:
    """So no lower threshold is right for all records: sums at the radius, all in one cluster, none
    in the other.
    """
    domain, centroids = situations.cube(2, 16), np.array([[0, 0], [40_000, 0]])
    question = Moments(domain=domain, n_clusters=2, squared_radius=100, count_bits=3)
    within, nonnegative, total = question.inequalities(
        question.answer(np.array([[10, 0]] * 4), centroids=centroids), 4
    )
    assert (within.left - within.right).tolist() == [[0, -40], [0, 0]]
    assert nonnegative.left.tolist() == [-32, 0]
    assert total.left == total.right == 32
