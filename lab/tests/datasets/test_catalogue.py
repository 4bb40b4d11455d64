"""Tests of the catalogue of data sets, and of the digest that identifies the values of a set in any
format.
"""

import hashlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd_lab.datasets import CATALOGUE, DataSet, values_digest

SETS = list(CATALOGUE.values())


def test_the_papers_sets_and_those_of_g2_are_there() -> None:
    paper = [
        "iris",
        "lsun",
        "s1",
        "house",
        "wine",
        "breast",
        "yeast",
        "adult",
        "mnist",
        "birch2",
        "birch2-25k",
    ]
    g2 = [
        f"g2-{d}-{deviation}" for d in (2, 4, 8, 16, 32, 64, 128, 256) for deviation in (30, 50, 70)
    ]
    assert list(CATALOGUE) == [*paper, *g2, "g2-512-100"]


@pytest.mark.parametrize("entry", SETS, ids=lambda entry: entry.name)
def test_every_set_says_what_it_is_and_where_it_is_pinned(entry: DataSet) -> None:
    assert CATALOGUE[entry.name] is entry
    assert 1 < entry.n_clusters < entry.n_records
    assert all((entry.about, entry.citation, entry.licence, entry.changes))
    assert re.fullmatch("[0-9a-f]{64}", entry.digest)
    assert entry.homes
    for home in entry.homes:
        assert re.fullmatch(
            r"https://raw\.githubusercontent\.com/[\w-]+/[\w-]+/[0-9a-f]{10,40}/[\w/.-]+",
            home.address,
        )


def test_no_two_sets_have_the_same_values() -> None:
    assert len({entry.digest for entry in SETS}) == len(SETS)


def test_the_digest_of_one_cell_worked_by_hand() -> None:
    # n = 1 and d = 1 as 64 bits, the lowest byte first; 1.5 is 0x3FF8000000000000.
    assert (
        values_digest(np.array([[1.5]]))
        == hashlib.sha256(bytes([1, *[0] * 7] * 2 + [0] * 6 + [0xF8, 0x3F])).hexdigest()
    )


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_digest_depends_on_values_order_and_shape_and_not_on_how_they_lie_in_memory(
    n: int, d: int, seed: int
) -> None:
    values = np.random.default_rng(seed).normal(size=(n, d))
    digest = values_digest(values)
    assert values_digest(np.asfortranarray(values)) == digest
    assert values_digest(np.repeat(values, 2, axis=0)[::2]) == digest
    assert values_digest(values.astype(">f8").astype(np.float64)) == digest
    others = [values.T, values.reshape(1, -1), values[::-1], np.nextafter(values, np.inf)]
    for other in others:
        assert (values_digest(other) == digest) == np.array_equal(other, values)
