"""Result folders: complete or absent, exact, and never in the place of something else."""

import csv
import io
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.base import precision
from fastlloyd.base.randomness import PublicSeed
from fastlloyd.clustering.domain import Domain
from fastlloyd.errors import OutputError
from fastlloyd.federation.plan.design import design_mechanism, design_plan
from fastlloyd.federation.plan.plan import Client, Plan
from fastlloyd.mechanisms import central, uncertainty
from fastlloyd.mechanisms.accuracy import Accuracy, Status
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, LLOYD, Algorithm
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.reports import outputs
from fastlloyd.reports.outputs import Result
from fastlloyd.reports.statement import NOT_COVERED, PROTECTED_LOSS
from fastlloyd.testing import SeededNoise

pytestmark = pytest.mark.usefixtures("repeatable_noise")

DOMAIN = Domain(features=("age", "dose, mg"), lower=(0.0, -1.0), upper=(100.0, 3.0))
CONTENTS = {"centroids.csv": b"a,b\n", "privacy.json": b"{}\n"}


def _result(algorithm: Algorithm = FASTLLOYD, *, epsilon: float = 1.0, n: int = 400) -> Result:
    m = design_mechanism(algorithm, DOMAIN, n_clusters=3, n_records=500, epsilon=epsilon, public_seed=PublicSeed.from_int(5))
    X = DOMAIN.to_grid(np.random.default_rng(1).uniform([0, -1], [100, 3], (n, 2)))
    clustering = central.cluster(m, X, SeededNoise(5))
    return Result.of(m, clustering, uncertainty.noise_deviation(m))


def _federated(result: Result) -> Result:
    plan = design_plan(
        FASTLLOYD,
        DOMAIN,
        clients=tuple(Client(name=name, max_records=100) for name in ("a", "b", "c")),
        run_id=bytes(16),
        n_clusters=3,
        epsilon=1.0,
        public_seed=PublicSeed.from_int(5),
    )
    return Result(
        mechanism=plan.mechanism,
        centroids=result.centroids,
        noisy_counts=result.noisy_counts,
        count_error=result.count_error,
        accuracy=result.accuracy,
        plan=plan,
        included=(("a", "b", "c"), ("a", "c")),
        unconfirmed=("b",),
    )


def _tree(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def _strict(text: str) -> Any:
    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def test_the_table_of_centroids_has_the_digits_that_their_errors_warrant_and_the_other_file_has_all() -> None:
    result = _result(epsilon=20.0)
    header, *rows = csv.reader(io.StringIO(outputs.centroids_csv(result)))
    assert header == ["cluster", "age", "dose, mg", "noisy_count", "se_age", "se_dose, mg", "se_noisy_count", "status"]
    assert result.updated.any()
    exact = _strict(outputs.centroids_json(result))
    assert exact["features"] == ["age", "dose, mg"]
    for number, (row, cluster) in enumerate(zip(rows, exact["clusters"], strict=True)):
        centroid, count, errors = result.centroids[number], result.noisy_counts[number], result.errors[number]
        assert (int(row[0]), cluster["cluster"]) == (number, number)
        assert (cluster["centroid"], cluster["noisy_count"]) == (centroid.tolist(), count)
        assert cluster["noisy_count_standard_error"] == result.count_error
        assert cluster["status"] == row[-1] == result.accuracy.status[number].value
        assert cluster["standard_errors"] == (errors.tolist() if result.updated[number] else None)
        exact_cells = [*centroid, count, *errors, result.count_error]
        for cell, value, error in zip(row[1:-1], exact_cells, [*errors, result.count_error] * 2, strict=True):
            if cell and np.isfinite(error):
                assert abs(float(cell) - value) <= 0.05 * error
                assert len(cell.strip("-0.").replace(".", "")) <= 7


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (12.3456, 0.5612, 12.35),
        (30269.6, 170.3, 30270.0),
        (0.5612, 0.5612, 0.56),
        (62.61234567, 0.0, 62.6123),
        (62.61234567, math.nan, 62.6123),
        (-0.04, 1.0, 0.0),
        (1234.5, 5e4, 1000.0),
    ],
)
def test_a_number_keeps_the_digits_down_to_the_second_of_its_error(value: float, error: float, expected: float) -> None:
    assert precision.rounded(value, error) == expected
    assert math.copysign(1, precision.rounded(value, error)) == math.copysign(1, expected)


