"""Spans of the records shared out among cores, for work that is NumPy's and BLAS's."""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from fastlloyd.clustering import kernels
from fastlloyd.clustering.acceleration import is_compiled
from fastlloyd.clustering.domain import GridArray, IntArray, is_by_feature

_T = TypeVar("_T")


def on_all_cores(of_span: Callable[[int, int], _T], X: GridArray) -> list[_T]:
    """What `of_span` finds for spans that cover all records of X, in any order.

    With many features there is one span: its products keep all cores busy by themselves, and the answers of many spans would
    fill the memory.
    """
    if not (is_by_feature(X) and is_compiled(X.size)):  # with which threads come
        return [of_span(0, len(X))]
    with kernels.one_blas_thread():
        return kernels.on_all_cores(of_span, X, 1, compiled=True)


def sum_on_all_cores(of_span: Callable[[int, int], IntArray], X: GridArray) -> IntArray:
    """The sum of what it finds: integers, for which neither order nor number of the spans matters."""
    total: IntArray = np.sum(on_all_cores(of_span, X), axis=0, dtype=np.int64)
    return total
