"""Values outside the bounds: counted block by block, or refused with record and column and never
the value.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastlloyd.base.compiling import is_compiled
from fastlloyd.clustering import domain, gridding, parallel
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.clustering.grid_records import GridRecords, Outside
from fastlloyd.clustering.outside import Clipped, OutsideMarks
from fastlloyd.errors import DataError
from fastlloyd.records.table import ColumnBlock, numbered

DOMAIN = Domain(features=("age", "bmi"), lower=(0.0, 10.0), upper=(120.0, 60.0))


class Numbered:
    """Records in one block, of which the first has a number."""

    n_rows, n_ahead = None, 0

    def __init__(self, X: npt.NDArray[np.float64], first: int) -> None:
        self._X, self._first = X, first

    def blocks_to_check(self) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
        yield self._first, self._X

    def check(self, _block: object, _first: int, /) -> None:
        raise AssertionError("all numbers are finite")

    def place(self, record: int, /) -> str:
        return numbered(record)


def n_outside(X: npt.NDArray[np.float64], outside: Outside, first: int = 1) -> int:
    records = GridRecords(Numbered(X, first), DOMAIN, outside, source="memory")
    list(records)
    return records.n_outside


RECORDS = arrays(np.float64, st.tuples(st.integers(1, 9), st.just(2)), elements=st.floats(-5, 125))


@given(X=RECORDS, cut=st.integers(0, 9))
def test_the_count_is_that_of_records_that_clipping_changes_and_adds_up_over_blocks(
    X: npt.NDArray[np.float64], cut: int
) -> None:
    clipped = np.clip(X, DOMAIN.lower, DOMAIN.upper)
    n = n_outside(X, Outside.CLIP)
    assert np.array_equal(DOMAIN.to_grid_and_outside(X)[0], DOMAIN.to_grid(clipped))
    assert n == (clipped != X).any(axis=1).sum()
    parts = [part for part in (X[:cut], X[cut:]) if len(part)]
    assert n == sum(n_outside(np.asfortranarray(part), Outside.CLIP) for part in parts)


@given(X=RECORDS, first=st.integers(1, 100))
def test_the_first_value_outside_is_refused_by_record_and_column_alone(
    X: npt.NDArray[np.float64], first: int
) -> None:
    beyond = (DOMAIN.lower > X) | (DOMAIN.upper < X)
    if not beyond.any():
        assert n_outside(X, Outside.REFUSE, first) == 0
        return
    record, column = np.argwhere(beyond)[0]
    with pytest.raises(DataError) as refused:
        n_outside(X, Outside.REFUSE, first)
    assert (
        str(refused.value)
        == f"memory, record {first + record}, column {DOMAIN.features[column]!r}: the value lies"
        " outside the bounds; correct it, state wider bounds from public knowledge, or clip"
        " such values with --outside clip"
    )


def test_values_on_the_bounds_are_inside() -> None:
    X = np.array([[0.0, 10.0], [120.0, 60.0]])
    assert n_outside(X, Outside.REFUSE) == 0


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("d", [1, 2, 16, 20, 40])
def test_points_and_marks_are_the_same_by_every_way(
    compiled: bool, threads: str, dtype: type, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small blocks, in every memory order; the marks by the definition, the points by Python's
    fractions elsewhere.
    """
    if compiled and not is_compiled(1 << 40):
        pytest.skip("there is no compiled code")
    monkeypatch.setattr(domain, "is_compiled", lambda _: compiled)
    monkeypatch.setattr(domain, "BLOCK_ELEMENTS", 100)
    monkeypatch.setattr(gridding, "BLOCK_ELEMENTS", 100)
    monkeypatch.setattr(parallel, "WORTH_THREADS", 1)
    monkeypatch.setattr(parallel, "LEAST_RECORDS", 200)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    wide = Domain(features=tuple(map(str, range(d))), lower=(-2.0,) * d, upper=(1.5,) * d)
    X: npt.NDArray[Any] = (
        np.random.default_rng(d).normal(0, 1 if d < 9 else 0.7, (1000, d)).astype(dtype)
    )
    marks = ((X < -2.0) | (X > 1.5)).any(axis=1)
    assert 0 < marks.sum() < 1000 or dtype is np.int64
    expected = np.clip(
        np.floor((np.clip(X.astype(float), -2, 1.5) + 0.25) / wide.units[0] + 0.5), -(2**16), 2**16
    )
    tables = [
        X,
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        np.repeat(X, 2, axis=1)[:, ::2],
    ]
    blocks = [] if dtype is np.int64 else [ColumnBlock([np.ascontiguousarray(x) for x in X.T])]
    every: list[npt.NDArray[Any] | ColumnBlock] = [*tables, *blocks]
    for records in every:
        grid, (outside, _) = wide.to_grid_and_outside(records)
        assert np.array_equal(grid, expected)
        assert np.array_equal(outside, marks)


