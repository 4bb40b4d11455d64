"""The commands that advise before a run and serve the owner of the records after it: advise, assign, --compare-non-private."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from fastlloyd.cli.failures import run
from fastlloyd.errors import OutputError
from fastlloyd.evaluation import labels
from fastlloyd.reports import advice, pictures
from fastlloyd.reports.result import COMPARISON, PICTURE
from fastlloyd.testing import SeededNoise, repeatable_noise

SECRET_NUMBER, SECRET_TEXT = "271828.18", "Zebra"
SECRETS = ("271828", "2.7182", SECRET_TEXT)
PUBLIC = ("--bounds", "age=0:100,dose=0:5", "--n-records", "500", "-k", "3")
FIT = ("fit", "data.csv", *PUBLIC)
ADVISE = ("advise", "--records", "2000", "--features", "4", "--clusters", "8")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with 300 records in data.csv, in three clusters."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FASTLLOYD_DEBUG", raising=False)
    rng = np.random.default_rng(2)
    X = np.array([[20, 1], [50, 4], [80, 2]])[rng.integers(0, 3, 300)] + rng.normal(0, [3, 0.2], (300, 2))
    np.savetxt(tmp_path / "data.csv", X, delimiter=",", header="age,dose", comments="")
    return tmp_path


@pytest.fixture
def fastlloyd(capsys: pytest.CaptureFixture[str], here: Path) -> Command:
    """Run the command line in this process."""

    def command(*arguments: str) -> Outcome:
        capsys.readouterr()
        return Outcome(run(arguments), *capsys.readouterr())

    return command


def _tree(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def _refused(outcome: Outcome, *fragments: str) -> None:
    """Exit code 2, nothing on stdout, one sentence on stderr that holds the fragments and no secret."""
    assert (outcome.code, outcome.out) == (2, "")
    [sentence] = outcome.err.splitlines()
    assert sentence.startswith("Error: ")
    for fragment in fragments:
        assert fragment in sentence
    for secret in ("Traceback", *SECRETS):
        assert secret not in sentence


def _strict(text: str) -> Any:
    def refuse(constant: str) -> float:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


# advise


def test_advise_says_what_to_expect_and_keeps_it(fastlloyd: Command, here: Path) -> None:
    code, out, err = fastlloyd(*ADVISE, "--algorithm", "fastlloyd", "--out", "advice")
    assert (code, err) == (0, "")
    for expected in (
        "fastlloyd: 2,000 records, 4 features, 8 clusters",
        "5.49%",
        "fine",
        "noisy",
        "0.951 half widths",
        "Not in the error",
        "The smallest epsilon for an error of at most 10%: 0.53",
        "needs 1,100 records",
    ):
        assert expected in " ".join(out.split())
    read = _strict(Path("advice/advise.json").read_text())
    assert read["least_epsilon"] == 0.53
    assert b"PNG" in Path("advice/advise.png").read_bytes()[:8]
    assert set(_tree(here)) == {"data.csv", "advice", "advice/advise.json", "advice/advise.png"}


def test_advise_without_an_algorithm_is_about_momentlloyd(fastlloyd: Command) -> None:
    code, out, err = fastlloyd(*ADVISE)
    assert (code, err) == (0, "")
    for said in ("momentlloyd: 2,000 records", "4 of 5 runs", "simulations of many kinds of records", "noise of a count"):
        assert said in " ".join(out.split())
    federated = fastlloyd(*ADVISE, "--clients", "5", "--epsilons", "1")
    assert "5 clients, client-noise: bytes of a client" in " ".join(federated.out.split())
    few = fastlloyd("advise", "--records", "40", "--features", "20", "--clusters", "10", "--epsilons", "0.1").out
    assert "useless" in few


def test_advise_on_a_federated_run_says_the_bytes_and_the_ring(fastlloyd: Command) -> None:
    options = ("--clients", "5", "--max-dropouts", "1", "--epsilons", "2,0.5", "--algorithm", "fastlloyd")
    code, out, _ = fastlloyd(*ADVISE, *options)
    assert code == 0
    text = " ".join(out.split())
    for expected in ("5 clients, client-noise", "345", "380", "bits", "client-5", "--ring-bits 32"):
        assert expected in text
    read = _strict(fastlloyd(*ADVISE, *options, "--json").out)
    assert all(o["required_bits"] <= 32 for o in read["outlooks"])
    assert "--ring-bits 32" not in fastlloyd(*ADVISE, "--clients", "5", "--epsilons", "1").out  # which needs more
    assert [o["epsilon"] for o in read["outlooks"]] == [0.5, 2]
    assert read["outlooks"][0]["client"]["sent_per_round"] == 345
    assert read["question"]["federation"]["trust"] == "client-noise"
    narrow = fastlloyd(*ADVISE, *options[:2], *options[-2:], "--trust", "server-noise", "--ring-bits", "32").out
    assert "ring of 32 bits" in " ".join(narrow.split())


def test_advise_reckons_with_the_loss_on_request(fastlloyd: Command) -> None:
    code, out, _ = fastlloyd(*ADVISE, "--loss", "--loss-share", "0.2")
    assert code == 0
    assert "of the loss in squared half widths" in " ".join(out.split())
    with_loss, without = (_strict(fastlloyd(*ADVISE, *more, "--json").out) for more in (("--loss",), ()))
    assert all(outlook["loss_noise"] > 0 for outlook in with_loss["outlooks"])
    assert all(outlook["loss_noise"] is None for outlook in without["outlooks"])
    assert with_loss["least_epsilon"] > without["least_epsilon"]
    _refused(fastlloyd(*ADVISE, "--loss-share", "0.2"), "loss_share is for a private estimate of the loss")


def test_advise_prints_strict_json_and_nothing_else_on_stdout(fastlloyd: Command) -> None:
    code, out, err = fastlloyd(*ADVISE, "--json", "--algorithm", "SuLloyd", "--neighboring-relation", "replace-one")
    read = _strict(out)
    assert code == 0
    assert "verdict" in err
    question = advice.Question(n_records=2000, n_features=4, n_clusters=8)
    assert len(read["outlooks"]) == len(advice.EPSILONS)
    assert read["question"]["neighboring_relation"] == "replace_one"
    assert read["outlooks"][3]["relative_error"] > advice.relative_error(question, 1.0)


def test_advise_says_where_nothing_helps(fastlloyd: Command) -> None:
    code, out, _ = fastlloyd("advise", "--records", "30", "--features", "30", "-k", "15", "--epsilons", "1")
    assert code == 0
    assert "mostly noise" in out
    assert "No epsilon up to 10" in out


def test_advise_replaces_only_an_earlier_advice(fastlloyd: Command) -> None:
    assert fastlloyd(*ADVISE, "--out", "advice").code == 0
    _refused(fastlloyd(*ADVISE, "--out", "advice"), "--force")
    assert fastlloyd(*ADVISE, "--out", "advice", "--force").code == 0
    assert fastlloyd(*FIT, "--out", "result").code == 0
    _refused(fastlloyd(*ADVISE, "--out", "result", "--force"), "left alone")
    _refused(fastlloyd(*FIT, "--out", "advice", "--force"), "left alone")


def test_advise_without_matplotlib_writes_the_rest(fastlloyd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> bytes:
        raise OutputError("advise.png was left out because matplotlib is not installed")

    monkeypatch.setattr(pictures, "new_figure", missing)
    code, _, err = fastlloyd(*ADVISE, "--out", "advice")
    assert (code, err) == (0, "Warning: advise.png was left out because matplotlib is not installed\n")
    assert [path.name for path in Path("advice").iterdir()] == ["advise.json"]


REFUSED_ADVICE = {
    "no numbers": (("advise",), "--records"),
    "no records": (("advise", "--records", "0", "--features", "1", "-k", "1"), "n_records is 0"),
    "records below 0": (("advise", "--records=-7", "--features", "1", "-k", "1"), "n_records is -7"),
    "records of text": (("advise", "--records", "many", "--features", "1", "-k", "1"), "--records"),
    "no features": (("advise", "--records", "9", "--features", "0", "-k", "1"), "n_features is 0"),
    "no clusters": (("advise", "--records", "9", "--features", "1", "-k", "0"), "n_clusters is 0"),
    "more clusters than records": (("advise", "--records", "9", "--features", "1", "-k", "10"), "n_clusters is 10"),
    "epsilons of text": ((*ADVISE, "--epsilons", "small,large"), "expected numbers separated by commas"),
    "no epsilons": ((*ADVISE, "--epsilons", ""), "epsilons"),
    "an empty epsilon": ((*ADVISE, "--epsilons", "1,,2"), "epsilons '1,,2'"),
    "epsilon of 0": ((*ADVISE, "--epsilons", "0,1"), "epsilon is 0"),
    "epsilon of nan": ((*ADVISE, "--epsilons", "nan"), "epsilon is nan"),
    "epsilon of inf": ((*ADVISE, "--epsilons", "1,inf"), "epsilon is inf"),
    "an epsilon twice": ((*ADVISE, "--epsilons", "1,1.0"), "twice"),
    "hopeless epsilon": ((*ADVISE, "--epsilons", "1e-12", "--algorithm", "sulloyd"), "epsilon 1e-12"),
    "delta of 1": ((*ADVISE, "--delta", "1"), "delta is 1"),
    "unknown algorithm": ((*ADVISE, "--algorithm", "fastloyd"), "did you mean 'fastlloyd'"),
    "no noise": ((*ADVISE, "--algorithm", "lloyd"), "lloyd adds no noise"),
    "unknown relation": ((*ADVISE, "--neighboring-relation", "x"), "neighboring_relation"),
    "unknown trust": ((*ADVISE, "--clients", "3", "--trust", "client"), "did you mean 'client-noise'"),
    "trust in nobody": ((*ADVISE, "--trust", "client-noise"), "--clients"),
    "a ring of nobody": ((*ADVISE, "--ring-bits", "32"), "--clients"),
    "no clients": ((*ADVISE, "--clients", "0"), "n_clients is 0"),
    "one client": ((*ADVISE, "--clients", "1"), "no share of noise"),
    "odd ring": ((*ADVISE, "--clients", "3", "--ring-bits", "16"), "ring_bits is 16"),
    "a narrow ring": (("advise", "--records", "9999999", *ADVISE[3:], "--clients", "3", "--ring-bits", "32"), "ring"),
    "shares of Laplace noise": ((*ADVISE, "--clients", "3", "--algorithm", "sulloyd"), "server-noise"),
    "force without a folder": ((*ADVISE, "--force"), "--out"),
    "a file in the way": ((*ADVISE, "--out", "data.csv"), "is a file"),
    "data": ((*ADVISE, "data.csv"), "data.csv"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_ADVICE)
def test_numbers_that_no_run_could_have_are_refused(fastlloyd: Command, here: Path, case: str) -> None:
    arguments, fragment = REFUSED_ADVICE[case]
    before = _tree(here)
    _refused(fastlloyd(*arguments), fragment)
    assert _tree(here) == before


# assign


def test_assign_labels_records_by_the_nearest_centroid_of_the_file(fastlloyd: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """With seeded noise, so that no record comes by chance so near a border that rounding to the grid decides."""
    monkeypatch.setattr("fastlloyd.dp.noise.SystemNoise", lambda: SeededNoise(1))
    with repeatable_noise():
        assert fastlloyd(*FIT, "--epsilon", "5", "--public-seed", "1", "--out", "result").code == 0
    code, out, err = fastlloyd("assign", "result", "data.csv", "--distance")
    assert code == 0
    assert "NOT PRIVATE" in err
    header, *rows = (line.split(",") for line in out.splitlines())
    assert header == ["record", "cluster", "distance", "privacy"]
    assert [int(row[0]) for row in rows] == list(range(1, 301))
    X = np.loadtxt("data.csv", delimiter=",", skiprows=1)
    centroids = np.array([cluster["centroid"] for cluster in _strict(Path("result/centroids.json").read_text())["clusters"]])
    scaled = (X[:, None, :] - centroids) / np.array([50, 2.5])
    distances = np.sqrt((scaled**2).sum(axis=2))
    assert [int(row[1]) for row in rows] == distances.argmin(axis=1).tolist()
    assert np.allclose([float(row[2]) for row in rows], distances.min(axis=1), atol=1e-4)
    assert {row[3] for row in rows} == {"NOT PRIVATE"}


@pytest.mark.parametrize("command", [FIT, ("simulate", "data.csv", *PUBLIC, "--clients", "3")], ids=["fit", "simulate"])
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
    _refused(fastlloyd("assign", "result", gaps, "--out", "labels.csv"), "column 'age'", "--missing drop")
    for more in ((), ("--distance",)):
        _, whole, _ = fastlloyd("assign", "result", "whole.csv", *more)
        code, out, err = fastlloyd("assign", "result", gaps, "--missing", "drop", *more)
        assert code == 0
        assert "Note: 3 of your records have missing cells and no label. This number is exact" in err
        numbers, rows = zip(*(line.split(",", 1) for line in out.splitlines()), strict=True)
        assert numbers == ("record", *"123456")
        empty = ",NOT PRIVATE" if not more else ",,NOT PRIVATE"
        assert [row for row in rows if row.startswith(",")] == [empty] * 3
        kept = [row for row in rows if not row.startswith(",")]
        assert kept == [line.split(",", 1)[1] for line in whole.splitlines()]
    _refused(fastlloyd("assign", "result", gaps, "--missing", "fill"), "missing 'fill' is unknown")


def test_values_outside_the_bounds_are_clipped_and_counted_on_the_owners_screen(fastlloyd: Command, here: Path) -> None:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    (here / "new.csv").write_text("age,dose\n1000,2\n100,2\n-5,9\n50,2\n")
    code, out, err = fastlloyd("assign", "result", "new.csv")
    assert code == 0
    first, second = (row.split(",")[1] for row in out.splitlines()[1:3])
    assert first == second  # 1000 is clipped to 100
    assert "Note: 2 of your records" in err


def test_a_file_of_labels_is_replaced_on_request_only_and_nothing_else_is(fastlloyd: Command, here: Path) -> None:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    assign = ("assign", "result", "data.csv", "--out")
    assert fastlloyd(*assign, "labels.csv").code == 0
    before = _tree(here)
    _refused(fastlloyd(*assign, "labels.csv"), "--force")
    _refused(fastlloyd(*assign, "data.csv", "--force"), "left alone")
    _refused(fastlloyd(*assign, "result", "--force"), "result")
    _refused(fastlloyd(*assign, "none/labels.csv"), "none/labels.csv")
    _refused(fastlloyd(*assign[:-1], "--force"), "--out")
    assert _tree(here) == before
    assert fastlloyd(*assign, "labels.csv", "--force", "--distance").code == 0
    assert Path("labels.csv").read_text().startswith("record,cluster,distance,privacy\n")


def test_records_that_fail_half_way_leave_no_file(fastlloyd: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fastlloyd.errors import DataError

    assert fastlloyd(*FIT, "--out", "result").code == 0
    before = _tree(here)

    def blocks(*_: object) -> Any:
        yield np.array([[20.0, 1.0]])
        raise DataError("data.csv, line 3: not a number")

    monkeypatch.setattr(labels, "record_blocks", blocks)
    _refused(fastlloyd("assign", "result", "data.csv", "--out", "labels.csv"), "line 3")
    assert _tree(here) == before


REFUSED_RECORDS = {
    "no such file": (None, "no such file"),
    "a column is missing": (f"age,name\n1,{SECRET_TEXT}\n", "'dose'"),
    "a column is misspelt": ("age,dosis\n1,2\n", "there is no column 'dose' (did you mean 'dosis'?)"),
    "text": (f"age,dose\n{SECRET_NUMBER},1\n{SECRET_TEXT},2\n", "line 3"),
    "missing cell": (f"age,dose\n{SECRET_NUMBER},\n", "missing"),
    "not finite": (f"age,dose\n{SECRET_NUMBER},inf\n", "not a finite number"),
    "empty": ("", "empty"),
}


@pytest.mark.parametrize("case", REFUSED_RECORDS)
def test_records_that_cannot_be_labelled_are_refused(fastlloyd: Command, here: Path, case: str) -> None:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    content, fragment = REFUSED_RECORDS[case]
    if content is not None:
        (here / "bad.csv").write_text(content)
    before = _tree(here)
    _refused(fastlloyd("assign", "result", "bad.csv", "--out", "labels.csv"), fragment)
    _refused(fastlloyd("assign", "result", "bad.csv"), fragment)
    assert _tree(here) == before


def test_a_result_that_is_none_or_was_tampered_with_is_refused(fastlloyd: Command, here: Path) -> None:
    assert fastlloyd(*FIT, "--out", "result").code == 0
    _refused(fastlloyd("assign", "none", "data.csv"), "no result")
    _refused(fastlloyd("assign", ".", "data.csv"), "no result")
    _refused(fastlloyd("assign", "data.csv", "data.csv"), "neither mechanism.toml nor plan.toml")
    settings = here / "result" / "mechanism.toml"
    text = settings.read_text()
    settings.write_text(text.replace("n_expected = 500", "n_expected = 501"))
    _refused(fastlloyd("assign", "result", "data.csv"), "changed after it was made")
    settings.write_bytes(b"\xff\xfe")
    _refused(fastlloyd("assign", "result", "data.csv"), "not a text file")
    settings.unlink()
    _refused(fastlloyd("assign", "result", "data.csv"), "neither")


# --compare-non-private


@pytest.mark.parametrize("command", [FIT, ("simulate", "data.csv", *PUBLIC, "--clients", "3")], ids=["fit", "simulate"])
def test_exact_figures_are_marked_wherever_they_appear(fastlloyd: Command, command: tuple[str, ...]) -> None:
    code, out, err = fastlloyd(*command, "--compare-non-private", "--out", "result", "--json")
    assert code == 0
    read = _strict(out)
    exact = _strict(Path("result/comparison-NOT-PRIVATE.json").read_text())
    assert read["not_private"] == exact
    assert "NOT PRIVATE" in exact["note"]
    assert "NOT PRIVATE, for the owner of the records only" in " ".join(err.split())
    assert f"{exact['with_noise']['nicv']:.6g}" in err
    assert f"{exact['without_noise']['nicv']:.6g}" in err
    statement = _strict(Path("result/privacy.json").read_text())
    assert read["privacy"] == statement
    assert [caution for caution in statement["cautions"] if "comparison-NOT-PRIVATE.json" in caution]
    assert str(Path("result/comparison-NOT-PRIVATE.json")) in read["files"]


def test_no_exact_figure_gets_into_the_private_files(fastlloyd: Command) -> None:
    """Every number of the comparison is looked for in every other file, the caution in the statement of a run without it."""
    assert fastlloyd(*FIT, "--out", "without").code == 0
    assert fastlloyd(*FIT, "--compare-non-private", "--out", "result").code == 0
    exact = _strict(Path("result/comparison-NOT-PRIVATE.json").read_text())
    numbers = [exact["centroid_distance"], exact["with_noise"]["nicv"], exact["without_noise"]["nicv"]]
    for path in Path("result").iterdir():
        if path.name not in (COMPARISON, PICTURE):
            assert not [number for number in numbers if repr(number)[:14] in path.read_text()], path
    with_it, without = (_strict(Path(f"{folder}/privacy.json").read_text()) for folder in ("result", "without"))
    assert with_it.keys() == without.keys()
    assert len(with_it["cautions"]) == len(without["cautions"]) + 1
    assert not Path("without/comparison-NOT-PRIVATE.json").exists()


def test_a_result_with_a_comparison_is_replaced_whole(fastlloyd: Command) -> None:
    assert fastlloyd(*FIT, "--compare-non-private", "--out", "result").code == 0
    assert fastlloyd(*FIT, "--out", "result", "--force").code == 0
    assert not Path("result/comparison-NOT-PRIVATE.json").exists()


def test_lloyd_is_not_compared_with_itself(fastlloyd: Command, here: Path) -> None:
    before = _tree(here)
    _refused(fastlloyd(*FIT, "--algorithm", "lloyd", "--compare-non-private", "--out", "result"), "--compare-non-private")
    assert _tree(here) == before


def test_without_a_folder_the_comparison_is_on_screen_only(fastlloyd: Command, here: Path) -> None:
    before = _tree(here)
    code, out, _ = fastlloyd(*FIT, "--compare-non-private", "--no-out")
    assert code == 0
    assert "NOT PRIVATE" in out
    assert _tree(here) == before


@pytest.mark.parametrize("command", ["advise", "assign", "keygen"])
def test_help_loads_none_of_the_heavy_libraries(command: str) -> None:
    code = f"import sys; from fastlloyd.cli.failures import run; run(['{command}', '--help']); print([m for m in sys.modules \
if m.split('.')[0] in ('numpy', 'scipy', 'sklearn', 'matplotlib')], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert done.stderr.strip() == "[]"
    assert pictures.WIDTH  # and this process has them


def test_labels_go_to_a_file_that_says_csv_and_a_missing_cell_is_refused_with_the_option_that_helps(
    fastlloyd: Command, here: Path
) -> None:
    assert fastlloyd(*FIT, "--epsilon", "1", "--out", "result").code == 0
    _refused(fastlloyd("assign", "result", "data.csv", "--out", "labels.parquet"), "labels are written as CSV", "labels.csv")
    (here / "holes.csv").write_text("age,dose\n1,\n")
    outcome = fastlloyd("assign", "result", "holes.csv", "--out", "labels.csv")
    _refused(outcome, "holes.csv, line 2, column 'dose': the cell is missing")
    assert "--missing drop" in outcome.err
    assert not Path("labels.parquet").exists()
    assert not Path("labels.csv").exists()


def test_a_cap_that_is_no_number_of_records_is_refused_by_its_name(fastlloyd: Command) -> None:
    _refused(fastlloyd("fit", "data.csv", *PUBLIC[:2], "--n-records", "-5", "-k", "3"), "n_records is -5; expected 1 or more")
