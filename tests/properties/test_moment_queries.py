"""Queries about moments, for any records and parameters in range: exact sensitivities, sums, the
integers of the oracle.
"""

import importlib.util
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moment_situations as situations
from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.clustering import parallel
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import OverflowRisk
from fastlloyd.mechanisms.queries import clipping, nearest
from fastlloyd.mechanisms.queries.query import Question, ask
from fastlloyd.mechanisms.queries.sensitivity import Corner

NAMES = [
    f"{domain.n_features} features, {domain.fraction_bits} bits" for domain in situations.DOMAINS
]
EACH_DOMAIN = pytest.mark.parametrize("domain", situations.DOMAINS, ids=NAMES)
SEEDS = st.integers(0, 2**63)
UNITS = st.sampled_from([2, 4, 6, 98, 2**12, 2**14, 2**16])
BITS = st.sampled_from([0, 3, 32])
without_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="numba is not installed"
)
WAYS = pytest.mark.parametrize(
    "compiled", [False, pytest.param(True, marks=without_numba)], ids=["plain", "compiled"]
)


@contextmanager
def going(compiled: bool) -> Iterator[None]:
    """By compiled code and in spans that threads share, or by neither, however much the process has
    computed.
    """
    with (
        mock.patch.object(nearest, "is_compiled", return_value=compiled),
        mock.patch.object(parallel, "is_compiled", return_value=compiled),
        mock.patch.multiple(parallel, WORTH_THREADS=1, LEAST_RECORDS=1),
    ):
        yield


def within(
    question: Question, change: IntArray, corners: tuple[Corner, ...], times: int = 1
) -> bool:
    """Whether a change respects the bounds: entries part by part, and the squared lengths of the
    parts below the corners' hull.

    A hull of two corners (a, 0) and (0, b), or of two of which neither is above the other, is
    described by three linear inequalities; more prices than those are tried.
    """
    parts = list(situations.by_part(question, change))
    if any(
        abs(v) > times * most
        for part, most in zip(parts, question.sensitivity.entries, strict=True)
        for v in part
    ):
        return False
    lengths = [sum(v * v for v in part) for part in parts]
    return all(
        priced(lengths, price) <= max(priced(corner, price) for corner in corners)
        for price in prices(corners)
    )


def prices(corners: tuple[Corner, ...]) -> list[tuple[int, ...]]:
    if len(corners[0]) == 1:
        return [(1,)]
    (a, b), (c, d) = corners[0], corners[-1]
    return [(1, 0), (0, 1), (1, 1), (1, 2), (abs(b - d), abs(a - c)), (3, 10**9), (10**9, 3)]


def priced(squares: list[int] | Corner, price: tuple[int, ...]) -> int:
    return sum(s * p for s, p in zip(squares, price, strict=True))


def all_respect_their_bounds(
    domain: Domain, seed: int, units: int, count_bits: int, k: int
) -> bool:
    generator = np.random.default_rng(seed)
    common, x, y = (situations.records(domain, n, generator) for n in (2, 1, 1))
    for question in situations.questions(domain, units=units, count_bits=count_bits, k=k):
        query, stated = situations.query(question, generator), question.sensitivity
        before, with_x, with_y = (
            query.evaluate(np.vstack([common, *more])) for more in ((), (x,), (y,))
        )
        if not within(question, with_x - before, stated.added):
            return False
        if not within(question, with_y - with_x, stated.replaced, 2):
            return False
    return True


@WAYS
@EACH_DOMAIN
@settings(max_examples=40)
@given(SEEDS, UNITS, BITS, st.integers(1, 4))
def test_no_neighbour_moves_an_answer_by_more_than_the_stated_integers(
    domain: Domain, compiled: bool, seed: int, units: int, count_bits: int, k: int
) -> None:
    with going(compiled):
        assert all_respect_their_bounds(domain, seed, units, count_bits, k)


