"""Tests of the synthetic groups for MomentLloyd. Every set follows from its name, and its records
are within its bounds.
"""

import numpy as np
import pytest

from studies.groups import geometric_mean, summary
from studies.synthetic_groups import CASES, Case

CHEAP = [case for case in CASES if case.d <= 12 and case.n <= 5000]


def test_no_two_sets_share_a_name() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CHEAP, ids=lambda case: case.name)
def test_a_set_is_as_large_as_it_says_and_fills_the_declared_part_of_its_bounds(case: Case) -> None:
    problem = case.problem()
    assert problem.X.shape == (case.n, case.d)
    problem.domain.check_grid(problem.grid)
    np.testing.assert_allclose(np.ptp(problem.X, axis=0), 2 / case.width)
    assert len(np.unique(problem.X, axis=0)) >= case.k


def test_the_same_name_gives_the_same_records() -> None:
    one, other = (CHEAP[3].problem() for _ in range(2))
    np.testing.assert_array_equal(one.X, other.X)
    assert CHEAP[3].problem().digest != CHEAP[4].problem().digest


def test_a_group_is_summed_up_by_geometric_means_and_its_worst_set() -> None:
    cells = [
        {
            "group": "g",
            "set": name,
            "epsilon": 1.0,
            "momentlloyd": value,
            "fastlloyd-paper": 1.0,
            "fastlloyd-default": 2.0,
            "noisy-mean": 4.0,
        }
        for name, value in (("a", 0.5), ("b", 2.0))
    ]
    (found,) = summary(cells)
    assert found["sets"] == 2
    assert found["fastlloyd-paper"] == pytest.approx(1.0)
    assert found["noisy-mean"] == pytest.approx(0.25)
    assert found["fastlloyd-paper worst"] == (pytest.approx(2.0), "b")
    assert found["fastlloyd-paper above"] == 1
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
