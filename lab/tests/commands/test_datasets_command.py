"""Tests of the command `fastlloyd datasets`: its lists, its descriptions of sets, downloads and
refusals.
"""

import gzip
import hashlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fastlloyd.cli.failures import REFUSED, run
from fastlloyd.errors import DataError
from fastlloyd.records import Table
from fastlloyd_lab.datasets import CATALOGUE, DataSet, homes, values_digest


@pytest.fixture(autouse=True)
def _sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a folder with a user's own set and an `iris` with other values, an empty cache, and
    one family of generated sets.
    """
    rows = ""
    for name, text in (("mine", b"1,2\n3,4\n"), ("iris", b"1,2\n")):
        packed = gzip.compress(text, mtime=0)
        (tmp_path / f"{name}.csv.gz").write_bytes(packed)
        rows += f"{name},2,{hashlib.sha256(packed).hexdigest()}\n"
    (tmp_path / "MANIFEST.csv").write_text("name,k,sha256\n" + rows)
    monkeypatch.setenv("FASTLLOYD_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(homes, "_cache_folder", lambda: tmp_path / "cache")
    generator = SimpleNamespace(
        FAMILIES=(SimpleNamespace(pattern="made-N", text="N zeros in one column"),),
        is_generated=lambda name: name.startswith("made-"),
        generate=lambda name: Table(
            values=np.zeros((int(name[5:]), 1)), columns=("x1",), source="generated"
        ),
        n_clusters=lambda _: 1,
    )
    for user in ("fastlloyd_lab.datasets", "fastlloyd_lab.datasets.named"):
        monkeypatch.setattr(f"{user}.synthetic", generator)


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["datasets", *arguments]) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_list_has_every_set_where_it_is_and_every_family(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = said(capsys, "list")
    rows = {
        cells[0]: cells
        for line in shown.splitlines()
        if len(cells := re.split(r"\s{2,}", line.strip())) > 1
    }
    assert rows["mine"] == ["mine", "-", "-", "2", "folder"]
    assert rows["s1"] == ["s1", "5,000", "2", "15", "to be fetched"]
    assert rows["made-N"] == ["made-N", "N zeros in one column"]
    assert set(rows) >= {*CATALOGUE, "mine", "made-N"}


def test_list_gives_programs_what_it_shows_people(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(said(capsys, "list", "--json"))
    by_name = {row["name"]: row for row in listed["data_sets"]}
    assert list(by_name)[:2] == ["mine", "iris"]
    assert (by_name["mine"]["here"], by_name["mine"]["n_records"]) == ("folder", None)
    assert (by_name["s1"]["here"], by_name["s1"]["n_records"]) == (None, 5000)
    assert listed["families"] == [{"pattern": "made-N", "text": "N zeros in one column"}]


def test_show_says_whose_a_set_is_and_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    shown = said(capsys, "show", "s1")
    entry = CATALOGUE["s1"]
    assert shown.startswith("s1: 5,000 records of 2 features; usually 15 clusters.\n")
    for part in (
        entry.about,
        entry.citation,
        entry.licence,
        entry.changes,
        entry.digest,
        *(h.address for h in entry.homes),
    ):
        assert part in shown
    assert shown.endswith("Here: not yet; fastlloyd datasets fetch s1\n")
    assert json.loads(said(capsys, "show", "s1", "--json"))["here"] is None


def test_show_says_whether_the_values_here_are_the_published_ones(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = said(capsys, "show", "iris")
    assert shown.startswith("iris: 1 records of 2 features; usually 2 clusters.\n")
    assert shown.endswith(f"Here: {tmp_path / 'iris.csv.gz'}, OTHER values than published\n")
    here = json.loads(said(capsys, "show", "iris", "--json"))["here"]
    assert here["as_published"] is False
    assert here["values_digest"] == values_digest(np.array([[1.0, 2.0]]))


def test_show_of_wine_finds_scikit_learns_copy_as_published(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("sklearn", reason="the bundled data sets ship with scikit-learn")
    assert said(capsys, "show", "wine").endswith(
        "Here: sklearn.datasets.load_wine, values as published\n"
    )


def test_show_of_ones_own_and_of_generated_sets_has_their_digests(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    digest = values_digest(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert (
        said(capsys, "show", "mine")
        == f"mine: 2 records of 2 features; usually 2 clusters.\nHere: {tmp_path / 'mine.csv.gz'},"
        f" values digest {digest}\n"
    )
    assert f"Here: generated, values digest {values_digest(np.zeros((3, 1)))}" in said(
        capsys, "show", "made-3"
    )


def test_fetch_says_where_each_set_is_and_stops_at_the_first_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def fetch(entry: DataSet) -> Path:
        asked.append(entry.name)
        if entry.name == "house":
            raise DataError("the home of 'house' is gone")
        return Path(f"{entry.name}.npy")

    monkeypatch.setattr(homes, "fetch", fetch)
    assert (
        said(capsys, "fetch", "s1", "lsun")
        == "s1: s1.npy, values as published.\nlsun: lsun.npy, values as published.\n"
    )
    assert json.loads(said(capsys, "fetch", "s1", "--json")) == {
        "fetched": {"s1": "s1.npy"},
        "nothing_to_fetch": [],
    }
    asked.clear()
    assert (
        said(capsys, "fetch", "s1", "house", "lsun", code=REFUSED)
        == "Error: the home of 'house' is gone\n"
    )
    assert asked == ["s1", "house"]


def test_what_is_generated_or_ones_own_needs_no_fetching(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "fetch", lambda entry: Path(f"{entry.name}.npy"))
    assert said(capsys, "fetch", "made-3", "s1", "mine").splitlines() == [
        "made-3: generated from its name wherever it is used; there is nothing to fetch.",
        "s1: s1.npy, values as published.",
        (
            "mine: a set of your own, in the folder that FASTLLOYD_DATA names; there is nothing to"
            " fetch."
        ),
    ]
    assert json.loads(said(capsys, "fetch", "made-3", "s1", "--json"))["nothing_to_fetch"] == [
        "made-3"
    ]
    # so that there are the families that there are, and one that is none is met before anything is
    # fetched
    monkeypatch.undo()
    monkeypatch.setattr(homes, "fetch", lambda entry: pytest.fail(f"fetched {entry.name}"))
    assert "there is no generated set 'synth-1': in synth-K-D-R" in said(
        capsys, "fetch", "s1", "synth-1", code=REFUSED
    )


@pytest.mark.parametrize(
    "arguments", [("show", "s2"), ("show", ""), ("fetch", "s2"), ("fetch", "s1", "s2")]
)
def test_names_that_are_none_are_refused_before_anything_is_done(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "fetch", lambda entry: pytest.fail(f"fetched {entry.name}"))
    sentence = said(capsys, *arguments, code=REFUSED)
    assert sentence.startswith(f"Error: data set {arguments[-1]!r} is unknown")
    assert sentence.count("\n") == 1
