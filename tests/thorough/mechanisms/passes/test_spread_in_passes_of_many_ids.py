"""Shares of rows in passes, of many persons."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.arrays import IntArray
from fastlloyd.mechanisms.passes.spread import count_persons, spread_in_passes
from fastlloyd.mechanisms.spread import Shares, shares_of
from fastlloyd.records.ids import IntegerIds, TextIds
from people import KEY
from small_parts import small_parts


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[bytes], IntArray]:
    """Ids and points of up to 120 rows; some persons have most rows, many rows are alike."""
    seed, n = draw(st.integers(0, 2**32)), draw(st.integers(1, 120))
    rng = np.random.default_rng(seed)
    persons = rng.integers(0, draw(st.sampled_from([1, 2, 30])), n) * (
        rng.random(n) < draw(st.sampled_from([0.1, 1]))
    )
    return [b"%d" % person for person in persons], rng.integers(
        -1, draw(st.sampled_from([0, 1, 100])), (n, 2)
    )


def in_passes(
    ids: Sequence[bytes], X: IntArray, bits: int, cuts: Sequence[int]
) -> tuple[Shares, int]:
    """The shares of blocks of rows between these cuts, read in pieces between the same."""
    spans = list(pairwise([0, *sorted(cut for cut in cuts if cut < len(X)), len(X)]))
    on_disk, n = spread_in_passes(((X[a:b], TextIds.of(ids[a:b])) for a, b in spans), KEY, bits)
    return np.concatenate([on_disk.of(a, b - a) for a, b in spans]), n


@settings(max_examples=150, deadline=None)
@given(
    table=rows(),
    bits=st.integers(1, 15),
    cuts=st.lists(st.integers(0, 119), max_size=4),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 30), st.integers(1, 50)),
)
def test_shares_in_passes_are_those_in_memory(
    table: tuple[list[bytes], IntArray], bits: int, cuts: list[int], sizes: tuple[int, int, int]
) -> None:
    ids, X = table
    with small_parts(*sizes):
        shares, n = in_passes(ids, X, bits, cuts)
    expected, n_persons = shares_of(ids, X, KEY, bits)
    assert n == n_persons == len(set(ids))
    assert shares.tobytes() == expected.tobytes()
    assert shares.sum(dtype=np.int64) == n << bits


def test_three_hundred_thousand_ids_are_as_many_persons() -> None:
    n = 300_000
    ids = IntegerIds(np.arange(n) * 7919)
    blocks = [ids.cut(start, start + 2**16) for start in range(0, n, 2**16)]
    assert count_persons(blocks) == n
