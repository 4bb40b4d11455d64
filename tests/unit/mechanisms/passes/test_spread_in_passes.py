"""Shares of rows that are read in passes are those of rows in memory, bit for bit, however small
the parts are.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.mechanisms.passes.spread import count_persons, spread_in_passes
from fastlloyd.mechanisms.spread import Shares, shares_of
from fastlloyd.records.ids import TextIds
from people import KEY
from small_parts import small_parts


def in_passes(
    ids: Sequence[bytes], X: IntArray, bits: int, cuts: Sequence[int]
) -> tuple[Shares, int]:
    """The shares of blocks of rows between these cuts, read in pieces between the same."""
    spans = list(pairwise([0, *sorted(cut for cut in cuts if cut < len(X)), len(X)]))
    on_disk, n = spread_in_passes(((X[a:b], TextIds.of(ids[a:b])) for a, b in spans), KEY, bits)
    return np.concatenate([on_disk.of(a, b - a) for a, b in spans]), n


def test_a_person_with_more_rows_than_are_sorted_at_once_gives_the_first_of_them_a_share() -> None:
    """The rows of a person cannot be divided by its hash; equal rows not by theirs either."""
    for points in (np.arange(3000).reshape(-1, 1), np.zeros((3000, 1), dtype=np.int64)):
        ids = [b"most"] * 2900 + [b"%d" % i for i in range(100)]
        with small_parts(200, 64, 500):
            shares, n = in_passes(ids, points, 10, [1, 700, 701])
        assert n == 101
        assert shares[:2900].sum() == 1024
        assert set(shares[:2900].tolist()) == {0, 1}
        assert (shares == shares_of(ids, points, KEY, 10)[0]).all()


def test_ids_that_look_like_the_same_number_are_different_persons() -> None:
    assert count_persons([TextIds.of([b"7", b"007", b"7.0", b"7 ", b"+7"])]) == 5
    assert count_persons([TextIds.of([b"7", b"8"]), TextIds.of([b"8", b"7"])]) == 2


@pytest.mark.parametrize("bits", [1, 10])
def test_rows_of_no_features_are_counted_too(bits: int) -> None:
    shares, n = in_passes([b"a", b"b", b"a"], np.empty((3, 0), dtype=np.int64), bits, [2])
    assert n == 2
    assert shares[1] == shares[0] + shares[2] == 1 << bits
