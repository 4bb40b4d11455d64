"""Tests of data sets by name: their sources, and that each name means one set. Files of the user's
folder must agree with its manifest.
"""

import csv
import gzip
import hashlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fastlloyd.errors import DataError
from fastlloyd.records import Table
from fastlloyd_lab.datasets import CATALOGUE, homes, load, n_clusters, names, values_digest
from fastlloyd_lab.datasets.named import absent, check_at_hand


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(DataError) as refused:
        call()
    return str(refused.value)


def one_record(name: str) -> Table:
    return Table(values=np.array([[float(len(name))]]), columns=("x1",), source="generated")


@pytest.fixture(autouse=True)
def _no_home_but_those_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide an empty cache, and generated sets of one record whose names begin with made- or
    g2-.
    """
    monkeypatch.setattr(homes, "_cache_folder", lambda: tmp_path / "cache")
    generator = SimpleNamespace(
        is_generated=lambda name: name.startswith(("made-", "g2-")),
        generate=one_record,
        n_clusters=lambda _: 7,
    )
    monkeypatch.setattr("fastlloyd_lab.datasets.named.synthetic", generator)


# In the folder of FASTLLOYD_DATA


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of two small sets. Its manifest has a column that the loader does not
    need.
    """
    rows = []
    for name, content, k in (("pairs", "0,1\n2,3\n4,5\n", 2), ("triples", "1,2,3\n4,5,6\n", 3)):
        packed = gzip.compress(content.encode(), mtime=0)
        (tmp_path / f"{name}.csv.gz").write_bytes(packed)
        rows.append(f"{name},{k},{hashlib.sha256(packed).hexdigest()},a source\n")
    (tmp_path / "MANIFEST.csv").write_text("name,k,sha256,source\n" + "".join(rows))
    monkeypatch.setenv("FASTLLOYD_DATA", str(tmp_path))
    return tmp_path


def test_a_named_set_comes_with_its_records_and_its_usual_number_of_clusters(data: Path) -> None:
    assert names()[:3] == ("pairs", "triples", "iris")
    table = load("pairs")
    assert table.values.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert table.columns == ("x1", "x2")
    assert table.source == str(data / "pairs.csv.gz")
    assert [n_clusters(name) for name in ("pairs", "triples")] == [2, 3]


@pytest.mark.parametrize("name", ["pears", "../pairs", "", "PAIRS"])
def test_an_unknown_name_is_refused_with_the_names_there_are(data: Path, name: str) -> None:
    for call in (load, n_clusters):
        sentence = refusal(partial(call, name))
        assert sentence.startswith(f"data set {name!r} is unknown")
        assert "the known names are 'pairs', 'triples', 'iris', " in sentence
    assert "did you mean 'pairs'?" in refusal(lambda: load("pears"))


def test_a_file_other_than_the_manifests_is_refused(data: Path) -> None:
    path = data / "pairs.csv.gz"
    path.write_bytes(gzip.compress(b"0,1\n2,3\n4,6\n", mtime=0))
    sentence = refusal(lambda: load("pairs"))
    assert sentence.startswith(
        f"{path}: the SHA-256 of the file is {hashlib.sha256(path.read_bytes()).hexdigest()}"
    )
    assert load("triples").values.shape == (2, 3)


def test_an_absent_file_is_refused_by_its_path(data: Path) -> None:
    (data / "pairs.csv.gz").unlink()
    assert refusal(lambda: load("pairs")).startswith(
        f"{data / 'pairs.csv.gz'}: the data set 'pairs' cannot be read"
    )


