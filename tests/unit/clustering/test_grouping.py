"""Records brought together by their keys: each once, in their order, by compiled code or
without.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.clustering import grouping
from fastlloyd.clustering.grouping import grouped


@pytest.mark.parametrize("is_compiled", [True, False])
@given(
    keys=st.lists(st.sampled_from([0, 1, 2, 7, 255, 256, 1023, 65535]), max_size=40),
    d=st.sampled_from([1, 2, 5, 32, 33]),
    order=st.sampled_from(["C", "F"]),
    dtype=st.sampled_from([np.int32, np.int64]),
)
def test_each_record_is_in_the_group_of_its_key(
    is_compiled: bool, keys: list[int], d: int, order: str, dtype: type[np.int32 | np.int64]
) -> None:
    X = np.array(np.arange(len(keys) * d).reshape(-1, d), dtype=dtype, order=order)  # type: ignore[call-overload]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "is_compiled", lambda _: is_compiled)
        found = list(grouped(X, np.array(keys, dtype=np.uint16)))
    assert [key for key, _ in found] == sorted(set(keys))
    for key, rows in found:
        assert rows.dtype == dtype
        assert (rows == X[np.array(keys) == key]).all()
