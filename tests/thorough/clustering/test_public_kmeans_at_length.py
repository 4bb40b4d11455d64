"""The number of steps of k-means of public points."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest

from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering import public_kmeans
from fastlloyd.clustering.public_kmeans import _Lloyd


def _column(*numbers: float) -> FloatArray:
    return np.array(numbers, dtype=np.float64)[:, None]


@contextmanager
def _forced(compiled: bool) -> Iterator[None]:
    with mock.patch.object(public_kmeans, "_is_compiled", return_value=compiled):
        yield


def test_w33_no_step_is_left_out_where_the_points_have_come_to_rest() -> None:
    """Whoever adds the noise, and so knows it, must not learn from the time of a k-means what the
    noise hides.
    """
    pytest.importorskip("numba")
    from fastlloyd.clustering.compiled import public_kmeans as compiled

    counts = []
    for ends in ((0.0, 9.0), (0.5, 8.5)):  # the latter are the means already
        lloyd, made = (
            _Lloyd(_column(0, 1, 8, 9), np.ones(4)),
            mock.Mock(wraps=compiled._find_labels),
        )
        with _forced(True), mock.patch.object(compiled, "_find_labels", made):
            steps = cast("Any", compiled.lloyd_steps)._function  # the same function, in Python
            room = compiled.room_for_steps(lloyd._compiled_points[-1], 2)
            assert (
                steps(*lloyd._compiled_points, *room, _column(*ends), np.empty(4, np.int64), 7) == 8
            )
        counts.append(made.call_count)
    assert counts == [8, 8]