@WAYS
@EACH_DOMAIN
@settings(max_examples=25)
@given(SEEDS, UNITS, BITS, st.integers(1, 4))
def test_the_fast_form_gives_the_integers_of_the_reference(
    domain: Domain, compiled: bool, seed: int, units: int, count_bits: int, k: int
) -> None:
    generator = np.random.default_rng(seed)
    X = situations.records(domain, int(generator.integers(0, 7)), generator)
    for question in situations.questions(domain, units=units, count_bits=count_bits, k=k):
        query = situations.query(question, generator)
        with going(compiled):
            answer = query.evaluate(X)
        assert answer.dtype == np.int64
        assert answer.shape == question.shape == (question.shape[0], sum(question.parts))
        assert answer.tolist() == situations.expected(query, X)


@EACH_DOMAIN
@settings(max_examples=20)
@given(SEEDS, UNITS, st.integers(1, 4), st.lists(st.integers(0, 3), min_size=9, max_size=9))
def test_order_type_memory_and_the_split_of_the_records_change_nothing(
    domain: Domain, seed: int, units: int, k: int, owners: list[int]
) -> None:
    generator = np.random.default_rng(seed)
    X = situations.records(domain, len(owners), generator)
    owner = np.array(owners)
    for question in situations.questions(domain, units=units, count_bits=1, k=k):
        query = situations.query(question, generator)
        answer = query.evaluate(X)
        assert np.array_equal(
            sum(query.evaluate(X[owner == client]) for client in range(4)), answer
        )
        for same in (
            X[::-1],
            X.astype(np.int32),
            np.asfortranarray(X),
            np.asfortranarray(X.astype(np.int32)),
            np.repeat(X, 2, 0)[::2],
        ):
            assert np.array_equal(query.evaluate(same), answer)


@EACH_DOMAIN
@settings(max_examples=20)
@given(SEEDS, st.integers(1, 4))
def test_what_is_out_of_range_is_refused_and_not_shown(domain: Domain, seed: int, k: int) -> None:
    generator = np.random.default_rng(seed)
    for question in situations.questions(domain, units=64, count_bits=0, k=k):
        values = situations.query(question, generator).values
        for parameter in question.parameters:
            value = values[parameter.name]
            if isinstance(value, int):
                wrong = [
                    parameter.least - 1,
                    parameter.most + 1,
                    -(2**63),
                    2**64,
                    True,
                    float(value),
                    np.int64(value),
                    str(value),
                ]
            else:
                wrong = [value.astype(kind) for kind in (np.int32, np.float64, object)]
                wrong += [value[:-1], value[None], value.tolist()]
                for outside in (
                    np.asarray(parameter.least) - 1,
                    np.asarray(parameter.most) + 1,
                    np.asarray(-(2**63)),
                ):
                    entry = tuple(int(generator.integers(n)) for n in value.shape)
                    beyond = value.copy()
                    beyond[entry] = np.broadcast_to(outside, value.shape)[entry]
                    wrong.append(beyond)
            for one in wrong:
                with pytest.raises(OverflowRisk, match=parameter.name) as refusal:
                    ask(question, **{**values, parameter.name: one})
                assert "array(" not in str(refusal.value)
            with pytest.raises(OverflowRisk, match="expected"):
                ask(question, **{name: v for name, v in values.items() if name != parameter.name})
        with pytest.raises(OverflowRisk, match="expected"):
            ask(question, **values, another=1)


