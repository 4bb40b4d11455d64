"""What Lloyd's iterations ask, around any centroids: the queries of the tests, how far a record
moves them, and one update.
"""

from dataclasses import dataclass

import msgspec

from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism, LloydRound
from fastlloyd.mechanisms.mechanism import Clustering
from fastlloyd.mechanisms.queries.query import Query, ask
from fastlloyd.mechanisms.queries.relative import ClippedLoss, Moments


@dataclass(frozen=True)
class Bounds:
    """By how much one record added or removed moves the sums of its cluster at most, and its
    count.
    """

    squared_l2: int
    l1: int
    coordinate: int
    count: int


def cube(d: int, q: int = 16) -> Domain:
    return Domain(
        features=tuple(f"f{i}" for i in range(d)),
        lower=(-1.0,) * d,
        upper=(1.0,) * d,
        fraction_bits=q,
    )


def moments(
    centroids: IntArray,
    squared_radius: int | None,
    count_bits: int = 0,
    domain: Domain | None = None,
) -> Query:
    """Offsets within the radius and counts, or with None sums of all records; domain None:
    `cube`.
    """
    k, d = centroids.shape
    box = cube(d) if domain is None else domain
    question = Moments(
        domain=box, n_clusters=k, squared_radius=squared_radius, count_bits=count_bits
    )
    return ask(question, centroids=centroids)


def loss(centroids: IntArray, cap: int, shift: int, domain: Domain | None = None) -> Query:
    k, d = centroids.shape
    box = cube(d) if domain is None else domain
    return ask(ClippedLoss(domain=box, n_clusters=k, cap=cap, shift=shift), centroids=centroids)


def bounds(question: Moments) -> Bounds:
    s = question.sensitivity
    ((squared_l2, _),) = s.added
    return Bounds(squared_l2, s.l1_added[0], *s.entries)


def sensitivity(domain: Domain, squared_radius: int | None, count_bits: int) -> Bounds:
    return bounds(
        Moments(domain=domain, n_clusters=2, squared_radius=squared_radius, count_bits=count_bits)
    )


def around(m: LloydMechanism, round: LloydRound, centroids: IntArray) -> Query:
    """The query of a round around centroids."""
    return ask(round.question(m), centroids=centroids)


def moved(
    m: LloydMechanism, round: LloydRound, centroids: IntArray, answer: IntArray
) -> Clustering:
    """Where a round moves centroids."""
    return round.advance(
        m, msgspec.structs.replace(m.start(), centroids=centroids), answer, m.answer_noise(0)
    )
