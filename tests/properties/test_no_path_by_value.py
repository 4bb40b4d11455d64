"""What a record says decides no path: the same lines run, and call the same compiled code, whatever the records are.

Asked of every query, for records that lie together, in the corners of the box, all in one point, and for a single outlier.
So the time of an answer tells the number of records and public numbers, up to what the processor makes of values.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from fastlloyd.clustering import domain as domains
from fastlloyd.clustering import kernels
from fastlloyd.clustering.acceleration import is_compiled
from fastlloyd.clustering.domain import Domain, FloatArray, GridArray, finest_bits
from fastlloyd.clustering.outside import Outside
from fastlloyd.errors import PlanError
from fastlloyd.grid_records import Block, Blocks, GridRecords
from fastlloyd.moments import cores, offsets
from fastlloyd.moments.asking import ask
from fastlloyd.moments.parameters import Value
from fastlloyd.moments.spaces import Subspace
from fastlloyd.moments.votes import Votes
from fastlloyd.queries import ClippedLoss, Moments, Query, RelativeMoments
from fastlloyd.records import Table, open_records
from fastlloyd.records.column_block import ColumnBlock
from moment_situations import cube, questions
from paths import path_of
from record_files import pa, pq

N = 600
PLAIN = {"_plain_statistics", "_plain_labels", "_plain_sums", "_plain_grid"}
COMPILED = {"_compiled_statistics", "_feature_statistics", "_compiled_labels", "_compiled_sums", "_compiled_grid"}


@contextmanager
def computed(way: str) -> Iterator[None]:
    """By compiled code or without, whatever this process has computed before; in one thread, which is watched."""
    if way == "compiled":
        pytest.importorskip("numba")
        assert is_compiled(1 << 40)
    with mock.patch.dict("os.environ", OMP_NUM_THREADS="1"):
        patches = [
            mock.patch.object(module, "is_compiled", return_value=way == "compiled")
            for module in (kernels, cores, offsets, domains)
        ]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()


def grids(domain: Domain) -> dict[str, GridArray]:
    """Grid points (N, d) of the domain: ordinary ones, and others."""
    B, d, generator = domain.half_widths, domain.n_features, np.random.default_rng(0)
    ordinary = np.rint(generator.normal(0, 0.1, (N, d)) * B).astype(np.int32)
    corners = (B * generator.choice([-1, 1], (N, d))).astype(np.int32)
    outlier = ordinary.copy()
    outlier[N // 2] = B
    one = np.repeat(ordinary[:1], N, axis=0)
    all_of = {"ordinary": ordinary, "outlier": outlier, "corners": corners, "one point": one, "centre": 0 * one}
    return {name: np.asfortranarray(X) if d <= domains.FEW_FEATURES else X for name, X in all_of.items()}


def queries(domain: Domain) -> list[Query]:
    B, d, generator = domain.half_widths, domain.n_features, np.random.default_rng(1)
    C = np.rint(generator.uniform(-0.5, 0.5, (10, d)) * B).astype(np.int64)
    asked: list[Query] = [
        Moments(C, 2, B),
        RelativeMoments(C, int(B[0]) ** 2 // 4, 2, B),
        ClippedLoss(C, 1 << 10, 2 * domain.fraction_bits - 8),
    ]
    asked_of_moments = questions(domain, units=1 << 10, count_bits=2, k=300)
    if d >= 16 and domain.fraction_bits == 16:  # as MomentLloyd asks for votes: no 4,096 candidates share a key there
        asked_of_moments.append(Votes(space=Subspace(domain=domain, n_directions=8), n_candidates=4096))
    for question in asked_of_moments:
        values: dict[str, Value] = {}
        for parameter in question.parameters:
            if parameter.shape == ():
                values[parameter.name] = int(B[0])
            elif parameter.column_square is not None:
                values[parameter.name] = np.eye(*parameter.shape, dtype=np.int64) << 20
            else:
                values[parameter.name] = np.rint(generator.uniform(-0.5, 0.5, parameter.shape) * B[0]).astype(np.int64)
        asked.append(ask(question, **values))
    return asked


def records_in_units() -> dict[str, FloatArray]:
    """Records (N, 3) with bounds -1 and 1: within them, outside, or one of them outside in one feature or far away in all."""
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
@pytest.mark.parametrize("kind", ["table", "table by columns", "columns", "float32 columns", "Parquet", "text"])
def test_the_door_takes_the_same_path_for_records_within_the_bounds_and_outside(
    kind: str, kept: int, way: str, tmp_path: Path
) -> None:
    box = cube(3, 16)
    counted = {}

    def passes(X: FloatArray) -> GridRecords:
        return GridRecords(records_of(kind, X, tmp_path), box, Outside.CLIP, source="records", kept_cells=kept)

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
    assert counted == {"within": 0, "just beyond": kind != "float32 columns", "far": 1, "all outside": N, "on the bounds": 0}
    assert [name for name, path in paths.items() if path != paths["within"]] == []


def records_of(kind: str, X: FloatArray, folder: Path) -> Blocks:
    match kind:
        case "Parquet":
            pq.write_table(pa.table(list(X.T), names=["a", "b", "c"]), folder / "records.parquet")
            return open_records(folder / "records.parquet")
        case "text":
            np.savetxt(folder / "records.csv", X, delimiter=",", header="a,b,c", comments="")
            return open_records(folder / "records.csv")
        case "table" | "table by columns":
            return Table(values=X if kind == "table" else np.asfortranarray(X), columns=("a", "b", "c"), source="memory")
    dtype = np.float32 if kind == "float32 columns" else np.float64
    with np.errstate(over="ignore"):
        narrow = np.clip(X, -1e30, 1e30).astype(dtype)
    return Columns(ColumnBlock([np.ascontiguousarray(column) for column in narrow.T]))


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


def finest_cube(d: int) -> Domain:
    """The finest grid on which all queries may be asked, those in three directions too."""
    for bits in range(finest_bits(d), 0, -1):
        with suppress(PlanError):
            Subspace(domain=cube(d, bits), n_directions=min(d, 3))
            return cube(d, bits)
    raise AssertionError


@pytest.mark.parametrize("way", ["compiled", "plain"])
@pytest.mark.parametrize("finest", [False, True], ids=["16 bits", "finest grid"])
@pytest.mark.parametrize("d", [1, 2, 16, 64])
def test_every_query_takes_the_same_path_whatever_the_records_say(d: int, finest: bool, way: str) -> None:
    box = finest_cube(d) if finest else cube(d, 16)
    records = grids(box)
    with computed(way):
        for query in queries(box):
            query.evaluate(records["ordinary"])  # what is imported at a first call
            paths = {name: path_of(partial(query.evaluate, X)) for name, X in records.items()}
            assert paths["ordinary"]
            assert [name for name, path in paths.items() if path != paths["ordinary"]] == [], query
            done = {step.function for step in paths["ordinary"]}
            assert done.isdisjoint(PLAIN if way == "compiled" else COMPILED)
