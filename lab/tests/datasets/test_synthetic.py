"""Tests of generated families: the meaning of a name, sizes, outliers, order, and the refusal of
wrong names.
"""

import gzip
import hashlib
import itertools
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd_lab.datasets.synthetic import (
    FAMILIES,
    generate,
    generate_labelled,
    is_generated,
    n_clusters,
    shares,
)
from separation_index import sample_separations

NAMES = {
    "synth-4-2-1": (10_000, 2, 4),
    "synth-2-16-3": (10_000, 16, 2),
    "synthk-9-2": (10_000, 2, 9),
    "ablation-4-8-0.25": (None, 8, 4),
    "timesynth-1003-5-3": (1003, 3, 5),
    "g2-8-30": (2048, 8, 2),
    "g2-1-10": (2048, 1, 2),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_how_many_records_features_and_clusters_there_are(name: str) -> None:
    n, d, k = NAMES[name]
    table, labels = generate_labelled(name)
    assert is_generated(name)
    assert table.values.shape == (n or len(labels), d)
    assert table.columns == tuple(f"x{i}" for i in range(1, d + 1))
    assert table.source == f"generated set {name}"
    assert n_clusters(name) == k
    assert set(labels) - {-1} == set(range(k))
    assert np.array_equal(generate(name).values, table.values)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("synth-2-2-1", "6ca2a682755c32be"),
        ("synthk-5-1", "782e864d3678a65e"),
        ("ablation-2-3-0.5", "4caeaa4207780dde"),
        ("timesynth-1000-2-2", "981066eed5612d78"),
        ("g2-2-30", "75303f0483dda2a9"),
    ],
)
def test_a_name_means_the_records_it_meant_when_this_was_written(name: str, digest: str) -> None:
    """Random words are exact on every machine. Rounding removes the differences of linear algebra.

    Before rounding, every cell of these sets is at least 9e-10 from the nearest number at which
    rounding changes. Two kinds of processors differ by 1e-14.
    """
    table, labels = generate_labelled(name)
    assert hashlib.sha256(table.values.tobytes() + labels.tobytes()).hexdigest()[:16] == digest


def test_replicates_and_families_are_different_records() -> None:
    names = ["synth-3-2-1", "synth-3-2-2", "synth-3-2-3", "synthk-3-1", "timesynth-10000-3-2"]
    for one, other in itertools.combinations(names, 2):
        assert not set(map(tuple, generate(one).values)) >= set(
            map(tuple, generate(other).values[:5])
        )


@pytest.mark.parametrize("name", ["synth-4-2-1", "synth-32-4-2", "synthk-100-3"])
def test_synth_has_sizes_in_the_ratio_of_their_numbers_and_at_most_a_hundred_outliers_among_its_records(
    name: str,
) -> None:
    _, labels = generate_labelled(name)
    k = n_clusters(name)
    sizes, n_outliers = np.bincount(labels[labels >= 0], minlength=k), (labels == -1).sum()
    assert n_outliers <= 100
    assert np.abs(sizes - (10_000 - n_outliers) * np.arange(1, k + 1) / (k * (k + 1) / 2)).max() < 1


def test_the_number_of_outliers_differs_from_set_to_set_but_not_between_replicates() -> None:
    counts = {
        (k, r): int((generate_labelled(f"synth-{k}-2-{r}")[1] == -1).sum())
        for k in range(2, 8)
        for r in (1, 2)
    }
    assert all(counts[k, 1] == counts[k, 2] for k in range(2, 8))
    assert len(set(counts.values())) > 2


@pytest.mark.parametrize("name", ["synth-2-2-1", "synth-4-4-2", "synthk-6-3"])
def test_synth_lies_between_partial_overlap_and_separation(name: str) -> None:
    table, labels = generate_labelled(name)
    measured = sample_separations(table.values, labels)
    assert measured.min() > 0.16 - 0.03
    assert measured.max() < 0.26 + 0.03
    assert np.ptp(measured) < 0.06  # one separation for all its clusters


@pytest.mark.parametrize("separation", ["0.25", "0.5", "0.75"])
@pytest.mark.parametrize(("k", "d"), [(2, 2), (4, 8), (16, 16)])
def test_ablation_has_its_separation_and_sizes_within_thirty_percent(
    k: int, d: int, separation: str
) -> None:
    table, labels = generate_labelled(f"ablation-{k}-{d}-{separation}")
    sizes = np.bincount(labels)
    assert len(sizes) == k
    assert sizes.min() >= 0.7 * 2048 / k
    assert sizes.max() <= 1.3 * 2048 / k
    assert 1433 <= len(table.values) <= 2662  # the paper's range
    assert sample_separations(table.values, labels) == pytest.approx(
        np.full(k, float(separation)), abs=0.06
    )