@given(
    st.lists(
        st.sampled_from(
            [
                "cluster",
                "noisy_count",
                "privacy",
                "se_age",
                "age",
                "se_se_age",
                "feature_cluster",
                "se_feature_cluster",
                "se_cluster",
                "se_noisy_count",
                "status",
            ]
        ),
        unique=True,
        min_size=1,
    )
)
def test_no_two_columns_of_the_table_are_called_alike_whatever_the_features_are_called(names: list[str]) -> None:
    d = len(names)
    domain = Domain(features=tuple(names), lower=(0.0,) * d, upper=(1.0,) * d)
    m = design_mechanism(LLOYD, domain, n_clusters=1, n_records=9, epsilon=1.0, public_seed=PublicSeed.from_int(5))
    result = Result(
        mechanism=m,
        centroids=np.full((1, d), 0.5),
        noisy_counts=np.ones(1),
        count_error=0.0,
        accuracy=Accuracy(errors=np.zeros((1, d)), status=(Status.SETTLED,)),
    )
    header, _ = csv.reader(io.StringIO(outputs.centroids_csv(result)))
    assert len(set(header)) == len(header) == 2 * d + 5
    assert (header[0], header[d + 1], header[-1]) == ("cluster", "noisy_count", "privacy")
    assert all(
        column in (name, f"feature_{name}", f"feature_feature_{name}") for column, name in zip(header[1:], names, strict=False)
    )
    assert [f"se_{column}" for column in header[1 : d + 1]] == header[d + 2 : -3]
    assert _strict(outputs.centroids_json(result))["features"] == names


def test_standard_errors_are_empty_where_a_centroid_stayed() -> None:
    result = _result(epsilon=0.001)
    assert 0 < result.updated.sum() < 3
    rows = list(csv.reader(io.StringIO(outputs.centroids_csv(result))))[1:]
    clusters = outputs.summary(result)["clusters"]
    for row, cluster, updated in zip(rows, clusters, result.updated, strict=True):
        assert (row[4:6] == ["", ""]) == (not updated)
        assert (cluster["standard_errors"] is None) == (not updated)


def test_the_settings_in_the_folder_are_those_of_the_run() -> None:
    result = _result()
    written = outputs.files(result)
    assert set(written) == {"centroids.csv", "centroids.json", "privacy.json", "mechanism.toml"}
    assert LloydMechanism.from_toml(written["mechanism.toml"].decode()) == result.mechanism
    federated = _federated(result)
    written = outputs.files(federated)
    assert set(written) == {"centroids.csv", "centroids.json", "privacy.json", "plan.toml", "rounds.json"}
    assert Plan.from_toml(written["plan.toml"].decode()) == federated.plan
    assert _strict(written["rounds.json"].decode()) == [
        {"round": 1, "included": ["a", "b", "c"]},
        {"round": 2, "included": ["a", "c"]},
    ]
    assert _strict(written["privacy.json"].decode())["federated"]["unconfirmed"] == ["b"]


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0, 1e4])
def test_the_summary_is_strict_json_that_reads_back_exactly(epsilon: float) -> None:
    result = _result(epsilon=epsilon)
    read = _strict(outputs.to_json(outputs.summary(result)))
    assert [cluster["centroid"] for cluster in read["clusters"]] == result.centroids.tolist()
    assert [cluster["noisy_count"] for cluster in read["clusters"]] == result.noisy_counts.tolist()
    assert {cluster["noisy_count_standard_error"] for cluster in read["clusters"]} == {result.count_error}
    assert read["privacy"] == _strict(outputs.files(result)["privacy.json"].decode())
    assert (read["private"], read["privacy"]["epsilon"]) == (True, epsilon)


def test_what_leaked_stands_in_the_statement() -> None:
    result = _result()
    leaking = Result(**{name: getattr(result, name) for name in result.__struct_fields__} | {"leaks": ("bounds leak",)})
    federated = msgspec.structs.replace(_federated(result), leaks=("bounds leak",))
    for said in map(outputs.statement, (leaking, federated)):
        assert (said["private"], said["taken_from_the_data"], said["protected"]) == (False, ["bounds leak"], [])
        assert said["cautions"] == [NOT_COVERED]
        assert said["not_protected"][0] == "anything, because settings were taken from the data"
    assert outputs.statement(result)["taken_from_the_data"] == []
    assert outputs.statement(result)["private"] is outputs.summary(result)["private"] is True
    assert outputs.summary(leaking)["private"] is False