def test_all_sets_that_are_not_at_hand_are_named_with_how_to_get_them_and_no_records_are_read(
    data: Path,
) -> None:
    (data / "pairs.csv.gz").write_bytes(b"not looked into")
    (data / "triples.csv.gz").unlink()
    wanted = ["pairs", "triples", "s1", "made-3", "lsun", "s1"]
    assert absent(wanted) == ["triples", "s1", "lsun"]
    sentence = refusal(lambda: check_at_hand(wanted))
    assert (
        "not on this machine: 's1', 'lsun'; get them with `fastlloyd datasets fetch s1 lsun`"
        in sentence
    )
    assert (
        f"the manifest in {data} lists 'triples', and there is no such file; put triples.csv.gz"
        " there" in sentence
    )
    check_at_hand(["pairs", "made-3"])


@pytest.mark.parametrize("folder", [None, ""])
def test_without_the_variable_there_is_the_catalogue(
    monkeypatch: pytest.MonkeyPatch, folder: str | None
) -> None:
    if folder is None:
        monkeypatch.delenv("FASTLLOYD_DATA", raising=False)
    else:
        monkeypatch.setenv("FASTLLOYD_DATA", folder)
    assert names() == tuple(CATALOGUE)
    assert n_clusters("lsun") == 3
    assert "set the environment variable FASTLLOYD_DATA" in refusal(lambda: load("lsun"))


def test_a_folder_without_a_manifest_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTLLOYD_DATA", str(tmp_path))
    sentence = refusal(names)
    assert sentence.startswith(f"{tmp_path / 'MANIFEST.csv'}: cannot be read")
    assert "FASTLLOYD_DATA" in sentence


@pytest.mark.parametrize(
    "manifest",
    [
        b"name,k\npairs,2\n",
        b"name,k,sha256\npairs,two,abc\n",
        b"name,k,sha256\npairs,2\n",
        b"name,k,sha256\npairs\n",
        b'name,k,sha256\n"pairs,2,abc\n',
        b'name,k,sha256\npairs,2,"abc\n',
        b"name,k,sha256\n\xff,2,abc\n",
    ],
)
def test_a_manifest_that_lacks_something_is_refused(data: Path, manifest: bytes) -> None:
    (data / "MANIFEST.csv").write_bytes(manifest)
    assert "every row needs a name, a whole number k and a sha256" in refusal(names)


def test_an_empty_manifest_has_no_names(data: Path) -> None:
    (data / "MANIFEST.csv").write_bytes(b"")
    assert names() == tuple(CATALOGUE)
    assert "data set 'pairs' is unknown" in refusal(lambda: load("pairs"))


