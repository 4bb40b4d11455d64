"""Tests of the commands `fastlloyd experiment plot`, `table` and `report`: their files, and that a
refusal writes nothing.
"""

import csv
import io
import json
from pathlib import Path

import pytest

from fastlloyd.cli.failures import run
from made_up_results import REAL, SYNTH, fail, rows, write

ONE = {"iris": REAL["iris"]}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    made = [
        row | {"silhouette": None, "davies_bouldin": None, "centroid_mse": None}
        for row in rows(ONE, runs=2)
    ]
    made[0] = fail(made[0], "it broke")
    return write(tmp_path / "results", made)


def _files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_plot_makes_a_folder_with_pictures_and_their_captions(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["experiment", "plot", str(results), "--formats", "png,svg,pdf"]) == 0
    made = {path.name for path in (results / "figures").iterdir()}
    assert made == {"captions.json", "curves-nicv.png", "curves-nicv.svg", "curves-nicv.pdf"}
    captions = json.loads((results / "figures/captions.json").read_text())
    assert captions["curves-nicv"]["title"] == "NICV against epsilon"
    said = capsys.readouterr()
    assert "Drew 1 figure into" in said.out
    assert "NOT PRIVATE" in said.out
    assert "1 of 32 trials failed" in said.err


def test_pictures_are_replaced_with_force_alone_and_nothing_else_is(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["experiment", "plot", str(results), "--formats", "svg"]) == 0
    assert run(["experiment", "plot", str(results), "--formats", "svg"]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["experiment", "plot", str(results), "--formats", "svg", "--force"]) == 0
    (results / "figures/notes.txt").write_text("mine")
    assert run(["experiment", "plot", str(results), "--formats", "svg", "--force"]) == 2
    assert (results / "figures/notes.txt").read_text() == "mine"


def test_table_prints_text_markdown_and_csv(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["experiment", "table", str(results)]) == 0
    text = capsys.readouterr().out
    assert "iris, FastLloyd" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "it broke" in text
    assert (
        run(["experiment", "table", str(results), "--format", "markdown", "--measure", "nicv"]) == 0
    )
    assert "| iris | FastLloyd |" in capsys.readouterr().out
    assert run(["experiment", "table", str(results), "--format", "csv"]) == 0
    listed = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["statistic"] for row in listed} == {"mean", "area", "area_relative"}


def test_report_writes_one_page_and_replaces_only_one_of_its_own(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = results / "report.html"
    assert run(["experiment", "report", str(results)]) == 0
    assert page.read_text().endswith("</html>\n")
    assert run(["experiment", "report", str(results)]) == 2
    assert run(["experiment", "report", str(results), "--force"]) == 0
    page.write_text("mine")
    assert run(["experiment", "report", str(results), "--force"]) == 2
    assert page.read_text() == "mine"
    assert "of another kind" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "made"), [("plot", "figures/curves-nicv.svg"), ("report", "report.html")]
)
def test_what_can_be_drawn_is_drawn_and_the_exit_code_says_that_something_was_not(
    command: str, made: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(["experiment", command, str(results), "--figure", "ablation", "--figure", "curves"])
        == 6
    )
    assert (
        "Not drawn: figure 'ablation' needs results in which the option alpha was swept"
        in capsys.readouterr().err
    )
    assert (results / made).is_file()


def test_of_trials_that_all_failed_there_is_a_report_and_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(
        tmp_path / "results",
        [fail(row, "it broke") for row in rows(ONE, runs=1)],
        figures=["curves", "scaling"],
    )
    assert run(["experiment", "plot", str(folder)]) == 2
    assert "Error: every trial failed, so there is nothing to draw" in capsys.readouterr().err
    assert not (folder / "figures").exists()
    assert run(["experiment", "report", str(folder)]) == 6
    assert "it broke" in (folder / "report.html").read_text()
    assert "Not drawn: every trial failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["plot", "nowhere"], "nowhere is not a folder"),
        (["table", "nowhere"], "nowhere is not a folder"),
        (["report", "empty"], "empty holds no results"),
        (["plot", "empty"], "empty holds no results"),
        (["plot", "half"], "line 1 of half/trials.jsonl is not a whole JSON object"),
        (
            ["plot", "results", "--figure", "curve"],
            "figure 'curve' is unknown (did you mean 'curves'?)",
        ),
        (["report", "results", "--figure", "scalings"], "did you mean 'scaling'?"),
        (["plot", "results", "--figure", "heatmaps"], "needs a family of sets"),
        (["report", "results", "--figure", "ablation"], "the option alpha was swept"),
        (["plot", "results", "--formats", "gif"], "--formats: 'gif' is unknown"),
        (["plot", "results", "--formats", ""], "--formats is empty"),
        (["table", "results", "--format", "html"], "--format 'html' is unknown"),
        (["table", "results", "--measure", "loss"], "measure 'loss' is unknown"),
        (["report", "results", "--out", "report.txt"], "does not end in .html"),
        (["plot", "lonely"], "needs sulloyd at two epsilons or more"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_refused_in_one_sentence_and_nothing_is_written(
    arguments: list[str],
    said: str,
    results: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(results.parent)
    Path("empty").mkdir()
    write(Path("half"), rows(ONE, runs=1))
    lines = Path("half/trials.jsonl").read_text().splitlines(keepends=True)
    Path("half/trials.jsonl").write_text("".join([lines[0][:-40] + "\n", *lines[1:]]))
    sizes = {name: shape for name, shape in SYNTH.items() if shape[2] == 2 and shape[1] <= 4}
    write(
        Path("lonely"),
        rows(sizes, ["lloyd", "sulloyd"], epsilons=[1.0], runs=1),
        figures=["scaling"],
    )
    before = _files(results.parent)
    assert run(["experiment", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) == 1
    assert _files(results.parent) == before