@given(
    X=st.sampled_from([np.float32, np.float64]).flatmap(
        lambda dtype: arrays(
            dtype,
            st.tuples(st.integers(1, 40), st.integers(1, 20)),
            elements=st.floats(-3, 3, width=32)
            | st.sampled_from([np.nan, np.inf, -np.inf, -0.0, 1.5, 1e38]),
            fill=st.floats(-2, 2, width=32),
        )
    ),
    order=st.sampled_from(["C", "F", "every second record", "every second feature", "backwards"]),
    common=st.booleans(),
)
def test_compiled_code_makes_the_points_and_marks_of_numpy_in_every_memory_order(
    X: npt.NDArray[np.floating[Any]], order: str, common: bool
) -> None:
    pytest.importorskip("numba")
    assert is_compiled(1 << 40)
    n, d = X.shape
    lower, upper = tuple(-np.linspace(1.0, 2.0, d)), tuple(np.linspace(1.5, 0.3, d))
    scaling = Scaling.COMMON if common else Scaling.PER_FEATURE
    box = Domain(features=tuple(map(str, range(d))), lower=lower, upper=upper, scaling=scaling)
    match order:
        case "every second record":
            X = np.repeat(X, 2, axis=0)[::2]
        case "every second feature":
            X = np.repeat(X, 2, axis=1)[:, ::2]
        case "backwards":
            X = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
        case _:
            X = np.asarray(X, order=order)  # type: ignore[call-overload]
    found, expected = (
        np.full((n, d), 7, dtype=np.int32, order="F" if gridding.is_by_feature(X) else "C")
        for _ in range(2)
    )
    marks, expected_marks = (OutsideMarks.none(n, d) for _ in range(2))
    finite = gridding.compiled_grid(X, box._frame(), found, marks)
    assert finite == np.isfinite(X).all()
    if finite:
        box._plain_grid(X, box._frame(), expected, expected_marks)
        assert np.array_equal(found, expected)
        assert np.array_equal(marks.records, expected_marks.records)
        assert np.array_equal(marks.counts, expected_marks.counts)
        assert np.array_equal(marks.counts, ((lower > X) | (upper < X)).sum(axis=0))
        box.check_grid(found)


def test_values_outside_are_counted_for_each_feature_however_records_come_in_blocks() -> None:
    X = np.array([[-1.0, 20], [50, 61], [130, 5], [0, 60], [121, 30]])
    found = Clipped.of(DOMAIN.to_grid_and_outside(X)[1])
    assert (found.n_records, found.n_outside, found.counts) == (5, 4, (3, 2))
    parts = [Clipped.of(DOMAIN.to_grid_and_outside(part)[1]) for part in (X[:1], X[1:2], X[2:])]
    assert sum(parts, Clipped()) == found
    assert Clipped() + Clipped() == Clipped()


def test_a_feature_is_named_from_two_percent_of_its_values_on() -> None:
    names = ("age", "bmi", "dose")
    found = Clipped(n_records=1000, n_outside=40, counts=(19, 20, 1000))
    assert found.often(names) == {"bmi": 0.02, "dose": 1.0}
    assert Clipped(n_records=1000, counts=(0, 0, 0)).often(names) == {}
    assert Clipped().often(names) == {}


def test_numbers_of_what_is_outside_are_shown_by_no_repr() -> None:
    assert not set("0123456789") & set(repr(Clipped(n_records=123, n_outside=45, counts=(45, 6))))
