"""Histograms: leaves with exact edges, and sensitivities that a pair of records attains. Any
records: tests/properties/.
"""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.bounds.design import outer_range
from fastlloyd.mechanisms.queries.histograms import MAX_LEVELS, Histograms
from fastlloyd.mechanisms.queries.query import ask
from histogram_pairs import DOMAINS, hold

OUTER = outer_range(["x", "y"], [-1000.0, 0.0], [1000.0, 5.0])
B = 1 << 22


def leaf_of(question: Histograms, x: int, start: int, step: int) -> int:
    """Where the histogram has a record of x."""
    values = {"start": np.full(2, start), "step": np.full(2, step)}
    counts = ask(question, **values).evaluate(np.array([[x, x]]))
    assert np.array_equal(counts[0], counts[1])
    (leaf,) = np.flatnonzero(counts[0, -question.n_leaves :])
    return int(leaf)


@pytest.mark.parametrize("step", [1, 3, 49, 1000, 2048])
def test_a_record_at_an_edge_is_in_the_leaf_above_and_one_unit_below_it_is_not(step: int) -> None:
    question, start = Histograms(domain=OUTER, n_levels=3), -B + 5
    for leaf in (1, 2, 49, 98, 255, 256, 510, 511):
        edge = start + leaf * step
        assert leaf_of(question, edge, start, step) == leaf
        assert leaf_of(question, edge - 1, start, step) == leaf - 1


def test_what_lies_beyond_the_leaves_is_in_the_first_or_the_last() -> None:
    question = Histograms(domain=OUTER, n_levels=3)
    assert [leaf_of(question, x, -10, 1) for x in (-B, -11, -10, 501, 502, B)] == [
        0,
        0,
        0,
        511,
        511,
        511,
    ]


def test_the_leaves_of_the_outer_range_are_floors_of_real_numbers() -> None:
    """min(4095, floor((x + B) 4096 / 2 B)), in fractions."""
    question, generator = Histograms(domain=OUTER, n_levels=4), np.random.default_rng(0)
    for x in [-B, -B + 1, -1, 0, B - 1, B, *generator.integers(-B, B, 50).tolist()]:
        assert leaf_of(question, x, -B, 2 * B // 4096) == min(
            4095, Fraction((x + B) * 4096, 2 * B).__floor__()
        )


def test_every_level_is_the_level_below_in_groups_of_eight() -> None:
    question = Histograms(domain=OUTER, n_levels=4, count_bits=2)
    X = np.random.default_rng(1).integers(-B, B, (500, 2))
    answer = ask(question, start=np.full(2, -B), step=np.full(2, 2048)).evaluate(X)
    assert answer.shape == question.shape == (2, 4680)
    levels = np.split(answer, np.cumsum(question.parts)[:-1], axis=1)
    for nodes, children in pairwise(levels):
        assert np.array_equal(nodes, children.reshape(2, -1, 8).sum(axis=2))
    assert [int(level.sum()) for level in levels] == [4 * 2 * 500] * 4


@pytest.mark.parametrize(("n_levels", "count_bits"), [(4, 0), (3, 5)])
def test_a_record_attains_the_stated_sensitivity_added_and_replaced(
    n_levels: int, count_bits: int
) -> None:
    question = Histograms(domain=OUTER, n_levels=n_levels, count_bits=count_bits)
    query = ask(question, start=np.full(2, -B), step=np.full(2, 2 * B // question.n_leaves))
    one, other, none = (
        query.evaluate(np.array(X).reshape(-1, 2)) for X in ([[-B, -B]], [[B, B]], [])
    )
    stated = question.sensitivity
    for relation, change in (
        (NeighboringRelation.ADD_OR_REMOVE_ONE, one - none),
        (NeighboringRelation.REPLACE_ONE, one - other),
    ):
        parts = np.split(change, np.cumsum(question.parts)[:-1], axis=1)
        assert tuple(int((part**2).sum()) for part in parts) == stated.corners(relation)[0]
        assert tuple(int(np.abs(part).max()) for part in parts) == stated.entries
    assert stated.added == ((2 * 4**count_bits,) * n_levels,)


@pytest.mark.parametrize(("number", "seeds"), [(0, 10), (1, 10), (2, 8), (3, 1), (4, 1)])
def test_no_record_moves_a_histogram_by_more_than_stated(number: int, seeds: int) -> None:
    """In 3,000 changes; `make campaign` looks at 1,000,000."""
    assert sum(hold(DOMAINS[number], seed) for seed in range(seeds)) == 100 * seeds


@pytest.mark.parametrize("n_levels", [0, MAX_LEVELS + 1, 2.0, True])
def test_another_number_of_levels_is_refused(n_levels: int) -> None:
    with pytest.raises(PlanError, match="n_levels is"):
        Histograms(domain=OUTER, n_levels=n_levels)


def test_more_count_bits_than_a_plan_may_have_are_refused() -> None:
    with pytest.raises(PlanError, match="count_bits is 33"):
        Histograms(
            domain=Domain(features=("x",), lower=(0.0,), upper=(1.0,)), n_levels=1, count_bits=33
        )