@settings(max_examples=500)
@given(st.integers(1, 2**52), st.integers(0, 2**52), st.integers(-1, 1))
def test_a_rounded_quotient_of_integers_has_the_whole_part_of_the_true_one(
    b: int, quotient: int, off: int
) -> None:
    a = max(0, b * (quotient % (2**53 // b)) + off)
    if a + b < 2**53:
        assert math.floor(float(a) / float(b)) == a // b


@settings(max_examples=500)
@given(st.integers(0, math.isqrt(2**53 - 1)), st.integers(-2, 2))
def test_roots_are_whole_and_exact_up_to_the_end_of_the_range(root: int, off: int) -> None:
    n = min(max(0, root * root + off), 2**53 - 1)
    assert clipping.integer_roots(np.array([float(n)])).tolist() == [math.isqrt(n)]


def per_coordinate(Z: FloatArray) -> FloatArray:
    longest: FloatArray = np.abs(Z).max(axis=1)
    return longest


def unclipped_lengths(Z: FloatArray, radius: int, units: int) -> FloatArray:
    scaled: FloatArray = np.floor(clipping.floor_norms(Z) * units / radius)
    return scaled


MUTANTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "rounding to nearest": (
        "clipping._round_towards_zero",
        lambda values: np.rint(values, out=values),
    ),
    "rounding down": ("clipping._round_towards_zero", lambda values: np.floor(values, out=values)),
    "the norm not rounded up": ("clipping.ceil_norms", clipping.floor_norms),
    "the largest coordinate in place of the norm": ("clipping.ceil_norms", per_coordinate),
    "lengths that are not clipped": ("centred.clipped_lengths", unclipped_lengths),
}
SOUGHT = 60


def a_violation_is_found() -> bool:
    """The property above on situations that are the same in every run."""
    with going(compiled=False):
        return not all(
            all_respect_their_bounds(
                situations.DOMAINS[seed % 6], seed, [2, 4, 98, 2**16][seed % 4], 0, 1 + seed % 3
            )
            for seed in range(SOUGHT)
        )


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_property_notices_a_clipping_that_is_wrong_by_a_rounding(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, wrong = MUTANTS[mutant]
    monkeypatch.setattr(clipping, "_check_lengths", lambda *_: None)
    monkeypatch.setattr(f"fastlloyd.mechanisms.queries.{place}", wrong)
    assert a_violation_is_found()


def test_the_property_holds_where_the_mutants_fail() -> None:
    assert not a_violation_is_found()


@pytest.mark.parametrize("mutant", list(MUTANTS)[:4])
def test_a_vector_that_came_out_too_long_would_stop_the_computation(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, wrong = MUTANTS[mutant]
    monkeypatch.setattr(f"fastlloyd.mechanisms.queries.{place}", wrong)
    with pytest.raises(AssertionError, match=r"IEEE 754"):
        a_violation_is_found()


@without_numba
def test_the_same_where_offsets_are_added_up_by_compiled_code() -> None:
    from fastlloyd.clustering.compiled import clipping as compiled_clipping

    points, labels, centroids = (
        np.full((3, 2), 9),
        np.zeros(3, dtype=np.int32),
        np.zeros((1, 2), dtype=np.int64),
    )
    too_long = mock.patch.object(compiled_clipping, "clip_offsets", return_value=4**2 + 1.0)
    with too_long, pytest.raises(AssertionError, match=r"IEEE 754"):
        nearest._compiled_sums(points, labels, centroids, 1, 4)


@without_numba
@settings(max_examples=40)
@given(
    SEEDS,
    UNITS,
    st.integers(1, 4),
    st.integers(1, 20),
    st.sampled_from(["int32", "int64"]),
    st.sampled_from("CF"),
)
def test_compiled_code_adds_up_the_integers_of_the_plain_form_on_any_number_of_threads(
    seed: int, units: int, k: int, d: int, dtype: str, order: Any
) -> None:
    generator = np.random.default_rng(seed)
    X = generator.integers(-(2**16), 2**16 + 1, (int(generator.integers(0, 700)), d)).astype(
        dtype, order=order
    )
    centroids, labels = (
        generator.integers(-(2**16), 2**16 + 1, (k, d)),
        generator.integers(0, k, len(X)).astype(np.int32),
    )
    radius = int(generator.integers(1, 2**18))
    plain = nearest._plain_sums(X, labels, centroids, radius, units)
    with (
        mock.patch.object(parallel, "WORTH_THREADS", int(generator.choice([1, 2**18]))),
        mock.patch.object(nearest, "RECORDS_PER_SUM", int(generator.choice([1, 2**18]))),
        mock.patch.object(parallel, "MOST_RECORDS", int(generator.choice([100, 2**18]))),
        mock.patch.object(clipping, "CLIPPED_CELLS", int(generator.choice([1, 2**16]))),
    ):
        for points, middles in ((X, centroids), (X.astype(">i8"), np.asfortranarray(centroids))):
            assert np.array_equal(
                nearest._compiled_sums(points, labels, middles, radius, units), plain
            )
