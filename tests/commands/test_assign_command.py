"""`fastlloyd assign`: labels of the owner's records."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import (
    FIT,
    PUBLIC,
    SECRET_NUMBER,
    SECRET_TEXT,
    Command,
    refused,
    strict,
    tree,
)
from fastlloyd.evaluation import labels
from fastlloyd.testing import SeededNoise, repeatable_noise


def test_assign_labels_records_by_the_nearest_centroid_of_the_file(
    fastlloyd: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With seeded noise, so that no record comes by chance so near a border that rounding to the
    grid decides.
    """
    monkeypatch.setattr("fastlloyd.jobs.fit.SystemNoise", lambda: SeededNoise(1))
    with repeatable_noise():
        assert fastlloyd(*FIT, "--epsilon", "5", "--public-seed", "1", "--out", "result").code == 0
    code, out, err = fastlloyd("assign", "result", "data.csv", "--distance")
    assert code == 0
    assert "NOT PRIVATE" in err
    header, *rows = (line.split(",") for line in out.splitlines())
    assert header == ["record", "cluster", "distance", "privacy"]
    assert [int(row[0]) for row in rows] == list(range(1, 301))
    X = np.loadtxt("data.csv", delimiter=",", skiprows=1)
    centroids = np.array(
        [
            cluster["centroid"]
            for cluster in strict(Path("result/centroids.json").read_text())["clusters"]
        ]
    )
    scaled = (X[:, None, :] - centroids) / np.array([50, 2.5])
    distances = np.sqrt((scaled**2).sum(axis=2))
    assert [int(row[1]) for row in rows] == distances.argmin(axis=1).tolist()
    assert np.allclose([float(row[2]) for row in rows], distances.min(axis=1), atol=1e-4)
    assert {row[3] for row in rows} == {"NOT PRIVATE"}


