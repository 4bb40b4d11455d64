"""Tests of tables: numbers for people and for programs, and the choice of the best method."""

import csv
import io
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.reading import read
from fastlloyd_lab.pictures import tables
from fastlloyd_lab.pictures.summaries import Sample, Summaries, Summary
from fastlloyd_lab.pictures.tables import interval
from made_up_results import METHODS, REAL, Cells, fail, rows, write

TWO = {"iris": REAL["iris"], "wine": REAL["wine"]}


def _summaries(folder: Path, made: list[Cells]) -> Summaries:
    return Summaries.of(read(write(folder, made)))


def _summary(mean: float, half_width: float, n: int = 3) -> Summary:
    return Summary(n=n, mean=mean, half_width=half_width, median=mean)


@pytest.mark.parametrize(
    ("mean", "half_width", "text"),
    [
        (0.23412, 0.00123, "0.2341 ± 0.0012"),
        (7.4, 0.31, "7.40 ± 0.31"),
        (1234.5, 67.8, "1234 ± 68"),
        (3e-7, 2.5e-8, "(3.00 ± 0.25)e-07"),
        (2.5e9, 1e8, "(2.50 ± 0.10)e+09"),
        (5.0, math.nan, "5"),
        (5.0, 0.0, "5"),
        (math.nan, math.nan, "-"),
    ],
)
def test_an_interval_is_written_to_two_digits_of_its_width(
    mean: float, half_width: float, text: str
) -> None:
    assert interval(_summary(mean, half_width, n=0 if math.isnan(mean) else 3)) == text


@given(st.floats(-1e12, 1e12), st.floats(1e-12, 1e12))
def test_every_interval_is_short_and_reads_back_as_what_it_was(
    mean: float, half_width: float
) -> None:
    text = interval(_summary(mean, half_width))
    if half_width <= tables.ROUNDING * abs(mean):
        assert text == f"{mean:.4g}"  # all runs gave one value, but for rounding
        return
    inner, _, power = text.removeprefix("(").partition(")e")
    shown_mean, shown_half = (float(part) * 10.0 ** int(power or 0) for part in inner.split(" ± "))
    size = max(abs(mean), half_width)
    assert shown_mean == pytest.approx(mean, abs=max(0.06 * half_width, 1e-7 * size))
    assert shown_half == pytest.approx(half_width, abs=max(0.06 * half_width, 1e-7 * size))
    assert len(text) <= 30


def test_every_set_and_method_has_a_row_with_its_means(tmp_path: Path) -> None:
    found = _summaries(tmp_path, rows(TWO))
    table = tables.means(found, "nicv")
    assert [row[:2] for row in table.rows] == [
        (name, label) for name in TWO for label in ("Lloyd", "SuLloyd", "GLloyd", "FastLloyd")
    ]
    assert table.headings == (
        "data set",
        "method",
        *(f"epsilon {e}" for e in ("0.1", "0.25", "0.5", "0.75", "1")),
    )
    assert len(set(table.rows[0][2:])) == 1
    assert all("±" in cell for row in table.rows for cell in row[2:])


def test_failed_trials_and_infinite_values_have_a_column_when_there_are_any(tmp_path: Path) -> None:
    made = rows(TWO)
    made[0], made[7] = fail(made[0], "it broke"), made[7] | {"nicv": math.inf}
    table = tables.means(_summaries(tmp_path, made), "nicv")
    assert table.headings[-1] == "left out"
    assert [row[-1] for row in table.rows[:3]] == ["1f", "1i", ""]
    listed = tables.tables(_summaries(tmp_path, made))
    assert listed[-1].rows == (("iris", "lloyd", "it broke", "1"),)


def test_the_best_private_method_is_marked_and_the_ratio_is_to_sulloyd(tmp_path: Path) -> None:
    found = _summaries(tmp_path, rows(TWO))
    table = tables.area_table(found, "nicv")
    assert [row[1] for row in table.rows if row[-1] == "best"] == ["FastLloyd", "FastLloyd"]
    assert [row[3] for row in table.rows if row[1] == "SuLloyd"] == ["1", "1"]
    assert table.headings[3] == "relative to SuLloyd"
    silhouettes = tables.area_table(found, "silhouette")
    assert [row[1] for row in silhouettes.rows if row[-1] == "best"] == ["FastLloyd", "FastLloyd"]


def test_a_method_is_not_best_by_leaving_its_failures_out(tmp_path: Path) -> None:
    made = rows({"iris": REAL["iris"]})
    made = [
        fail(row, "it broke") if row["method"] == "fastlloyd" and row["run"] else row
        for row in made
    ]
    table = tables.area_table(_summaries(tmp_path, made), "nicv")
    assert [row[1] for row in table.rows if row[-1] == "best"] == ["GLloyd"]


def test_without_epsilons_or_a_baseline_there_are_means_and_no_ratios(tmp_path: Path) -> None:
    alone = _summaries(tmp_path / "a", rows(TWO, ["lloyd"]))
    assert tables.means(alone, "nicv").headings[2:] == ("mean",)
    assert tables.area_table(alone, "nicv").rows == ()
    without = tables.area_table(_summaries(tmp_path / "b", rows(TWO, ["lloyd", "glloyd"])), "nicv")
    assert {row[3] for row in without.rows} == {"-"}


def test_the_csv_holds_every_digit_of_means_areas_and_ratios(tmp_path: Path) -> None:
    found = _summaries(tmp_path, rows(TWO, runs=3))
    listed = list(csv.DictReader(io.StringIO(tables.to_csv(found, ["nicv"]))))
    assert len(listed) == 2 * (1 + 3 * 5 + 2 * 4)
    one = next(
        row
        for row in listed
        if row["statistic"] == "mean" and row["method"] == "glloyd" and row["epsilon"] == "0.5"
    )
    made = [
        float(str(r["nicv"]))
        for r in rows(TWO, runs=3)
        if (r["dataset"], r["method"], r["epsilon"]) == ("iris", "glloyd", 0.5)
    ]
    summary = Sample(by_run=dict(enumerate(made))).summary()
    assert [float(one[name]) for name in ("value", "half_width", "median")] == [
        summary.mean,
        summary.half_width,
        summary.median,
    ]
    assert {row["privacy"] for row in listed} == {"NOT PRIVATE"}


def test_names_are_no_markdown(tmp_path: Path) -> None:
    made = rows({"a|b <script> *c*": (10, 2, 2)}, METHODS)
    text = tables.to_markdown(tables.tables(_summaries(tmp_path, made), ["nicv"]))
    assert "| a\\|b \\<script\\> \\*c\\* | Lloyd |" in text
    widths = {
        len(line.replace("\\|", "").split("|")) for line in text.split("\n\n")[1].splitlines()
    }
    assert len(widths) == 1


def test_unknown_measures_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'nicvv'.*mean 'nicv'"):
        tables.tables(_summaries(tmp_path, rows(TWO)), ["nicvv"])
