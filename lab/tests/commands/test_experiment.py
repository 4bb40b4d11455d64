"""Tests of the command `fastlloyd experiment run`. The rows do not depend on the number of
processes, or on processes that are killed.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clone import ROOT
from fastlloyd.cli.failures import run as command
from fastlloyd.errors import FastLloydError
from fastlloyd_lab.experiments import runner

LAB = ROOT / "lab"
HANG = 300  # seconds after which a process counts as hung; one that works needs a few
SPEC = """
title = "t"
runs = 4
epsilons = [0.5, 2.0]
measures = ["nicv", "n_empty"]
clients = 2
[[grid]]
datasets = ["code.py:{one,two}"]
methods = ["lloyd", "fastlloyd", "code.py:METHOD"]
"""
N_TRIALS = 2 * (4 + 8 + 8)
CODE = """
import os, signal
from pathlib import Path
import numpy as np
from fastlloyd_lab.experiments.methods import METHODS, Method

one = (np.arange(60.0).reshape(30, 2) % 7, 2)
two = (np.arange(90.0).reshape(30, 3) % 11, 3)

def first(name):
    "Whether nobody has asked this before."
    try:
        (Path(__file__).parent / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

def cluster(problem, setting):
    if problem.name == "code.py:two" and setting.epsilon == 2.0:
        disaster()
    print("what a method prints is no result")
    return METHODS["glloyd"].cluster(problem, setting)

METHOD = Method(name="mine", label="Mine", cluster=cluster)
"""
DISASTERS = {
    "none": "pass",
    "the process is killed": "first('a') and os.kill(os.getpid(), signal.SIGKILL)",
    "two processes are killed": (
        "(first('a') or first('b')) and os.kill(os.getpid(), signal.SIGKILL)"
    ),
    "the runner is killed": "first('a') and os.kill(os.getppid(), signal.SIGKILL)",
    "the runner is stopped": "first('a') and os.kill(os.getppid(), signal.SIGTERM)",
    "always": "os.kill(os.getpid(), signal.SIGKILL)",
    "an error": "raise ValueError('not today')",
}


def prepared(folder: Path, disaster: str) -> Path:
    folder.mkdir()
    (folder / "code.py").write_text(f"{CODE}\ndef disaster():\n    {DISASTERS[disaster]}\n")
    (folder / "spec.toml").write_text(SPEC)
    return folder / "spec.toml"


def table(out: Path) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name != "seconds"} for row in lines(out)]


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]


def cli(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fastlloyd", "experiment", "run", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{LAB.parent / 'src'}{os.pathsep}{LAB / 'src'}"},
    )


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    summary = runner.run(prepared(folder / "spec", "none"), folder / "out", workers=1)
    assert (summary.progress.done, summary.progress.failed) == (N_TRIALS, 0)
    return folder / "out"


def test_rows_do_not_depend_on_how_many_processes_there_are_and_on_one_that_dies(
    tmp_path: Path, undisturbed: Path
) -> None:
    runner.run(prepared(tmp_path / "spec", "the process is killed"), tmp_path / "out", workers=2)
    assert table(tmp_path / "out") == table(undisturbed)
    assert len(lines(tmp_path / "out")) == N_TRIALS


def test_a_trial_whose_process_dies_twice_has_failed_and_the_others_are_run(
    tmp_path: Path, undisturbed: Path
) -> None:
    runner.run(prepared(tmp_path / "spec", "two processes are killed"), tmp_path / "out", workers=1)
    rows, expected = table(tmp_path / "out"), table(undisturbed)
    (failed,) = [i for i, row in enumerate(rows) if row["status"] == "failed"]
    assert (rows[failed]["method"], rows[failed]["dataset"]) == ("mine", "code.py:two")
    assert "nicv" not in rows[failed]
    assert (
        "its process ended 2 times (signal 9: perhaps there was not enough memory)"
        in rows[failed]["error"]
    )
    assert [row for i, row in enumerate(rows) if i != failed] == [
        row for i, row in enumerate(expected) if i != failed
    ]


def test_a_trial_that_raises_is_a_row_with_one_sentence_and_an_exit_code_of_its_own(
    tmp_path: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, out = prepared(tmp_path / "spec", "an error"), tmp_path / "out"
    assert command(["experiment", "run", str(spec), "--out", str(out), "--workers", "1"]) == 6
    assert (
        f"{N_TRIALS} trials, all done; 4 failed (see the column error)." in capsys.readouterr().out
    )
    rows, expected = table(out), table(undisturbed)
    assert [row["error"] for row in rows if row["status"] == "failed"] == [
        "ValueError: not today"
    ] * 4
    assert all(
        row == same for row, same in zip(rows, expected, strict=True) if row["status"] != "failed"
    )


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize(
    ("disaster", "code"), [("the runner is killed", -9), ("the runner is stopped", 130)]
)
def test_no_finished_trial_is_lost_and_none_runs_twice_when_the_runner_ends(
    tmp_path: Path, undisturbed: Path, disaster: str, code: int
) -> None:
    spec, out = prepared(tmp_path / "spec", disaster), tmp_path / "out"
    stopped = cli(spec, "--out", out, "--workers", "2")
    assert stopped.returncode == code, stopped.stderr
    kept = (out / "trials.jsonl").read_bytes()
    kept = kept[: kept.rfind(b"\n") + 1]
    done = kept.count(b"\n")
    assert 0 < done < N_TRIALS
    if code == 130:
        assert (
            f"{done} of {N_TRIALS} trials are done and kept in {out}; the same command goes on."
            in stopped.stderr
        )
        assert len(table(out)) == done
    assert runner.outlook(spec, out, quick=False)[0] == runner.Progress(
        total=N_TRIALS, done=done, failed=0
    )
    resumed = runner.run(spec, out, workers=1)
    assert resumed.session["trials"] == N_TRIALS - done
    assert {*(out / "trials.jsonl").read_bytes().splitlines()} > {*kept.splitlines()}
    assert set(
        Counter((r["dataset"], r["method"], r["epsilon"], r["run"]) for r in lines(out)).values()
    ) == {1}
    assert table(out) == table(undisturbed)


def test_what_is_there_is_not_run_again_and_more_runs_are_added(
    tmp_path: Path, undisturbed: Path
) -> None:
    spec, out = prepared(tmp_path / "spec", "none"), tmp_path / "out"
    spec.write_text(SPEC.replace("runs = 4", "runs = 2"))
    runner.run(spec, out, workers=1)
    before = (out / "trials.jsonl").read_bytes()
    runner.run(spec, out, workers=1)
    assert (out / "trials.jsonl").read_bytes() == before
    spec.write_text(SPEC)
    runner.run(spec, out, workers=1)
    assert {*(out / "trials.jsonl").read_bytes().splitlines()} > {*before.splitlines()}
    assert table(out) == table(undisturbed)
    provenance = json.loads((out / "provenance.json").read_text())
    assert [session["trials"] for session in provenance["sessions"]] == [
        N_TRIALS // 2,
        N_TRIALS // 2,
    ]
    assert set(provenance["datasets"]) == {"code.py:one", "code.py:two"}
    assert provenance["methods"] == {"lloyd": "Lloyd", "fastlloyd": "FastLloyd", "mine": "Mine"}
    spec.write_text(SPEC.replace("runs = 4", "runs = 1"))
    fewer = runner.run(spec, out, workers=1)
    assert (fewer.progress.total, fewer.others) == (N_TRIALS // 4, N_TRIALS * 3 // 4)
    # the folder keeps what is not asked for
    assert sorted(map(str, table(out))) == sorted(map(str, table(undisturbed)))


def test_a_folder_of_another_purpose_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, out = prepared(tmp_path / "spec", "none"), tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").touch()
    assert command(["experiment", "run", str(spec), "--out", str(out)]) == 2
    assert "'thesis.tex'" in capsys.readouterr().err
    assert list(out.iterdir()) == [out / "thesis.tex"]


def test_records_that_changed_are_not_mixed_with_the_rows_of_others(tmp_path: Path) -> None:
    spec, out = prepared(tmp_path / "spec", "none"), tmp_path / "out"
    spec.write_text(
        SPEC.replace("code.py:{one,two}", "code.py:read").replace("runs = 4", "runs = 1")
    )
    values = spec.parent / "values.csv"
    with (spec.parent / "code.py").open("a") as code:
        code.write(
            "\n\ndef read():\n    return np.loadtxt(Path(__file__).parent / 'values.csv',"
            " delimiter=','), 2\n"
        )
    values.write_text("1,2\n3,4\n5,7\n")
    runner.run(spec, out, workers=1)
    values.write_text("1,2\n3,4\n5,8\n")
    spec.write_text(spec.read_text().replace("runs = 1", "runs = 2"))
    with pytest.raises(FastLloydError, match=r"other records"):
        runner.run(spec, out, workers=1)


def test_the_example_of_the_guide_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, out = str(LAB / "examples/toy.toml"), str(tmp_path / "out")
    assert command(["experiment", "run", spec, "--out", out, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "trials": 200,
        "done": 0,
        "left": 200,
        "failed": 0,
        "absent": [],
    }
    assert not Path(out).exists()
    assert command(["experiment", "run", spec, "--out", out, "--quick", "--workers", "1"]) == 0
    rows = table(tmp_path / "out")
    assert {row["method"] for row in rows} == {"lloyd", "fastlloyd", "local-noise"}
    assert {row["status"] for row in rows} == {"ok"}
    assert f"{len(rows)} trials, all done; 0 failed." in capsys.readouterr().out


def test_sets_that_are_not_at_hand_are_named_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FASTLLOYD_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    spec, out = tmp_path / "spec.toml", tmp_path / "out"
    spec.write_text(
        SPEC.replace("code.py:{one,two}", "{yeast,adult}").replace('"code.py:METHOD"', '"lloyd"')
    )
    assert command(["experiment", "run", str(spec), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert (
        "not on this machine: 'yeast', 'adult'; get them with `fastlloyd datasets fetch yeast"
        " adult`" in said
    )
    assert command(["experiment", "run", str(spec), "--out", str(out), "--dry-run"]) == 2
    looked = capsys.readouterr()
    assert (looked.out, looked.err) == ("24 trials, 24 left to run.\n", said)
    assert command(["experiment", "run", str(spec), "--out", str(out), "--dry-run", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["absent"] == ["yeast", "adult"]
    assert not out.exists()


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (
            "np.array([[1.0, 2.0], [3.0, np.nan]]), 2",
            "record 2 is NaN in feature 2; expected finite numbers",
        ),
        ("[[1.0, -np.inf]], 1", "record 1 is infinite in feature 2"),
        ("[['1', 'two']], 1", "gives records that are no numbers"),
        ("np.ones((9, 2)), 2", "n_clusters is 2, above the number of distinct records, 1"),
        ("np.eye(3), 4", "n_clusters is 4; expected 1 to the number of records, 3"),
        ("np.eye(3), 2.5", "n_clusters is 2.5; expected a whole number"),
        ("np.eye(3)[0], 1", "the records have the shape (3,)"),
        ("np.eye(3)", "gives no pair (X, n_clusters)"),
        ("1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("__import__('sys').exit(1)", "asked to end the process"),
    ],
    ids=lambda value: value if "," in value else "",
)
def test_a_set_of_ones_own_that_no_trial_can_use_is_refused_once_and_nothing_is_made(
    returned: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "code.py").write_text(f"import numpy as np\n\ndef own():\n    return {returned}\n")
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.replace("{one,two}", "own").replace(', "code.py:METHOD"', ""))
    assert command(["experiment", "run", str(spec), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()
