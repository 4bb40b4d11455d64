"""Shares of hundreds of thousands of ids."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fastlloyd.mechanisms.spread import person_hashes, shares_of
from people import KEY


def parts_of_two_values(m: int, n_persons: int = 300) -> NDArray[np.float64]:
    """The part of each person's shares that the first of two values gets, which half of the m rows
    have.
    """
    ids = [b"%d" % person for person in range(n_persons) for _ in range(m)]
    X = np.tile(np.array([[-100], [100]]), (n_persons * m // 2, 1))
    shares, _ = shares_of(ids, X, KEY, 10)
    return np.asarray(shares[X[:, 0] < 0].reshape(n_persons, -1).sum(axis=1) / 1024)


@pytest.mark.parametrize("m", [700, 2000])
def test_of_two_values_of_half_of_the_rows_each_neither_gets_more_than_half_of_the_shares(
    m: int,
) -> None:
    """For one person too: with W of 2,000 rows drawn a part deviates by sqrt(1/4 (1/1024 - 1/2000))
    = 0.011.
    """
    parts = parts_of_two_values(m)
    assert abs(parts.mean() - 0.5) < 0.01
    assert np.abs(parts - 0.5).max() < 0.08


def test_each_of_300_000_ids_is_a_person() -> None:
    """32 bits would tell ten pairs of them for one."""
    ids = [b"%d" % i for i in range(300_000)]
    assert shares_of(ids, np.zeros((len(ids), 1), dtype=np.int32), KEY, 10)[1] == len(ids)
    hashes = person_hashes(ids, KEY)
    assert len(np.unique(hashes.view("V16"))) == len(ids)
    assert len(np.unique(hashes[:, 0] & np.uint64(2**32 - 1))) < len(ids)  # which is noticed
