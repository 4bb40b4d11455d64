"""Labels of records: those of the estimators, from the files a run left, whatever else is in the
file of records.
"""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd import FastLloyd
from fastlloyd.base import files
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.errors import DataError, FastLloydError, PlanError
from fastlloyd.evaluation import labels
from fastlloyd.evaluation.labels import FittedClustering, record_blocks
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.mechanisms.central import cluster
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.uncertainty import Accuracy, Status, noise_deviation
from fastlloyd.reports.result import Result, centroids_json
from fastlloyd.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")

NAMES = ("age", "dose")


def _result(domain: Domain, n_clusters: int = 4, seed: int = 1) -> Result:
    rng = np.random.default_rng(seed)
    X = domain.to_grid(rng.uniform(domain.lower, domain.upper, (200, domain.n_features)))
    m = design_mechanism(
        FASTLLOYD, domain, n_clusters=n_clusters, n_records=200, epsilon=5.0, public_seed=PublicSeed.from_int(seed),
        min_count=Fraction(0),
    )  # fmt: skip
    clustering = cluster(m, LocalRecords(m.domain, X), SeededNoise(seed))
    return Result.of(m, clustering, noise_deviation(m))


@pytest.fixture
def result(tmp_path: Path) -> Path:
    made = _result(Domain(features=NAMES, lower=(0.0, -1.0), upper=(100.0, 3.0)))
    files.write_folder(tmp_path / "result", made.files(), force=False)
    return tmp_path / "result"


