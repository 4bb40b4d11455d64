"""Questions about moments and spread, parameters over their whole range, records, and the same
answers by the oracle.
"""

from collections.abc import Iterator

import numpy as np

import query_reference as reference
from fastlloyd.base.arrays import IntArray
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.mechanisms.queries.centred import ClippedLengths, ClippedSquares, SecondMoment
from fastlloyd.mechanisms.queries.histograms import Histograms
from fastlloyd.mechanisms.queries.nearest import ClippedOffsets, Votes
from fastlloyd.mechanisms.queries.parameters import Parameter, Value
from fastlloyd.mechanisms.queries.query import Query, Question, ask
from fastlloyd.mechanisms.queries.spaces import Features, Subspace

ENDS = 6  # ways to choose a parameter or a record
ONE = 1 << 20


def cube(d: int, q: int) -> Domain:
    return Domain(
        features=tuple(map(str, range(d))), lower=(-1.0,) * d, upper=(1.0,) * d, fraction_bits=q
    )


DOMAINS = [
    cube(1, 25),
    cube(2, 2),
    cube(2, 23),
    Domain(
        features=("x", "y", "z"),
        lower=(0.0,) * 3,
        upper=(9.0, 3.0, 1.0),
        fraction_bits=8,
        scaling=Scaling.COMMON,
    ),
    cube(8, 16),
    cube(40, 12),
]


def questions(domain: Domain, *, units: int, count_bits: int, k: int) -> list[Question]:
    """All of them; those in a subspace where there is one that is exact."""
    asked: list[Question] = [
        kind(domain=domain, units=units) for kind in (ClippedLengths, ClippedSquares, SecondMoment)
    ]
    asked.append(Histograms(domain=domain, n_levels=2, count_bits=count_bits))
    spaces: list[Features | Subspace] = [Features(domain=domain)]
    if domain.fraction_bits < 25:
        spaces.append(Subspace(domain=domain, n_directions=min(domain.n_features, 3)))
    for space in spaces:
        asked += [
            Votes(space=space, n_candidates=k, count_bits=count_bits),
            ClippedOffsets(space=space, n_clusters=k, units=units, count_bits=count_bits),
        ]
    return asked


def records(domain: Domain, n: int, generator: np.random.Generator) -> IntArray:
    """Grid points: at the corners of the box, at its centre, close together, or anywhere."""
    B, d = domain.half_widths, domain.n_features
    return np.array(
        [_point(B, (d,), int(generator.integers(ENDS)), generator) for _ in range(n)]
    ).reshape(n, d)


def query(question: Question, generator: np.random.Generator) -> Query:
    """The question with parameters anywhere in their range, hostile ones and the ends included."""
    return ask(
        question,
        **{
            p.name: _value(p, int(generator.integers(ENDS)), generator) for p in question.parameters
        },
    )


def expected(asked: Query, X: IntArray) -> list[list[int]]:
    """The answer of the oracle, on the grid of the counts."""
    question, values = asked.question, asked.values
    match question:
        case ClippedLengths(units=units):
            # the same
            return [[reference.clipped_lengths(X, units=units, **values)]]  # type: ignore[arg-type]
        case ClippedSquares(units=units):
            # the same
            return [reference.clipped_squares(X, units=units, **values)]  # type: ignore[arg-type]
        case SecondMoment(units=units):
            # the same
            return [reference.second_moment(X, units=units, **values)]  # type: ignore[arg-type]
        case Histograms(count_bits=bits):
            # the same
            return [[n << bits for n in row] for row in reference.histograms(X, **values)]  # type: ignore[arg-type]
        case Votes(count_bits=bits):
            # the same
            counts = reference.votes(_points(values, X), values["candidates"])  # type: ignore[arg-type]
            return [[count << bits] for count in counts]
        case ClippedOffsets(units=units, count_bits=bits):
            named = {name: values[name] for name in ("centroids", "radius")}
            # the same
            rows = reference.clipped_offsets(_points(values, X), units=units, **named)  # type: ignore[arg-type]
            return [[*row[:-1], row[-1] << bits] for row in rows]
    raise AssertionError(question)


def by_part(question: Question, answer: IntArray) -> Iterator[list[int]]:
    """The entries of each part, as Python integers."""
    first = 0
    for columns in question.parts:
        yield [v for row in answer[:, first : first + columns].tolist() for v in row]
        first += columns


def _points(values: dict[str, Value], X: IntArray) -> list[list[int]]:
    if "origin" not in values:
        points: list[list[int]] = X.tolist()
        return points
    # both are arrays
    return reference.place(X, values["origin"], values["directions"])  # type: ignore[arg-type]


def _value(parameter: Parameter, kind: int, generator: np.random.Generator) -> Value:
    if parameter.shape == ():
        low, high = parameter.least, parameter.most
        middle = int(2 ** generator.uniform(0, np.log2(high)))
        number: int = [
            low,
            high,
            max(low, high - 1),
            min(low + 1, high),
            middle,
            int(generator.integers(low, high + 1)),
        ][kind]
        return number
    if parameter.column_square is not None:
        return _directions(parameter.shape, kind, generator)
    k = parameter.shape[0] if len(parameter.shape) == 2 else 1
    rows = [
        _point(np.asarray(parameter.most), parameter.shape[-1:], kind, generator) for _ in range(k)
    ]
    if k > 1 and generator.integers(2):
        rows[generator.integers(k)] = rows[0]  # coincident: a tie for all records
    points: IntArray = np.maximum(np.array(rows).reshape(parameter.shape), parameter.least)
    return points


def _point(
    limits: IntArray, shape: tuple[int, ...], kind: int, generator: np.random.Generator
) -> IntArray:
    point: IntArray
    match kind:
        case 0:
            point = limits * generator.choice([-1, 1], shape)
        case 1:
            point = np.zeros(shape, dtype=np.int64)
        case 2:  # a few units away from the centre, where rounding tells most
            point = np.clip(generator.integers(-9, 10, shape), -limits, limits)
        case 3:  # along one axis
            point = np.where(
                np.arange(shape[-1]) == generator.integers(shape[-1]),
                generator.integers(-limits, limits + 1),
                0,
            )
        case _:
            point = generator.integers(-limits, limits + 1, shape)
    return point


def _directions(shape: tuple[int, ...], kind: int, generator: np.random.Generator) -> IntArray:
    d, r = shape
    if kind == 0:
        return np.zeros(shape, dtype=np.int64)
    if kind == 1:  # all the same: no point is farther away than in this subspace
        return np.tile(
            np.trunc(generator.choice([-1, 1], (d, 1)) * (ONE / d**0.5)).astype(np.int64), (1, r)
        )
    if kind == 2:
        return np.where(
            np.arange(d)[:, None] == generator.integers(d, size=r),
            generator.choice([-ONE, ONE], r),
            0,
        )
    if kind == 3:
        return generator.integers(-2, 3, shape)
    orthogonal, _ = np.linalg.qr(generator.normal(size=shape))
    directions: IntArray = np.trunc(orthogonal * ONE).astype(np.int64)
    return directions