@pytest.mark.parametrize(
    "command", [FIT, ("simulate", "data.csv", *PUBLIC, "--clients", "3")], ids=["fit", "simulate"]
)
def test_columns_are_found_by_name_in_any_order_and_others_are_ignored(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    assert fastlloyd(*command, "--out", "result").code == 0
    X = np.loadtxt("data.csv", delimiter=",", skiprows=1)
    names = [f"{SECRET_TEXT}{i}" for i in range(len(X))]
    rows = [f"{dose!r},{name},{age!r}" for (age, dose), name in zip(X.tolist(), names, strict=True)]
    (here / "other.csv").write_text("\n".join(["dose,name,age", *rows]))
    straight = fastlloyd("assign", "result", "data.csv").out
    monkeypatch.setattr(labels, "BLOCK_ROWS", 64)
    assert fastlloyd("assign", "result/centroids.csv", "other.csv", "--out", "labels.csv").code == 0
    assert Path("labels.csv").read_text() == straight
    assert straight.splitlines()[0] == "record,cluster,privacy"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("rows_at_once", [2, 1 << 16])
def test_records_with_missing_cells_keep_their_row_without_a_label_on_request(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, rows_at_once: int
) -> None:
    monkeypatch.setattr(labels, "BLOCK_ROWS", rows_at_once)
    assert fastlloyd(*FIT, "--out", "result").code == 0
    (here / "whole.csv").write_text("age,dose\n20,1\n80,2\n50,4\n")
    (here / "gaps.csv").write_text("age,dose\nNA,1\n20,1\n,\n80,2\n50,4\n30,?\n")
    if suffix == ".parquet":
        cells = {"age": [None, 20, None, 80, 50, 30], "dose": [1, 1, None, 2, 4, None]}
        importlib.import_module("pyarrow.parquet").write_table(
            importlib.import_module("pyarrow").table(cells), here / "gaps.parquet"
        )
    gaps = f"gaps{suffix}"
    refused(
        fastlloyd("assign", "result", gaps, "--out", "labels.csv"), "column 'age'", "--missing drop"
    )
    for more in ((), ("--distance",)):
        _, whole, _ = fastlloyd("assign", "result", "whole.csv", *more)
        code, out, err = fastlloyd("assign", "result", gaps, "--missing", "drop", *more)
        assert code == 0
        assert (
            "Note: 3 of your records have missing cells, and so no label. This number is exact"
            in err
        )
        numbers, rows = zip(*(line.split(",", 1) for line in out.splitlines()), strict=True)
        assert numbers == ("record", *"123456")
        empty = ",NOT PRIVATE" if not more else ",,NOT PRIVATE"
        assert [row for row in rows if row.startswith(",")] == [empty] * 3
        kept = [row for row in rows if not row.startswith(",")]
        assert kept == [line.split(",", 1)[1] for line in whole.splitlines()]
    refused(fastlloyd("assign", "result", gaps, "--missing", "fill"), "missing 'fill' is unknown")


def test_values_outside_the_bounds_are_clipped_and_counted_on_the_owners_screen(
    fastlloyd: Command, here: Path
) -> None:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    (here / "new.csv").write_text("age,dose\n1000,2\n100,2\n-5,9\n50,2\n")
    code, out, err = fastlloyd("assign", "result", "new.csv")
    assert code == 0
    first, second = (row.split(",")[1] for row in out.splitlines()[1:3])
    assert first == second  # 1000 is clipped to 100
    assert "Note: 2 of your records" in err


def test_a_file_of_labels_is_replaced_on_request_only_and_nothing_else_is(
    fastlloyd: Command, here: Path
) -> None:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    assign = ("assign", "result", "data.csv", "--out")
    assert fastlloyd(*assign, "labels.csv").code == 0
    before = tree(here)
    refused(fastlloyd(*assign, "labels.csv"), "--force")
    refused(fastlloyd(*assign, "data.csv", "--force"), "not replaced")
    refused(fastlloyd(*assign, "result", "--force"), "result")
    refused(fastlloyd(*assign, "none/labels.csv"), "none/labels.csv")
    refused(fastlloyd(*assign[:-1], "--force"), "--out")
    assert tree(here) == before
    assert fastlloyd(*assign, "labels.csv", "--force", "--distance").code == 0
    assert Path("labels.csv").read_text().startswith("record,cluster,distance,privacy\n")


def test_records_that_fail_half_way_leave_no_file(
    fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastlloyd.errors import DataError

    assert fastlloyd(*FIT, "--out", "result").code == 0
    before = tree(here)

    def blocks(*_: object) -> Any:
        yield np.array([[20.0, 1.0]])
        raise DataError("data.csv, line 3: not a number")

    monkeypatch.setattr(labels, "record_blocks", blocks)
    refused(fastlloyd("assign", "result", "data.csv", "--out", "labels.csv"), "line 3")
    assert tree(here) == before


REFUSED_RECORDS = {
    "no such file": (None, "no such file"),
    "a column is missing": (f"age,name\n1,{SECRET_TEXT}\n", "'dose'"),
    "a column is misspelt": (
        "age,dosis\n1,2\n",
        "there is no column 'dose' (did you mean 'dosis'?)",
    ),
    "text": (f"age,dose\n{SECRET_NUMBER},1\n{SECRET_TEXT},2\n", "line 3"),
    "missing cell": (f"age,dose\n{SECRET_NUMBER},\n", "missing"),
    "not finite": (f"age,dose\n{SECRET_NUMBER},inf\n", "not a finite number"),
    "empty": ("", "empty"),
}


@pytest.mark.parametrize("case", REFUSED_RECORDS)
def test_records_that_cannot_be_labelled_are_refused(
    fastlloyd: Command, here: Path, case: str
) -> None:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    content, fragment = REFUSED_RECORDS[case]
    if content is not None:
        (here / "bad.csv").write_text(content)
    before = tree(here)
    refused(fastlloyd("assign", "result", "bad.csv", "--out", "labels.csv"), fragment)
    refused(fastlloyd("assign", "result", "bad.csv"), fragment)
    assert tree(here) == before


def test_a_result_that_is_none_or_was_tampered_with_is_refused(
    fastlloyd: Command, here: Path
) -> None:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    refused(fastlloyd("assign", "none", "data.csv"), "not a result")
    refused(fastlloyd("assign", ".", "data.csv"), "not a result")
    refused(fastlloyd("assign", "data.csv", "data.csv"), "data.csv is not a result")
    settings = here / "result" / "mechanism.toml"
    text = settings.read_text()
    settings.write_text(text.replace("n_expected = 500", "n_expected = 501"))
    refused(fastlloyd("assign", "result", "data.csv"), "changed after it was made")
    settings.write_bytes(b"\x80\x81")
    refused(fastlloyd("assign", "result", "data.csv"), "not a text file")
    settings.unlink()
    refused(fastlloyd("assign", "result", "data.csv"), "neither")


def test_labels_go_to_a_file_that_says_csv_and_a_missing_cell_is_refused_with_the_option_that_helps(
    fastlloyd: Command, here: Path
) -> None:
    assert fastlloyd(*FIT, "--epsilon", "1", "--out", "result").code == 0
    refused(
        fastlloyd("assign", "result", "data.csv", "--out", "labels.parquet"),
        "labels are written as CSV",
        "labels.csv",
    )
    (here / "holes.csv").write_text("age,dose\n1,\n")
    outcome = fastlloyd("assign", "result", "holes.csv", "--out", "labels.csv")
    refused(outcome, "holes.csv, line 2, column 'dose': the cell is missing")
    assert "--missing drop" in outcome.err
    assert not Path("labels.parquet").exists()
    assert not Path("labels.csv").exists()