@pytest.mark.filterwarnings("ignore::fastlloyd.errors.ClippedRecordsWarning")
@pytest.mark.parametrize("scaling", list(Scaling))
def test_labels_and_distances_are_bit_for_bit_those_of_the_estimator(
    tmp_path: Path, scaling: Scaling
) -> None:
    """The estimator keeps its grid points; here they come back from the decimal digits of
    centroids.json.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform([-2, -1.1], [102, 3.1], (5000, 2))  # some outside the bounds
    model = FastLloyd(
        n_clusters=5,
        bounds=([0, -1], [100, 3]),
        n_records=5000,
        epsilon=2.0,
        scaling=scaling.value,
        random_state=1,
    ).fit(X)
    made = Result(
        mechanism=model.mechanism_,
        centroids=model.cluster_centers_,
        noisy_counts=model.noisy_counts_,
        count_error=1.0,
        accuracy=Accuracy(errors=np.zeros((5, 2)), status=(Status.SETTLED,) * 5),
    )
    files.write_folder(tmp_path / "result", made.files(), force=False)
    found = FittedClustering.read(tmp_path / "result").label(X)
    assert found.clusters.dtype == model.predict(X).dtype
    assert np.array_equal(found.clusters, model.predict(X))
    assert np.array_equal(found.distances, model.transform(X).min(axis=1))
    assert found.clipped.n_outside == ((X < [0, -1]) | (X > [100, 3])).any(axis=1).sum() > 0


@given(
    shift=st.floats(-4000, 4000), half_width=st.floats(1e-3, 1e6), fraction_bits=st.integers(4, 22),
    points=st.lists(st.integers(-(2**30), 2**30), min_size=2, max_size=2),
)  # fmt: skip
@settings(max_examples=60)
def test_every_grid_point_comes_back_from_its_decimal_digits(
    tmp_path_factory: pytest.TempPathFactory,
    shift: float,
    half_width: float,
    fraction_bits: int,
    points: list[int],
) -> None:
    folder = tmp_path_factory.mktemp("result")
    low, high = half_width * (shift - 1), half_width * (shift + 1)
    domain = Domain(features=("a",), lower=(low,), upper=(high,), fraction_bits=fraction_bits)
    made = _result(domain, n_clusters=2)
    grid = np.clip(np.array(points)[:, None], -domain.saturation, domain.saturation)
    made = Result(
        mechanism=made.mechanism, centroids=domain.from_grid(grid), noisy_counts=made.noisy_counts,
        count_error=made.count_error, accuracy=made.accuracy,
    )  # fmt: skip
    for name, content in made.files().items():
        (folder / name).write_bytes(content)
    assert np.array_equal(FittedClustering.read(folder).centroids, grid)


def test_the_table_alone_names_the_result_it_lies_in(result: Path) -> None:
    whole, table = FittedClustering.read(result), FittedClustering.read(result / "centroids.csv")
    assert np.array_equal(whole.centroids, table.centroids)


def test_blocks_of_records_are_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "BLOCK_ROWS", 7)
    X = np.random.default_rng(0).uniform(0, 1, (50, 3)).round(3)
    np.savetxt(tmp_path / "data.csv", X, delimiter=",", header="dose,other,age", comments="")
    blocks = [np.asarray(block) for block in record_blocks(tmp_path / "data.csv", NAMES)]
    assert max(map(len, blocks)) == 7
    assert np.array_equal(np.concatenate(blocks), X[:, [2, 0]])


def test_rounded_centroids_without_the_exact_ones_are_refused_in_words(result: Path) -> None:
    (result / "centroids.json").unlink()
    with pytest.raises(DataError, match="holds rounded numbers"):
        FittedClustering.read(result)


def _cells(change: Callable[[float], object]) -> Callable[[str], str]:
    """Change the first number of every row of a table, or of every centroid."""

    def changed(text: str) -> str:
        if text.startswith("{"):
            content = json.loads(text)
            for cluster in content["clusters"]:
                cluster["centroid"][0] = change(cluster["centroid"][0])
            return json.dumps(content)
        header, *rows = (line.split(",") for line in text.splitlines())
        return "\n".join(
            ",".join(row)
            for row in [header, *([str(change(float(row[0]))), *row[1:]] for row in rows)]
        )

    return changed


def _content(change: Callable[[dict[str, Any]], object]) -> Callable[[str], str]:
    def changed(text: str) -> str:
        content = json.loads(text)
        change(content)
        return json.dumps(content)

    return changed


CENTROID_CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "a last digit": (_cells(lambda x: math.nextafter(x, math.inf)), "rounded, changed"),
    "rounded": (_cells(lambda x: round(x, 1)), "rounded, changed"),
    "far away": (_cells(lambda x: x + 1e12), "rounded, changed"),
    "words": (_cells(lambda _: "x"), "not the centroids"),
    "nothing": (lambda _: "", "not the centroids"),
}


EXACT_CHANGES: dict[str, tuple[Callable[[str], str], str]] = CENTROID_CHANGES | {
    "not finite": (_cells(lambda _: math.nan), "not the centroids.json"),
    "too large": (
        _content(lambda c: c["clusters"][0].update(centroid=[1e308, 1e308])),
        "rounded, changed",
    ),
    "a cluster less": (_content(lambda c: c["clusters"].pop()), "each of their 4 clusters"),
    "no clusters": (_content(lambda c: c["clusters"].clear()), "each of their 4 clusters"),
    "a coordinate less": (
        _content(lambda c: c["clusters"][1]["centroid"].pop()),
        "each of their 4 clusters",
    ),
    "another order of features": (
        _content(lambda c: c["features"].reverse()),
        "other features",
    ),
    "another order of clusters": (
        _content(lambda c: c["clusters"].reverse()),
        "not numbered 0, 1, 2",
    ),
    "a list": (lambda _: "[]", "not the centroids.json"),
    "endless brackets": (lambda _: "[" * 100_000, "not the centroids.json"),
    "cut off": (lambda text: text[: len(text) // 2], "not the centroids.json"),
}
MECHANISM_CHANGES: dict[str, tuple[Callable[[str], str], str]] = {
    "changed": (
        lambda text: text.replace("n_expected = 200", "n_expected = 201"),
        "changed after it was made",
    ),
    "promising more": (
        lambda text: text.replace("epsilon = 5.0", "epsilon = 0.1"),
        "do not give epsilon 0.1",
    ),
    "empty": (lambda _: "", "digest"),
    "cut off": (lambda text: text[: len(text) // 2], "mechanism.toml"),
}


@pytest.mark.parametrize("case", EXACT_CHANGES)
def test_centroids_that_were_changed_are_refused(result: Path, case: str) -> None:
    change, sentence = EXACT_CHANGES[case]
    _change(result / "centroids.json", change)
    with pytest.raises(DataError, match=sentence):
        FittedClustering.read(result)


@pytest.mark.parametrize("case", MECHANISM_CHANGES)
def test_settings_that_were_changed_are_refused(result: Path, case: str) -> None:
    change, sentence = MECHANISM_CHANGES[case]
    _change(result / "mechanism.toml", change)
    with pytest.raises(PlanError, match=sentence):
        FittedClustering.read(result)


def _change(path: Path, change: Callable[[str], str]) -> None:
    before = path.read_text()
    path.write_text(change(before))
    assert path.read_text() != before


def test_a_result_torn_apart_is_refused(result: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "centroids.csv").write_bytes((result / "centroids.csv").read_bytes())
    (tmp_path / "rootless").mkdir()
    (tmp_path / "rootless" / "centroids.json").write_bytes((result / "centroids.json").read_bytes())
    for path, sentence in (
        (tmp_path / "alone", "holds rounded numbers"),
        (tmp_path / "rootless", "neither mechanism.toml nor plan.toml"),
        (tmp_path, "is not a result"),
        (tmp_path / "none", "is not a result"),
    ):
        with pytest.raises(FastLloydError, match=sentence):
            FittedClustering.read(path)


def test_centroids_of_another_result_are_refused(result: Path, tmp_path: Path) -> None:
    other = _result(Domain(features=NAMES, lower=(0.0, -1.0), upper=(90.0, 7.0)), seed=2)
    (result / "centroids.json").write_text(centroids_json(other))
    with pytest.raises(DataError, match="with other settings"):
        FittedClustering.read(result)
