"""The ablation of MomentLloyd: each part that is left out matters somewhere, and is back afterwards."""

import numpy as np
import pytest
from benchmarks.moment_ablation import GROUPS, PARTS, WIDTHS, ratio, trial
from benchmarks.synthetic_groups import CASES

SEEN = [
    ("bounds 10 times too wide", "bounds 10 times too wide-clusters-3-4-1000", 0.2),
    ("some features", "some features-clusters-4-8-2000", 1.0),
    ("many features", "many features-clusters-64-5-3000", 1.0),
]


@pytest.fixture(scope="module")
def whole() -> list[float]:
    return [trial(("", *each, 0))[2] for each in SEEN]


@pytest.mark.parametrize("part", PARTS)
def test_without_a_part_some_result_is_another_one_and_then_all_are_as_before(part: str, whole: list[float]) -> None:
    assert [trial((part, *each, 0))[2] for each in SEEN] != whole
    assert trial(("", *SEEN[0], 0))[2] == whole[0]


def test_every_set_has_its_column() -> None:
    cases = [case for case in CASES if case.group in GROUPS]
    assert {case.group for case in cases} == set(GROUPS)
    assert all(sum(case.d in width for width in WIDTHS.values()) == 1 for case in cases)


def test_a_ratio_is_of_means_in_geometric_mean_over_cells() -> None:
    without = {("a", 1.0): [2.0, 4.0], ("b", 1.0): [8.0, 8.0]}
    whole = {("a", 1.0): [1.0, 2.0], ("b", 1.0): [1.0, 1.0]}
    assert ratio(without, whole, list(whole)) == "4.000 ± 0.000"
    noisy = {("a", 1.0): list(np.linspace(1.0, 3.0, 50))}
    found, error = ratio(noisy, {("a", 1.0): [1.0] * 50}, [("a", 1.0)]).split(" ± ")
    assert float(found) == pytest.approx(2.0)
    assert float(error) == pytest.approx(np.std(noisy["a", 1.0]) / 50**0.5, rel=0.25)
