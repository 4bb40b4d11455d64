"""Records of persons answer for persons only, as whole persons, and ids of all widths tell them
apart.
"""

from pathlib import Path

import numpy as np
import pytest

from designs import design_mechanism
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import DataError
from fastlloyd.federation.dealing import deal
from fastlloyd.mechanisms.answering import SharedRecords
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.records import read_table
from federation import make_plan
from record_files import pa, pq

BOX = Domain(features=("x", "y"), lower=(-1.0,) * 2, upper=(1.0,) * 2)
X = np.zeros((3, 2), dtype=np.int32)
IDS = [b"a", b"a", b"b"]


def mechanism(persons: Persons | None) -> Mechanism:
    seed = PublicSeed.from_int(1)
    return design_mechanism(
        MOMENTLLOYD,
        BOX,
        n_clusters=2,
        n_records=100,
        epsilon=1.0,
        public_seed=seed,
        persons=persons,
    )


def test_records_of_persons_are_not_split_row_by_row() -> None:
    """Their answers, in shares, would pass for those of single records, whose noise is that of one
    share.
    """
    records = SharedRecords.of_persons(mechanism(Persons()), X, IDS)
    with pytest.raises(DataError, match="separate the records"):
        deal(make_plan(2), records)


def test_no_shares_are_spread_for_a_mechanism_that_protects_single_records() -> None:
    with pytest.raises(DataError, match="protects single records"):
        SharedRecords.of_persons(mechanism(None), X, IDS)


def written(folder: Path, name: str, ids: list[int], *, signed: bool) -> None:
    kind = pa.int64() if signed else pa.uint64()
    pq.write_table(
        pa.table({"id": pa.array(ids, kind), "x": [0.5] * len(ids)}), folder / f"{name}.parquet"
    )


@pytest.mark.parametrize("first", [2**53, 2**63 - 1])
def test_integer_ids_of_both_kinds_stay_apart(tmp_path: Path, first: int) -> None:
    """Floats, which NumPy joins them as, would make one person of two."""
    ids = [first - 1, first, first]
    written(tmp_path, "a", ids, signed=True)
    written(tmp_path, "b", [*ids, first + 1], signed=False)
    found = read_table(tmp_path, unit="id").ids
    assert found is not None
    assert list(map(int, found.texts())) == [*ids, *ids, first + 1]


def test_integer_ids_that_no_type_holds_together_are_refused(tmp_path: Path) -> None:
    written(tmp_path, "a", [-1], signed=True)
    written(tmp_path, "b", [3], signed=False)
    found = read_table(tmp_path, unit="id").ids
    assert found is not None
    assert found.texts() == [b"-1", b"3"]
    written(tmp_path, "c", [2**63], signed=False)
    with pytest.raises(DataError, match="write all ids"):
        read_table(tmp_path, unit="id")
