"""Mistakes that would be easy to make: each is made here, and a test named beside it finds it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import test_bounds_federated
import test_bounds_histograms
import test_bounds_reading

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.mechanisms.bounds import mechanism, reading
from fastlloyd.mechanisms.bounds.reading import Interval, Levels, Thresholds
from fastlloyd.mechanisms.queries.histograms import Histograms


def by_a_float(question: Histograms, x: GridArray, start: int, step: int) -> IntArray:
    leaves: IntArray = np.clip(
        np.floor((x - start) * (1.0 / step)), 0, question.n_leaves - 1
    ).astype(np.int64)
    return leaves


def above_the_edge(question: Histograms, x: GridArray, start: int, step: int) -> IntArray:
    return np.clip(-((start - x.astype(np.int64)) // step), 0, question.n_leaves - 1)


def with_what_was_cut(levels: Levels, thresholds: Thresholds, **_: bool) -> Interval | None:
    return reading.interval(levels, thresholds, open_below=True, open_above=True)


def with_a_lower_threshold(levels: Levels, thresholds: Thresholds, **ends: bool) -> Interval | None:
    return reading.interval(levels, Thresholds(thresholds.node - 1, thresholds.outside), **ends)


MUTANTS: dict[str, tuple[object, str, Any, Callable[[], None]]] = {
    "thresholds rounded down": (
        reading, "_up", lambda _, value: int(value),
        test_bounds_reading.test_a_threshold_that_is_no_integer_is_not_rounded_down,
    ),
    "leaves by a quotient of floats": (
        Histograms, "_leaves", by_a_float,
        partial(test_bounds_histograms.test_a_record_at_an_edge_is_in_the_leaf_above_and_one_unit_below_it_is_not, 49),
    ),
    "an edge in the leaf below": (
        Histograms, "_leaves", above_the_edge,
        partial(test_bounds_histograms.test_a_record_at_an_edge_is_in_the_leaf_above_and_one_unit_below_it_is_not, 3),
    ),
    "a server that adds the noise": (
        mechanism.BoundsMechanism, "bears_server_noise", True,
        test_bounds_federated.test_a_server_that_adds_the_noise_is_refused_with_the_reason,
    ),
    "what was cut counts as inside": (
        test_bounds_reading, "interval", with_what_was_cut,
        test_bounds_reading.test_what_was_cut_belongs_to_no_interval_unless_the_range_ends_there,
    ),
    "a node at the threshold counts": (
        test_bounds_reading, "interval", with_a_lower_threshold,
        test_bounds_reading.test_a_node_at_its_threshold_is_not_above_it,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, mutant, finds = MUTANTS[name]
    finds()
    monkeypatch.setattr(place, attribute, mutant)
    # of the cached function in the class method
    Thresholds.of.__func__.cache_clear()  # type: ignore[attr-defined]
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        finds()
    Thresholds.of.__func__.cache_clear()  # type: ignore[attr-defined]  # the same
