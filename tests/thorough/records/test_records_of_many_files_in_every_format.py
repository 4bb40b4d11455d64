"""Folders, patterns and files of every format."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.records import open_records, read_table
from record_files import (
    NAMED,
    NAMELESS,
    SECRET,
    Matrix,
    formats,
    matrices,
    written,
)

FORMATS = {**NAMED, **NAMELESS}


def parts(
    folder: Path, kind: str, blocks: Sequence[Matrix], within: Sequence[str] = ("", "b/", "b/c/")
) -> list[Path]:
    """A file for each block of records, in folders one below another, in the order of their
    paths.
    """
    paths = []
    for i, block in enumerate(blocks):
        place = folder / within[min(i, len(within) - 1)]
        place.mkdir(parents=True, exist_ok=True)
        path = written(place, kind, block)
        paths.append(path.rename(path.with_name(f"a{i}{FORMATS[kind][0]}")))
    return paths


@pytest.mark.parametrize("kind", formats())
@settings(max_examples=10, deadline=None)
@given(X=matrices(), cut=st.integers(0, 12))
def test_a_folder_a_pattern_and_one_file_hold_the_same_records(
    tmp_path_factory: pytest.TempPathFactory, kind: str, X: Matrix, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("source")
    X = np.concatenate([X, X[::-1] / 2])
    files = parts(folder, kind, [X[: cut + 1], X[cut + 1 :]] if cut + 1 < len(X) else [X])
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.txt").write_text(SECRET)
    patterns = [folder / "**" / f"*{FORMATS[kind][0]}", folder / "[ab_]*"]
    sources: list[str | Path] = [folder, f"{folder}/", *patterns]
    for source in sources:
        records = open_records(source)
        assert [piece.path for piece in records.pieces] == list(map(str, files))
        for _ in range(2):
            assert np.concatenate(list(records.blocks())).tobytes() == X.tobytes()
        assert records.n_rows in (None, len(X))
        assert read_table(source).values.tobytes() == X.tobytes()
