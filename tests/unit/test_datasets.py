"""Bundled sets have public bounds that hold their records; named sets are read only if their bytes are the manifest's."""

import csv
import gzip
import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fastlloyd.bounds import parse_bounds
from fastlloyd.datasets import IRIS_BOUNDS, TUMOUR_BOUNDS, load, load_iris, load_tumours, n_clusters, names
from fastlloyd.errors import DataError
from fastlloyd.records import Table

BUNDLED = [
    pytest.param(load_tumours, TUMOUR_BOUNDS, (569, 3), id="tumours"),
    pytest.param(load_iris, IRIS_BOUNDS, (150, 4), id="iris"),
]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(DataError) as refused:
        call()
    return str(refused.value)


# Bundled with scikit-learn


@pytest.mark.parametrize(("loader", "bounds", "shape"), BUNDLED)
def test_a_bundled_set_has_the_columns_its_bounds_name(
    loader: Callable[[], Table], bounds: Mapping[str, tuple[float, float]], shape: tuple[int, int]
) -> None:
    pytest.importorskip("sklearn", reason="the bundled data sets ship with scikit-learn")
    table = loader()
    assert table.values.shape == shape
    assert table.columns == tuple(bounds)
    text = ",".join(f"{name}={lower}:{upper}" for name, (lower, upper) in bounds.items())
    assert np.array_equal(np.transpose(parse_bounds(text, table.columns)), list(bounds.values()))


@pytest.mark.parametrize(("loader", "bounds", "shape"), BUNDLED)
def test_w21_public_bounds_hold_every_record_and_are_round_figures_not_the_extremes(
    loader: Callable[[], Table], bounds: Mapping[str, tuple[float, float]], shape: tuple[int, int]
) -> None:
    pytest.importorskip("sklearn", reason="the bundled data sets ship with scikit-learn")
    values = loader().values
    lower, upper = np.transpose(list(bounds.values()))
    assert (lower <= values.min(axis=0)).all()
    assert (values.max(axis=0) < upper).all()
    assert np.array_equal(2 * lower, np.round(2 * lower))
    assert np.array_equal(2 * upper, np.round(2 * upper))


def test_the_columns_of_tumours_are_those_of_their_names() -> None:
    sklearn_datasets = pytest.importorskip("sklearn.datasets", reason="the bundled data sets ship with scikit-learn")
    bunch = sklearn_datasets.load_breast_cancer()
    for column, values in zip(load_tumours().columns, load_tumours().values.T, strict=True):
        assert np.array_equal(values, bunch.data[:, list(bunch.feature_names).index(column)])


def test_bounds_cannot_be_changed_by_a_caller() -> None:
    for bounds in (TUMOUR_BOUNDS, IRIS_BOUNDS):
        with pytest.raises(TypeError):
            bounds["mean radius"] = (0.0, 1.0)  # type: ignore[index]  # that it is refused is what is tested


def test_without_scikit_learn_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for loader in (load_tumours, load_iris):
        assert refusal(loader).endswith("not installed: pip install 'fastlloyd[sklearn]'")


# Named, in the folder of FASTLLOYD_DATA


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder of two small sets; its manifest has columns the loader need not know."""
    rows = []
    for name, content, k in (("pairs", "0,1\n2,3\n4,5\n", 2), ("triples", "1,2,3\n4,5,6\n", 3)):
        packed = gzip.compress(content.encode(), mtime=0)
        (tmp_path / f"{name}.csv.gz").write_bytes(packed)
        rows.append(f"{name},{k},{hashlib.sha256(packed).hexdigest()},a source\n")
    (tmp_path / "MANIFEST.csv").write_text("name,k,sha256,source\n" + "".join(rows))
    monkeypatch.setenv("FASTLLOYD_DATA", str(tmp_path))
    return tmp_path


def test_a_named_set_comes_with_its_records_and_its_usual_number_of_clusters(data: Path) -> None:
    assert names() == ("pairs", "triples")
    table = load("pairs")
    assert table.values.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert table.columns == ("x1", "x2")
    assert table.source == str(data / "pairs.csv.gz")
    assert [n_clusters(name) for name in names()] == [2, 3]


@pytest.mark.parametrize("name", ["pears", "../pairs", "", "PAIRS"])
def test_an_unknown_name_is_refused_with_the_names_there_are(data: Path, name: str) -> None:
    for call in (load, n_clusters):
        sentence = refusal(partial(call, name))
        assert sentence.startswith(f"data set {name!r} is unknown")
        assert sentence.endswith("there are 'pairs', 'triples'")
    assert "did you mean 'pairs'?" in refusal(lambda: load("pears"))


def test_a_file_other_than_the_manifests_is_refused(data: Path) -> None:
    path = data / "pairs.csv.gz"
    path.write_bytes(gzip.compress(b"0,1\n2,3\n4,6\n", mtime=0))
    sentence = refusal(lambda: load("pairs"))
    assert sentence.startswith(f"{path}: the SHA-256 of the file is {hashlib.sha256(path.read_bytes()).hexdigest()}")
    assert load("triples").values.shape == (2, 3)


def test_an_absent_file_is_refused_by_its_path(data: Path) -> None:
    (data / "pairs.csv.gz").unlink()
    assert refusal(lambda: load("pairs")).startswith(f"{data / 'pairs.csv.gz'}: the data set 'pairs' cannot be read")


@pytest.mark.parametrize("folder", [None, ""])
def test_without_the_variable_the_sentence_names_it(monkeypatch: pytest.MonkeyPatch, folder: str | None) -> None:
    if folder is None:
        monkeypatch.delenv("FASTLLOYD_DATA", raising=False)
    else:
        monkeypatch.setenv("FASTLLOYD_DATA", folder)
    for call in (names, lambda: load("iris"), lambda: n_clusters("iris")):
        assert "set the environment variable FASTLLOYD_DATA" in refusal(call)


def test_a_folder_without_a_manifest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert names() == ()
    assert "data set 'pairs' is unknown" in refusal(lambda: load("pairs"))


def test_the_published_sets_have_the_shapes_of_their_manifest_and_the_numbers_numpy_reads() -> None:
    folder = os.environ.get("FASTLLOYD_DATA")
    if not folder:
        pytest.skip("FASTLLOYD_DATA is not set: the published data sets are not at hand")
    with (Path(folder) / "MANIFEST.csv").open(newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert names() == tuple(rows)
    small = [name for name, row in rows.items() if int(row["n"]) * int(row["d"]) <= 2_000_000]  # all but mnist, for time
    assert small
    for name in small:
        values = load(name).values
        assert values.shape == (int(rows[name]["n"]), int(rows[name]["d"]))
        assert np.array_equal(values, np.loadtxt(Path(folder) / f"{name}.csv.gz", delimiter=",", ndmin=2))
        assert n_clusters(name) == int(rows[name]["k"])
