"""Values outside the bounds: counted block by block, or refused with record and column and never the value."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.outside import Outside, records_outside
from fastlloyd.errors import DataError

DOMAIN = Domain(features=("age", "bmi"), lower=(0.0, 10.0), upper=(120.0, 60.0))
RECORDS = arrays(np.float64, st.tuples(st.integers(1, 9), st.just(2)), elements=st.floats(-5, 125))


@given(X=RECORDS, cut=st.integers(0, 9))
def test_the_count_is_that_of_records_that_clipping_changes_and_adds_up_over_blocks(
    X: npt.NDArray[np.float64], cut: int
) -> None:
    clipped = np.clip(X, DOMAIN.lower, DOMAIN.upper)
    n = records_outside(DOMAIN, X, Outside.CLIP, source="memory")
    assert n == (clipped != X).any(axis=1).sum()
    parts = [part for part in (X[:cut], X[cut:]) if len(part)]
    assert n == sum(records_outside(DOMAIN, np.asfortranarray(part), Outside.CLIP, source="memory") for part in parts)


@given(X=RECORDS, first=st.integers(1, 100))
def test_the_first_value_outside_is_refused_by_record_and_column_alone(X: npt.NDArray[np.float64], first: int) -> None:
    beyond = (DOMAIN.lower > X) | (DOMAIN.upper < X)
    if not beyond.any():
        assert records_outside(DOMAIN, X, Outside.REFUSE, source="memory", first=first) == 0
        return
    record, column = np.argwhere(beyond)[0]
    with pytest.raises(DataError) as refused:
        records_outside(DOMAIN, X, Outside.REFUSE, source="memory", first=first)
    assert str(refused.value) == (
        f"memory, record {first + record}, column {DOMAIN.features[column]!r}: the value lies outside the bounds; correct it, "
        "state wider bounds from public knowledge, or clip such values with --outside clip"
    )


def test_values_on_the_bounds_are_inside() -> None:
    X = np.array([[0.0, 10.0], [120.0, 60.0]])
    assert records_outside(DOMAIN, X, Outside.REFUSE, source="memory") == 0
