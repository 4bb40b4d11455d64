"""A result of a command as a fitted estimator, and the picture of either."""

import json
import re
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from fastlloyd import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd
from fastlloyd.cli.failures import run
from fastlloyd.errors import DataError, NoisyResultWarning, OutputError, PlanError
from fastlloyd.evaluation.labels import FittedClustering
from fastlloyd.reports import picture, pictures

pd: Any = pytest.importorskip("pandas")

ESTIMATORS = [MomentLloyd, FastLloyd, GLloyd, SuLloyd, Lloyd]
PUBLIC = (
    "--bounds",
    "age=0:100,dose=0:5",
    "--n-records",
    "500",
    "-k",
    "3",
    "--n-expected",
    "400",
    "--public-seed",
    "8",
)
PNG = b"\x89PNG\r\n\x1a\n"


DRAWN: list[picture.Picture] = []


def _not_drawn(picture: picture.Picture) -> bytes:
    """Drawing takes most of the time of a small run."""
    DRAWN.append(picture)
    return PNG


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """300 records in three clusters, in data.csv of an empty working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    X = np.array([[20, 1], [50, 4], [80, 2]])[rng.integers(0, 3, 300)] + rng.normal(
        0, [3, 0.2], (300, 2)
    )
    frame = pd.DataFrame(X, columns=["age", "dose"])
    frame.to_csv("data.csv", index=False)
    monkeypatch.setattr(pictures, "draw", _not_drawn)
    return frame


def _left_by(*options: str, command: str = "fit") -> str:
    assert run((command, "data.csv", *PUBLIC, *options, "--out", "result", "--force")) == 0
    return "result"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_result_is_a_fitted_estimator_that_predicts_as_assign_does(
    records: Any, kind: type[Any]
) -> None:
    folder = (
        _left_by("--algorithm", kind.__name__, "--epsilon", "10")
        if kind is not Lloyd
        else _left_by("--algorithm", "lloyd")
    )
    model = kind.from_result(folder)
    found = FittedClustering.read(Path(folder)).label(records.to_numpy())
    assert np.array_equal(model.predict(records), found.clusters)
    assert np.array_equal(model.transform(records).min(axis=1), found.distances)
    exact = json.loads(Path("result/centroids.json").read_text())["clusters"]
    assert model.cluster_centers_.tolist() == [cluster["centroid"] for cluster in exact]
    assert model.noisy_counts_.dtype == np.float64
    assert model.noisy_counts_.tolist() == [cluster["noisy_count"] for cluster in exact]
    assert {type(cluster["noisy_count"]) for cluster in exact} == {int}
    assert model.privacy_spent_ == json.loads(Path("result/privacy.json").read_text())
    assert model.bounds_.tolist() == [[0, 100], [0, 5]]
    assert list(model.feature_names_in_) == ["age", "dose"]
    assert list(model.get_feature_names_out()) == [f"{kind.__name__.lower()}{i}" for i in range(3)]


def test_a_result_whose_counts_were_written_as_decimals_is_read(records: Any) -> None:
    folder = Path(_left_by())
    before = MomentLloyd.from_result(folder)
    text = (folder / "centroids.json").read_text()
    decimals, n = re.subn(r'("noisy_count": -?\d+),', r"\1.0,", text)
    assert n == 3
    (folder / "centroids.json").write_text(decimals)
    after = MomentLloyd.from_result(folder)
    assert np.array_equal(after.noisy_counts_, before.noisy_counts_)
    assert np.array_equal(after.predict(records), before.predict(records))


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        *((kind, ()) for kind in ESTIMATORS),
        *((kind, ("--loss",)) for kind in (MomentLloyd, SuLloyd, Lloyd)),
    ],
)
def test_it_has_all_that_a_fit_with_its_parameters_has_but_the_labels(
    records: Any, kind: type[Any], loss: tuple[str, ...]
) -> None:
    epsilon = ("--epsilon", "10") if kind is not Lloyd else ()
    model = kind.from_result(_left_by("--algorithm", kind.__name__, *epsilon, *loss))
    fitted = clone(model).fit(records)
    assert (
        fitted.privacy_spent_.keys() - {"taken_from_the_data", "data_set"}
        <= model.privacy_spent_.keys()
    )
    worked_out_from = {"_spent", "_votes"}  # the statement, and the split
    assert set(vars(fitted)) - set(vars(model)) == {"labels_"} | worked_out_from
    assert set(vars(model)) - set(vars(fitted)) == {"_split"}
    for name, value in vars(fitted).items():
        if isinstance(value, np.ndarray | float | int) and name != "labels_":
            assert np.shape(value) == np.shape(getattr(model, name)), name
    if not loss:  # the share of the loss is rounded when it is worked out
        assert fitted.mechanism_ == model.mechanism_


def test_settings_of_the_ablation_come_back_too(records: Any) -> None:
    options = (
        "--radius constant --alpha 0.5 --postprocessing truncate --no-clipping --noise laplace"
        " --min-count 2.5"
    )
    more = (
        "--initialization halving --iterations 4 --scaling common --neighboring-relation"
        " replace-one"
    )
    model = FastLloyd.from_result(
        _left_by("--algorithm", "fastlloyd", *options.split(), *more.split())
    )
    shown = {
        name: value
        for name, value in model.get_params().items()
        if name in ("radius", "alpha", "noise", "min_count")
    }
    assert shown == {"radius": "constant", "alpha": 0.5, "noise": "laplace", "min_count": 2.5}
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", NoisyResultWarning
        )  # four iterations with Laplace noise may drown
        assert clone(model).fit(records).mechanism_ == model.mechanism_


def test_a_federated_result_is_one_as_well(records: Any) -> None:
    model = MomentLloyd.from_result(_left_by("--clients", "3", command="simulate"))
    assert model.privacy_spent_["federated"]["n_clients"] == 3
    assert model.predict(records).shape == (300,)


def test_columns_without_names_stay_without_names(records: Any) -> None:
    np.save("data.npy", records.to_numpy())
    shared = (
        "--bounds",
        "0:100",
        "--n-records",
        "500",
        "-k",
        "2",
        "--epsilon",
        "10",
        "--out",
        "result",
    )
    assert run(("fit", "data.npy", *shared)) == 0
    model = MomentLloyd.from_result("result")
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(records.to_numpy()).shape == (300,)
    assert model.get_params()["bounds"] == ([0.0, 0.0], [100.0, 100.0])
    assert clone(model).fit(records.to_numpy()).cluster_centers_.shape == (2, 2)


def test_a_result_of_another_algorithm_or_no_whole_one_is_refused(records: Any) -> None:
    folder = Path(_left_by())
    with pytest.raises(DataError, match=r"momentlloyd, not.*glloyd"):
        GLloyd.from_result(folder)
    with pytest.raises(DataError, match="not a result"):
        MomentLloyd.from_result("nowhere")
    for name, error in (
        ("privacy.json", DataError),
        ("mechanism.toml", DataError),
        ("centroids.json", DataError),
    ):
        shutil.copytree(folder, "torn")
        Path("torn", name).unlink()
        with pytest.raises(error, match=name.replace(".", r"\.")):
            MomentLloyd.from_result("torn")
        Path("torn", name).write_text("{}" if name.endswith("json") else "")
        with pytest.raises((DataError, PlanError), match=name.replace(".", r"\.")):
            MomentLloyd.from_result("torn")
        shutil.rmtree("torn")


def test_the_picture_of_a_model_is_that_of_the_command_and_notebooks_show_it(
    records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = pictures.figure_of

    def watched(picture: picture.Picture, *others: Any) -> Any:
        DRAWN.append(picture)
        return genuine(picture, *others)

    monkeypatch.setattr(pictures, "figure_of", watched)
    model = MomentLloyd.from_result(_left_by())
    figure: Any = model.plot()
    of_command, of_model = DRAWN[-2:]
    for name in of_command.__struct_fields__:
        assert np.array_equal(getattr(of_command, name), getattr(of_model, name)), name
    png = figure._repr_png_()
    assert png.startswith(PNG)
    assert int.from_bytes(png[16:20], "big") == 800  # pixels wide
    figure.savefig("mine.svg")
    assert Path("mine.svg").stat().st_size > 1000
    with_records = model.plot(records)
    assert np.asarray(DRAWN[-1].records).shape == (300, 2)
    assert any("NOT PRIVATE" in text.get_text() for text in with_records.axes[0].texts)
    assert not any("NOT PRIVATE" in text.get_text() for text in figure.axes[0].texts)


def test_a_picture_of_a_model_with_bounds_of_the_data_says_so(records: Any) -> None:
    with pytest.warns(UserWarning, match="guarantee.*not hold"):
        model = MomentLloyd(3, epsilon=10).fit(records)
    assert any("NOT PRIVATE" in text.get_text() for text in model.plot().axes[0].texts)


def test_without_matplotlib_a_sentence_says_what_to_install(
    records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = MomentLloyd.from_result(_left_by())
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(OutputError, match="picture was left"):
        model.plot()
