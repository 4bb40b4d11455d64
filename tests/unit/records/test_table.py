"""Tables in memory: finite numbers in named columns, and nothing else."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.records import Table, read_csv
from fastlloyd.records.table import joined
from record_files import SECRET, Matrix, matrices, refusal


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_w22_a_table_made_by_a_program_is_refused_too(bad: float) -> None:
    values = np.array([[1.0, 2.0], [3.0, bad]])
    sentence = refusal(lambda: Table(values=values, columns=("age", "bmi"), source="memory"))
    assert sentence == "memory, record 2, column 'bmi': not a finite number"


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        (np.zeros((2, 2), dtype=np.float32), ("a", "b")),
        (np.zeros((2, 2), dtype=np.int64), ("a", "b")),
        (np.full((2, 2), SECRET, dtype=object), ("a", "b")),
        (np.zeros(2), ("a", "b")),
        (np.zeros((2, 2, 1)), ("a", "b")),
        (np.zeros((0, 2)), ("a", "b")),
        (np.zeros((2, 0)), ()),
        (np.zeros((2, 2)), ("a",)),
        (np.zeros((2, 2)), ("a", "b", "c")),
        (np.zeros((2, 2)), ("a", "a")),
    ],
)
def test_w22_a_table_of_the_wrong_shape_or_dtype_is_refused(
    values: npt.NDArray[np.float64], columns: tuple[str, ...]
) -> None:
    assert refusal(lambda: Table(values=values, columns=columns, source="memory")).startswith(
        "memory: "
    )


def test_a_table_shows_no_value_and_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    path.write_text("a,b\n7777,2\n")
    table = read_csv(path)
    assert repr(table) == f"Table(columns=('a', 'b'), source={table.source!r})"
    with pytest.raises(ValueError, match="read-only"):
        table.values[0, 0] = 0.0
    own = np.zeros((1, 1))
    Table(values=own, columns=("a",), source="memory")
    own[0, 0] = 1.0  # the caller's array stays the caller's


@given(X=matrices(), cuts=st.lists(st.integers(0, 12), max_size=4), by_columns=st.booleans())
def test_blocks_are_joined_in_their_order_whatever_their_layout(
    X: Matrix, cuts: list[int], by_columns: bool
) -> None:
    blocks = [
        np.asarray(part, order="F" if by_columns else "C") for part in np.split(X, sorted(cuts))
    ]
    assert joined(blocks, X.shape[1]).tobytes() == X.tobytes()