@given(st.integers(0, 10**6), st.lists(st.integers(1, 100), min_size=1, max_size=50))
def test_shares_add_up_and_none_is_a_record_off(n: int, ratio: list[int]) -> None:
    parts = shares(n, np.array(ratio))
    assert parts.sum() == n
    assert np.abs(parts - n * np.array(ratio) / sum(ratio)).max() < 1


def test_timesynth_is_balanced_and_without_outliers() -> None:
    _, labels = generate_labelled("timesynth-10000-5-2")
    assert np.array_equal(np.bincount(labels), [2000] * 5)


def test_g2_is_two_spherical_clusters_of_whole_numbers() -> None:
    table, labels = generate_labelled("g2-64-50")
    check_g2(table.values[labels == 0], table.values[labels == 1], 64, 50)


def check_g2(
    first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], d: int, deviation: float
) -> None:
    n = 1024 * d
    for group, mean in ((first, 500), (second, 600)):
        assert group.shape == (1024, d)
        assert np.array_equal(group, np.round(group))
        # cutting to whole numbers lowers the mean by a half; six standard errors, of the mean and
        # of the deviation
        assert abs(group.mean() - (mean - 0.5)) < 6 * deviation / np.sqrt(n)
        assert abs(group.std() - deviation) < 6 * deviation / np.sqrt(2 * n)


@pytest.mark.parametrize("deviation", [30, 50, 70])
def test_the_published_g2_sets_pass_the_same_check(deviation: int) -> None:
    folder = os.environ.get("FASTLLOYD_DATA")
    if not folder:
        pytest.skip("FASTLLOYD_DATA is not set: the published data sets are not at hand")
    with gzip.open(Path(folder) / f"g2-32-{deviation}.csv.gz", "rt") as file:
        published = np.loadtxt(file, delimiter=",")
    check_g2(published[:1024], published[1024:], 32, deviation)


def test_records_come_in_random_order() -> None:
    _, labels = generate_labelled("timesynth-10000-2-2")
    runs = 1 + (np.diff(labels) != 0).sum()
    # of fair coins: n / 2 + 1, with a standard deviation of sqrt(n) / 2
    assert abs(runs - 5001) < 6 * 50


@pytest.mark.parametrize(
    "name",
    [
        "synth-3-x-1",
        "synth-0-2-1",
        "synth-1-2-1",
        "synth-2-1-1",
        "synth-129-2-1",
        "synth-2-513-1",
        "synth-3-2",
        "synth-3-2-1-1",
        "synth-03-2-1",
        "synth--3-2-1",
        "synth-3-2-0",
        "synth-3-2-",
        "synth-",
        "synth-3-2-٣",
        "synth-3.0-2-1",
        "synthk-1-1",
        "ablation-2-2-1",
        "ablation-2-2-0.250",
        "ablation-2-2-.25",
        "ablation-2-2-0.96",
        "ablation-2-2--0.1",
        "timesynth-10-2-2",
        "timesynth-1e4-2-2",
        "g2-2",
        "g2-2000-30",
        "g2-2-0",
        "g2-2-99999999999999999999",
    ],
)
def test_nonsense_within_a_family_is_refused_with_its_pattern_and_ranges(name: str) -> None:
    assert is_generated(name)
    for call in (generate, n_clusters):
        with pytest.raises(DataError) as refused:
            call(name)
        (family,) = (family for family in FAMILIES if name.startswith(f"{family.word}-"))
        sentence = str(refused.value)
        assert sentence.startswith(f"there is no generated set {name!r}: in {family.pattern}, ")
        assert all(f"{parameter.letter} is a " in sentence for parameter in family.parameters)


@pytest.mark.parametrize("name", ["iris", "", "s1", "SYNTH-2-2-1", "birch2-25k", "synthetic-2-2-1"])
def test_a_name_of_no_family_is_none_and_the_refusal_lists_the_patterns(name: str) -> None:
    assert not is_generated(name)
    with pytest.raises(DataError, match="made like 'synth-K-D-R'"):
        generate(name)


def test_every_family_says_what_its_sets_are() -> None:
    assert [family.pattern for family in FAMILIES] == [
        "synth-K-D-R",
        "synthk-K-R",
        "ablation-K-D-S",
        "timesynth-N-K-D",
        "g2-D-S",
    ]
    for family in FAMILIES:
        assert len(family.text) > 40
        assert family.pattern.split("-") == [
            family.word,
            *(parameter.letter for parameter in family.parameters),
        ]
