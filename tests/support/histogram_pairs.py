"""Pairs of data sets that differ by a record, and how far histograms over any leaves may tell them
apart.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

import moment_situations as situations
from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.dp.neighboring import NeighboringRelation
from fastlloyd.mechanisms.bounds.design import DEEP_FEATURES, outer_range
from fastlloyd.mechanisms.queries.histograms import MAX_LEVELS, Histograms

DOMAINS = [
    outer_range([f"x{i}" for i in range(d)], [-1000.0] * d, [1000.0] * d) for d in (1, 2, 7, 33, 70)
]
EACH = 50  # pairs with the same leaves


def hold(domain: Domain, seed: int) -> int:
    """Draw leaves anywhere, and records; return how many changes of exact answers were looked at.
    Raises AssertionError.
    """
    generator = np.random.default_rng(seed)
    most = MAX_LEVELS if domain.n_features <= DEEP_FEATURES else MAX_LEVELS - 1
    n_levels, bits = int(generator.integers(1, most + 1)), int(generator.choice([0, 3, 32]))
    question = Histograms(domain=domain, n_levels=n_levels, count_bits=bits)
    query = situations.query(question, generator)
    points = situations.records(domain, EACH + 1, generator)
    edges = (
        query.values["start"]
        + generator.integers(0, question.n_leaves + 1, (EACH + 1, 1)) * query.values["step"]
    )
    at_edges = np.clip(
        edges - generator.integers(0, 2, edges.shape), -domain.half_widths, domain.half_widths
    )
    points = np.where(generator.integers(0, 2, (EACH + 1, 1)), points, at_edges)
    common = situations.records(domain, 2, generator)
    before = query.evaluate(common)
    answers = [query.evaluate(np.vstack([common, point])) for point in points]
    for one, other in pairwise(answers):
        check(question, one - before, NeighboringRelation.ADD_OR_REMOVE_ONE)
        check(question, other - one, NeighboringRelation.REPLACE_ONE)
    return 2 * EACH


def check(question: Histograms, change: IntArray, relation: NeighboringRelation) -> None:
    """Every part within the corner, and no further: a record changes just one node of each level,
    another one two or none.
    """
    parts = list(_parts(question, change))
    lengths = [sum(v * v for v in part) for part in parts]
    corner = question.sensitivity.corners(relation)[0]
    assert all(length <= most for length, most in zip(lengths, corner, strict=True))
    if relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        assert tuple(lengths) == corner
    for part, most in zip(parts, question.sensitivity.entries, strict=True):
        assert all(abs(v) <= most for v in part)


def _parts(question: Histograms, change: IntArray) -> Iterator[list[int]]:
    """The entries of each level that are not 0, as Python integers."""
    for part in np.split(change, np.cumsum(question.parts)[:-1], axis=1):
        yield part[part != 0].tolist()