def test_the_published_sets_have_the_shapes_of_their_manifest_and_the_numbers_numpy_reads() -> None:
    folder = os.environ.get("FASTLLOYD_DATA")
    if not folder:
        pytest.skip("FASTLLOYD_DATA is not set: the published data sets are not at hand")
    with (Path(folder) / "MANIFEST.csv").open(newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert names()[: len(rows)] == tuple(rows)
    # all but mnist, for time
    small = [name for name, row in rows.items() if int(row["n"]) * int(row["d"]) <= 2_000_000]
    assert small
    for name in small:
        values = load(name).values
        assert values.shape == (int(rows[name]["n"]), int(rows[name]["d"]))
        assert np.array_equal(
            values, np.loadtxt(Path(folder) / f"{name}.csv.gz", delimiter=",", ndmin=2)
        )
        assert n_clusters(name) == int(rows[name]["k"])
        if name in CATALOGUE:
            assert values_digest(values) == CATALOGUE[name].digest


# The order of homes


def put_in_cache(name: str, values: object) -> None:
    path = homes.cache_file(CATALOGUE[name])
    path.parent.mkdir(exist_ok=True)
    np.save(path, np.asarray(values, dtype=np.float64))


@pytest.fixture
def no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FASTLLOYD_DATA", raising=False)


def test_the_folder_comes_before_all_other_homes(data: Path) -> None:
    rows = []
    for name in ("wine", "g2-2-30", "made-1"):
        (data / f"{name}.csv.gz").write_bytes(packed := gzip.compress(b"5,6\n", mtime=0))
        rows.append(f"{name},4,{hashlib.sha256(packed).hexdigest()}\n")
    (data / "MANIFEST.csv").write_text("name,k,sha256\n" + "".join(rows))
    for name in ("wine", "g2-2-30", "made-1"):
        assert load(name).values.tolist() == [[5, 6]]
        assert n_clusters(name) == 4
    assert names()[:4] == ("wine", "g2-2-30", "made-1", "iris")
    assert names().count("wine") == 1


def test_wine_is_scikit_learns_and_iris_is_but_for_three_cells(no_folder: None) -> None:
    sklearn_datasets = pytest.importorskip(
        "sklearn.datasets", reason="the bundled data sets ship with scikit-learn"
    )
    table = load("wine")
    assert table.columns[:2] == ("x1", "x2")
    assert table.source == "sklearn.datasets.load_wine"
    assert np.array_equal(table.values, sklearn_datasets.load_wine().data)
    iris = sklearn_datasets.load_iris().data
    assert values_digest(iris).startswith("78ac7575")
    assert "78ac7575" in CATALOGUE["iris"].changes
    iris[34, 3], iris[37, 1:3] = 0.1, (3.1, 1.5)  # the three cells that the catalogue names
    assert values_digest(iris) == CATALOGUE["iris"].digest
    table = load("iris")
    assert table.source == "sklearn.datasets.load_iris"
    assert table.columns == ("x1", "x2", "x3", "x4")
    assert np.array_equal(table.values, iris)


def test_without_scikit_learn_its_sets_are_fetched(
    no_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "find_spec", lambda _: None)
    assert absent(["iris", "wine"]) == ["iris", "wine"]
    assert "fastlloyd datasets fetch iris" in refusal(lambda: load("iris"))


def test_a_copy_of_scikit_learn_with_other_values_is_no_home(
    no_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sklearn_datasets = pytest.importorskip(
        "sklearn.datasets", reason="the bundled data sets ship with scikit-learn"
    )
    wine = sklearn_datasets.load_wine().data
    monkeypatch.setattr(sklearn_datasets, "load_wine", lambda: SimpleNamespace(data=wine + 1))
    assert "fastlloyd datasets fetch wine" in refusal(lambda: load("wine"))
    put_in_cache("wine", wine)
    assert np.array_equal(load("wine").values, wine)


def test_a_cached_file_with_other_values_is_refused(no_folder: None) -> None:
    put_in_cache("lsun", np.zeros((400, 2)))
    sentence = refusal(lambda: load("lsun"))
    assert sentence.startswith(
        f"{homes.cache_file(CATALOGUE['lsun'])} has other values than 'lsun'"
    )
    assert "fastlloyd datasets fetch lsun" in sentence
    homes.cache_file(CATALOGUE["lsun"]).write_bytes(b"not an array")
    assert str(homes.cache_file(CATALOGUE["lsun"])) in refusal(lambda: load("lsun"))


def test_a_set_that_is_nowhere_is_refused_with_both_ways_to_get_it(no_folder: None) -> None:
    sentence = refusal(lambda: load("birch2"))
    assert sentence.startswith(
        "data set 'birch2' is not on this machine: get it with `fastlloyd datasets fetch birch2`"
    )
    assert sentence.endswith(
        "or set the environment variable FASTLLOYD_DATA to a folder that holds it"
    )


def test_a_set_of_the_catalogue_is_never_generated_in_its_place(no_folder: None) -> None:
    assert "fastlloyd datasets fetch g2-2-30" in refusal(lambda: load("g2-2-30"))
    assert n_clusters("g2-2-30") == 2
    assert load("g2-1024-30").values.tolist() == [[10.0]]  # not published as a file
    assert n_clusters("g2-1024-30") == 7


def test_a_generated_name_is_generated(no_folder: None) -> None:
    assert load("made-up").values.tolist() == [[7.0]]
    assert n_clusters("made-up") == 7
    assert not any(name.startswith("made-") for name in names())
