"""What a record says decides no path at the door: the same lines run wherever its values lie, and
whether one is missing.

A record that is left out costs a bounded extra of its own, and changes nothing for the others.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastlloyd.base.arrays import FloatArray
from fastlloyd.clustering.domain import Domain
from fastlloyd.clustering.grid_records import Block, Blocks, GridRecords, Outside
from fastlloyd.records import Missing, Table, arrow, numpy_files, open_records, parquet
from fastlloyd.records.table import ColumnBlock
from moment_situations import cube
from paths import computed, path_of
from record_files import pa, pq

N = 600
NAMES = ["a", "b", "c"]


def records_in_units() -> dict[str, FloatArray]:
    """Records (N, 3) with bounds -1 and 1: within them, outside, or one of them outside in one
    feature or far away in all.
    """
    within = np.random.default_rng(2).uniform(-1, 1, (N, 3))
    edge, far = within.copy(), within.copy()
    edge[N // 2, 1], far[3] = np.nextafter(1.0, 2), [-1e300, 1e300, -1e300]
    return {
        "within": within,
        "just beyond": edge,
        "far": far,
        "all outside": np.sign(within) * 5,
        "on the bounds": np.sign(within),
    }


@pytest.mark.parametrize("way", ["compiled", "plain"])
@pytest.mark.parametrize("kept", [0, 1 << 20], ids=["read anew", "kept"])
@pytest.mark.parametrize(
    "kind", ["table", "table by columns", "columns", "float32 columns", "Parquet", "text"]
)
def test_the_door_takes_the_same_path_for_records_within_the_bounds_and_outside(
    kind: str, kept: int, way: str, tmp_path: Path
) -> None:
    box = cube(3, 16)
    counted = {}

    def passes(X: FloatArray) -> GridRecords:
        return GridRecords(
            records_of(kind, X, tmp_path), box, Outside.CLIP, source="records", kept_cells=kept
        )

    def two_passes(records: GridRecords) -> None:
        for _ in range(2):
            assert sum(len(block) for block in records) == N

    with computed(way):
        paths = {}
        for name, X in records_in_units().items():
            two_passes(passes(X))  # what is imported at a first call
            records = passes(X)
            paths[name] = path_of(partial(two_passes, records))
            counted[name] = records.n_outside
    assert counted == {
        "within": 0,
        "just beyond": kind != "float32 columns",
        "far": 1,
        "all outside": N,
        "on the bounds": 0,
    }
    assert [name for name, path in paths.items() if path != paths["within"]] == []


def records_of(kind: str, X: FloatArray, folder: Path) -> Blocks:
    match kind:
        case "Parquet":
            pq.write_table(pa.table(list(X.T), names=NAMES), folder / "records.parquet")
            return open_records(folder / "records.parquet")
        case "text":
            np.savetxt(folder / "records.csv", X, delimiter=",", header="a,b,c", comments="")
            return open_records(folder / "records.csv")
        case "table" | "table by columns":
            return Table(
                values=X if kind == "table" else np.asfortranarray(X),
                columns=("a", "b", "c"),
                source="memory",
            )
    dtype = np.float32 if kind == "float32 columns" else np.float64
    with np.errstate(over="ignore"):
        narrow = np.clip(X, -1e30, 1e30).astype(dtype)
    return Columns(ColumnBlock([np.ascontiguousarray(column) for column in narrow.T]))


COLUMNAR: dict[str, Callable[[Path, FloatArray], object]] = {
    "floats.parquet": lambda path, X: pq.write_table(
        pa.table([pa.array(x, from_pandas=True) for x in X.T], names=NAMES), path
    ),
    "nan.parquet": lambda path, X: pq.write_table(pa.table(list(X.T), names=NAMES), path),
    "integers.parquet": lambda path, X: pq.write_table(
        pa.table(
            [pa.array(np.rint(9 * x), from_pandas=True).cast(pa.int16()) for x in X.T], names=NAMES
        ),
        path,
    ),
    "file.arrow": lambda path, X: _arrow(path, X, pa.ipc.new_file),
    "stream.arrow": lambda path, X: _arrow(path, X, pa.ipc.new_stream),
    "rows.npy": np.save,
    "columns.npy": lambda path, X: np.save(path, np.asfortranarray(X)),
    "columns.npz": lambda path, X: np.savez(path, **dict(zip(NAMES, X.T, strict=True))),
}


def _arrow(path: Path, X: FloatArray, new: Any) -> None:
    table = pa.table([pa.array(x, from_pandas=True) for x in X.T], names=NAMES)
    with new(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=200)


def gaps() -> dict[str, FloatArray]:
    """Records without a missing cell, and with some."""
    whole = np.random.default_rng(3).uniform(-1, 1, (N, 3))
    one, many = whole.copy(), whole.copy()
    one[N // 2, 1], many[::7] = np.nan, np.nan
    return {"none": whole, "one": one, "many": many}


@pytest.mark.parametrize("file", COLUMNAR)
def test_a_record_that_is_dropped_changes_no_path_of_those_that_stay(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several blocks: those with a gap beside those without."""
    for module in (arrow, numpy_files, parquet):
        monkeypatch.setattr(module, "BLOCK_CELLS", 600)
    monkeypatch.setattr(parquet, "_AHEAD", 1)
    paths = {}
    for name, X in gaps().items():
        COLUMNAR[file](tmp_path / file, X)
        n_records(tmp_path / file)  # what is imported at a first call
        paths[name] = path_of(partial(n_records, tmp_path / file))
        assert n_records(tmp_path / file) == (~np.isnan(X)).all(axis=1).sum()
    assert [name for name, path in paths.items() if path != paths["none"]] == []


def n_records(path: Path) -> int:
    """Read, and put on a grid, without those that have a gap."""
    file = open_records(path, missing=Missing.DROP)
    d = len(file.columns)
    domain = Domain(features=file.columns, lower=(-9.0,) * d, upper=(9.0,) * d)
    with computed("plain"):
        return sum(
            map(len, GridRecords(file, domain, Outside.CLIP, source="records", kept_cells=0))
        )


@pytest.mark.parametrize("n", [60, 600])
def test_a_missing_cell_of_text_costs_its_own_record_a_little_and_no_other_anything(
    n: int, tmp_path: Path
) -> None:
    """However many records stand in the same block."""
    path, steps = tmp_path / "x.csv", []
    for n_gaps in range(3):
        rows = [["0.5", "-1"] for _ in range(n)]
        for i in range(n_gaps):
            rows[n // 2 + 5 * i][i] = " NA"
        path.write_text("\n".join(["a,b", *map(",".join, rows)]))
        assert n_records(path) == n - n_gaps
        steps.append(Counter(path_of(partial(n_records, path))))
    assert not steps[0] - steps[1]  # all that is done without a gap is done with one
    assert (steps[1] - steps[0]).total() < 20
    assert steps[2] - steps[1] == steps[1] - steps[0]


@dataclass
class Columns:
    """One block of columns."""

    block: ColumnBlock
    n_rows: int | None = N
    n_ahead: int = 0

    def blocks_to_check(self) -> Iterator[Block]:
        yield 1, self.block

    def check(self, _block: Any, _first: int, /) -> None: ...

    def place(self, record: int, /) -> str:
        return str(record)