def test_every_file_of_a_run_without_noise_says_not_private() -> None:
    for name, content in outputs.files(_result(LLOYD)).items():
        assert b"NOT PRIVATE" in content, name
    for name, content in outputs.files(_result()).items():
        assert b"NOT PRIVATE" not in content, name


def test_a_marked_mechanism_still_reads_back() -> None:
    result = _result(LLOYD)
    assert LloydMechanism.from_toml(outputs.files(result)["mechanism.toml"].decode()) == result.mechanism


def test_a_folder_is_made_with_its_parents_and_the_usual_modes(tmp_path: Path) -> None:
    umask = os.umask(0o022)
    try:
        paths = outputs.write_folder(tmp_path / "new" / "run", CONTENTS, force=False)
    finally:
        os.umask(umask)
    assert [p.name for p in paths] == list(CONTENTS)
    assert {p.name: p.read_bytes() for p in paths} == CONTENTS
    assert stat.S_IMODE((tmp_path / "new" / "run").stat().st_mode) == 0o755
    assert all(stat.S_IMODE(p.stat().st_mode) == 0o644 for p in paths)
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["run"]


def test_what_exists_is_refused_without_force(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("mine")
    before = _tree(tmp_path)
    for name in ("empty", "file", "file/below"):
        with pytest.raises(OutputError, match=name):
            outputs.check_destination(tmp_path / name, force=False)
        with pytest.raises(OutputError, match=name):
            outputs.write_folder(tmp_path / name, CONTENTS, force=False)
    assert _tree(tmp_path) == before


def test_force_replaces_results_and_empty_folders_whole(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    outputs.write_folder(out, CONTENTS | {"rounds.json": b"[]"}, force=True)
    outputs.write_folder(out, CONTENTS, force=True)
    assert {p.name for p in out.iterdir()} == set(CONTENTS)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("mine", ["notes.txt", "centroids.csv.bak", "plan.toml/inside", ".hidden"])
def test_force_never_deletes_what_fastlloyd_did_not_write(tmp_path: Path, mine: str) -> None:
    outputs.write_folder(tmp_path / "run", CONTENTS, force=False)
    (tmp_path / "run" / mine).parent.mkdir(exist_ok=True)
    (tmp_path / "run" / mine).write_text("mine")
    before = _tree(tmp_path)
    with pytest.raises(OutputError, match="left alone"):
        outputs.write_folder(tmp_path / "run", CONTENTS, force=True)
    assert _tree(tmp_path) == before


def test_force_leaves_a_folder_alone_that_merely_uses_the_same_names(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "plan.toml").write_text("a plan of my own")
    with pytest.raises(OutputError, match=r"privacy\.json"):
        outputs.check_destination(tmp_path / "mine", force=True)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match="is a file"):
        outputs.check_destination(tmp_path / "file", force=True)


def test_a_link_to_a_result_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    outputs.write_folder(tmp_path / "real", CONTENTS, force=False)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    outputs.write_folder(tmp_path / "link", {"privacy.json": b"new"}, force=True)
    assert (tmp_path / "link").is_symlink()
    assert _tree(tmp_path / "real") == {"privacy.json": b"new"}


def test_a_folder_one_cannot_write_to_is_refused_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(OutputError, match="Permission denied"):
        outputs.check_destination(tmp_path / "run", force=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("earlier", [True, False])
@pytest.mark.parametrize("step", ["write_bytes", "rename"])
def test_whatever_goes_wrong_while_writing_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, earlier: bool, step: str
) -> None:
    """At the second file, and at the moment of putting the new folder in place."""
    out = tmp_path / "run"
    if earlier:
        outputs.write_folder(out, CONTENTS | {"rounds.json": b"earlier"}, force=False)
    before = _tree(tmp_path)
    original, calls = getattr(Path, step), []

    def fail(self: Path, argument: Any) -> Any:
        calls.append(self)
        last = len(calls) == 2 if step == "write_bytes" else argument == out.resolve() and len(calls) == 1 + earlier
        if last:
            raise failure
        return original(self, argument)

    monkeypatch.setattr(Path, step, fail)
    expected = OutputError if isinstance(failure, OSError) else type(failure)
    with pytest.raises(expected):
        outputs.write_folder(out, CONTENTS, force=True)
    monkeypatch.undo()
    assert len(calls) >= 1 + (step == "write_bytes")
    assert _tree(tmp_path) == before


def test_a_file_is_replaced_only_by_force_and_only_if_it_is_of_the_same_kind(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    outputs.check_file(path, heading="# kind", force=False)
    outputs.write_file(path, "# kind 1")
    with pytest.raises(OutputError, match="--force"):
        outputs.check_file(path, heading="# kind", force=False)
    outputs.check_file(path, heading="# kind", force=True)
    outputs.write_file(path, "# kind 2")
    assert _tree(tmp_path) == {"plan.toml": b"# kind 2"}
    with pytest.raises(OutputError, match="left alone"):
        outputs.check_file(path, heading="# another kind", force=True)
    with pytest.raises(OutputError):
        outputs.check_file(tmp_path, heading="# kind", force=True)
    with pytest.raises(OutputError, match="missing"):
        outputs.write_file(tmp_path / "missing" / "plan.toml", "# kind")
    assert _tree(tmp_path) == {"plan.toml": b"# kind 2"}


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_has_no_end_is_not_read_to_see_whether_it_may_be_replaced(tmp_path: Path, kind: str) -> None:
    path = Path(os.devnull) if kind == "device" else tmp_path / "pipe"  # as /dev/full, but harmless to read
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(OutputError, match="not a file that can be replaced"):
        outputs.check_file(path, heading="# kind", force=True)


def test_every_file_of_a_run_with_bounds_from_the_data_says_that_they_are_not_covered() -> None:
    # three centroids give the widths of the bounds away by their digits alone, so the table needs the mark of its own
    leaking = msgspec.structs.replace(_result(), leaks=("bounds were taken from the data",))
    texts = {name: content.decode() for name, content in outputs.files(leaking).items()}
    assert texts.keys() == {"centroids.csv", "centroids.json", "privacy.json", "mechanism.toml"}
    for name in ("centroids.csv", "centroids.json", "mechanism.toml"):
        assert NOT_COVERED in texts[name]
        assert NOT_COVERED not in outputs.files(_result())[name].decode()
    assert LloydMechanism.from_toml(texts["mechanism.toml"]) == leaking.mechanism
    header, *rows = csv.reader(io.StringIO(texts["centroids.csv"]))
    assert header[-1] == "privacy"
    assert {row[-1] for row in rows} == {NOT_COVERED}


def test_a_file_put_into_the_folder_at_the_last_moment_survives_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "result"
    outputs.write_folder(out, CONTENTS, force=False)
    rename = Path.rename

    def interfere(self: Path, target: Path) -> Path:
        if self == out.resolve() and not (out / "thesis.txt").exists():
            (out / "thesis.txt").write_text("mine")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interfere)
    outputs.write_folder(out, CONTENTS, force=True)
    assert (out / "thesis.txt").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["result"]


def test_the_estimate_of_the_loss_stands_in_the_statement_with_all_that_it_means() -> None:
    m = design_mechanism(
        FASTLLOYD, DOMAIN, n_clusters=3, n_records=500, epsilon=1.0, public_seed=PublicSeed.from_int(5),
        n_expected=400, estimate_loss=True, loss_share=0.1,
    )  # fmt: skip
    clustering = central.cluster(m, DOMAIN.to_grid([[50.0, 1.0]] * 300), SeededNoise(0))
    noise = uncertainty.noise_deviation(m)
    result = Result.of(m, clustering, noise, loss=uncertainty.loss_estimate(m, clustering))
    said = outputs.statement(result)
    stated, loss, answer = said["loss_estimate"], m.loss, clustering.loss
    assert loss is not None
    assert answer is not None
    unit = 2**loss.shift / 4**16
    assert stated["value"] == answer * unit == 400 * stated["per_expected_record"]
    assert stated["standard_error"] == float(loss.scale) * unit
    assert stated["cap"] == pytest.approx(stated["cap_distance"] ** 2) == loss.squared_cap / 4**16
    assert stated["share_of_budget"] == pytest.approx(0.1, rel=1e-6)
    assert (stated["sensitivity"], stated["noise_scale_exact"]) == (loss.cap, str(loss.scale))
    assert PROTECTED_LOSS in said["protected"]
    assert outputs.summary(result)["privacy"] == said
    assert outputs.statement(_result())["loss_estimate"] is None
