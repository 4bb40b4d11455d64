"""Tests of the mean of many sets as one set."""

from pathlib import Path

import pytest

from fastlloyd.cli.failures import run as fastlloyd
from fastlloyd_lab.experiments.reading import Results, Row
from fastlloyd_lab.pictures.summaries import over_sets
from made_up_results import rows, write


def row(dataset: str, run: int, nicv: float, error: str = "") -> Row:
    measures = {} if error else {"nicv": nicv}
    return Row(
        dataset=dataset, n_records=10, n_features=2, n_clusters=2, method="fastlloyd", epsilon=1.0, clients=1, run=run,
        measures=measures, error=error,
    )  # fmt: skip


def test_a_run_becomes_the_mean_over_the_sets_and_is_left_out_where_one_is_missing_or_failed() -> (
    None
):
    of_a = [row("a", 0, 1.0), row("a", 1, 2.0), row("a", 2, 3.0)]
    of_b = [row("b", 0, 5.0), row("b", 1, 0.0, error="it broke")]  # and no run 2
    pooled = over_sets(Results(title="two sets", rows=(*of_a, *of_b)))
    (only,) = pooled.rows
    assert (only.dataset, only.run, dict(only.measures)) == ("mean of 2 sets", 0, {"nicv": 3.0})
    assert pooled.notes == (
        "2 of 3 means over 2 sets lack a set, or a trial failed; they are left out",
    )


def test_one_set_is_its_own_mean() -> None:
    pooled = over_sets(Results(title="one set", rows=(row("a", 0, 1.25),)))
    assert [(each.dataset, each.measures["nicv"]) for each in pooled.rows] == [
        ("mean of 1 sets", 1.25)
    ]
    assert not pooled.notes


def test_the_table_of_pooled_sets_has_a_row_per_method(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, rows({"iris": (150, 4, 3), "s1": (5000, 2, 15)}))
    assert (
        fastlloyd(
            [
                "experiment",
                "table",
                str(tmp_path),
                "--pooled",
                "--measure",
                "nicv",
                "--format",
                "markdown",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert printed.count("mean of 2 sets | FastLloyd") == 2  # its means and its area
    assert "iris" not in printed
