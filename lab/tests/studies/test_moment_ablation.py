"""Tests of the study of parts of MomentLloyd. Leaving out a part changes some result, and the part
is restored afterwards.
"""

import math

import numpy as np
import pytest

from fastlloyd.mechanisms.moment_lloyd import start
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import StepRound
from fastlloyd.mechanisms.moment_lloyd.state import Noisy, State
from fastlloyd.mechanisms.moment_lloyd.steps import sizes
from fastlloyd.mechanisms.queries.query import Query
from studies.moment_ablation import GROUPS, PARTS, WIDTHS, _as_counted, _as_voted, ratio, trial
from studies.synthetic_groups import CASES

SEEN = [
    ("bounds 10 times too wide", "bounds 10 times too wide-clusters-3-4-1000", 0.2),
    ("some features", "some features-clusters-4-8-2000", 1.0),
    ("many features", "many features-clusters-64-5-3000", 1.0),
]


@pytest.fixture(scope="module")
def whole() -> list[float]:
    return [trial(("", *each, 0))[2] for each in SEEN]


@pytest.mark.parametrize("part", PARTS)
def test_without_a_part_some_result_is_another_one_and_then_all_are_as_before(
    part: str, whole: list[float]
) -> None:
    assert [trial((part, *each, 0))[2] for each in SEEN] != whole
    assert trial(("", *SEEN[0], 0))[2] == whole[0]


def test_offsets_that_only_the_bounds_clip_are_clipped_at_half_the_diagonal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, int]] = []
    query = StepRound.query

    def noted(round: StepRound, m: MomentMechanism, state: State) -> Query:
        asked.append((round.clips_at(m, state), math.isqrt(m.domain.squared_half_diagonal)))
        return query(round, m, state)

    monkeypatch.setattr(StepRound, "query", noted)
    trial(("offsets clipped by the bounds only", *SEEN[0], 0))
    assert len(asked) > 1
    assert all(radius == most for radius, most in asked)
    asked.clear()
    trial(("", *SEEN[0], 0))
    assert all(radius < most / 3 for radius, most in asked)


def test_counts_and_votes_that_are_not_shrunk_keep_all_else() -> None:
    counts = np.array([[70.0], [20.0], [-6.0]])
    # the floor: half a deviation
    np.testing.assert_allclose(_as_counted(Noisy(counts, 8.0), 90.0), [72.0, 22.0, 4.0])
    np.testing.assert_allclose(
        sizes(Noisy(counts, 1e-9), 90.0), _as_counted(Noisy(counts, 1e-9), 90.0)
    )
    votes, expected = Noisy(np.array([[30.0], [5.0], [1.0]]), 4.0), np.full(3, 12.0)
    h, factor = _as_voted(votes, expected)
    np.testing.assert_array_equal(h, [30.0, 5.0, 1.0])
    assert 0 < factor == start.shrunk(votes, expected)[1] < 1


def test_every_set_has_its_column() -> None:
    cases = [case for case in CASES if case.group in GROUPS]
    assert {case.group for case in cases} == set(GROUPS)
    assert all(sum(case.d in width for width in WIDTHS.values()) == 1 for case in cases)


def test_a_ratio_is_of_means_in_geometric_mean_over_cells() -> None:
    without = {("a", 1.0): [2.0, 4.0], ("b", 1.0): [8.0, 8.0]}
    whole = {("a", 1.0): [1.0, 2.0], ("b", 1.0): [1.0, 1.0]}
    assert ratio(without, whole, list(whole)) == "4.000 ± 0.000"
    assert ratio(whole, whole, list(whole)) == "-"
    noisy = {("a", 1.0): list(np.linspace(1.0, 3.0, 50))}
    found, error = ratio(noisy, {("a", 1.0): [1.0] * 50}, [("a", 1.0)]).split(" ± ")
    assert float(found) == pytest.approx(2.0)
    assert float(error) == pytest.approx(np.std(noisy["a", 1.0]) / 50**0.5, rel=0.25)
