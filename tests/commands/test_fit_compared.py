"""`--compare-non-private`: exact figures, marked wherever they appear."""

from pathlib import Path

import pytest

from command_line import FIT, PUBLIC, Command, refused, strict, tree
from fastlloyd.reports.run_result import COMPARISON, PICTURE


@pytest.mark.parametrize(
    "command", [FIT, ("simulate", "data.csv", *PUBLIC, "--clients", "3")], ids=["fit", "simulate"]
)
def test_exact_figures_are_marked_wherever_they_appear(
    fastlloyd: Command, command: tuple[str, ...]
) -> None:
    code, out, err = fastlloyd(*command, "--compare-non-private", "--out", "result", "--json")
    assert code == 0
    read = strict(out)
    exact = strict(Path("result/comparison-NOT-PRIVATE.json").read_text())
    assert read["not_private"] == exact
    assert "NOT PRIVATE" in exact["note"]
    assert "NOT PRIVATE, for the owner of the records only" in " ".join(err.split())
    assert f"{exact['with_noise']['nicv']:.6g}" in err
    assert f"{exact['without_noise']['nicv']:.6g}" in err
    statement = strict(Path("result/privacy.json").read_text())
    assert read["privacy"] == statement
    assert [
        caution for caution in statement["cautions"] if "comparison-NOT-PRIVATE.json" in caution
    ]
    assert str(Path("result/comparison-NOT-PRIVATE.json")) in read["files"]


def test_no_exact_figure_gets_into_the_private_files(fastlloyd: Command) -> None:
    """Every number of the comparison is looked for in every other file, the caution in the
    statement of a run without it.
    """
    assert fastlloyd(*FIT, "--out", "without").code == 0
    assert fastlloyd(*FIT, "--compare-non-private", "--out", "result").code == 0
    exact = strict(Path("result/comparison-NOT-PRIVATE.json").read_text())
    numbers = [
        exact["centroid_distance"],
        exact["with_noise"]["nicv"],
        exact["without_noise"]["nicv"],
    ]
    for path in Path("result").iterdir():
        if path.name not in (COMPARISON, PICTURE):
            assert not [number for number in numbers if repr(number)[:14] in path.read_text()], path
    with_it, without = (
        strict(Path(f"{folder}/privacy.json").read_text()) for folder in ("result", "without")
    )
    assert with_it.keys() == without.keys()
    assert len(with_it["cautions"]) == len(without["cautions"]) + 1
    assert not Path("without/comparison-NOT-PRIVATE.json").exists()


def test_a_result_with_a_comparison_is_replaced_whole(fastlloyd: Command) -> None:
    assert fastlloyd(*FIT, "--compare-non-private", "--out", "result").code == 0
    assert fastlloyd(*FIT, "--out", "result", "--force").code == 0
    assert not Path("result/comparison-NOT-PRIVATE.json").exists()


def test_lloyd_is_not_compared_with_itself(fastlloyd: Command, here: Path) -> None:
    before = tree(here)
    refused(
        fastlloyd(*FIT, "--algorithm", "lloyd", "--compare-non-private", "--out", "result"),
        "--compare-non-private",
    )
    assert tree(here) == before


def test_without_a_folder_the_comparison_is_on_screen_only(fastlloyd: Command, here: Path) -> None:
    before = tree(here)
    code, out, _ = fastlloyd(*FIT, "--compare-non-private", "--no-out")
    assert code == 0
    assert "NOT PRIVATE" in out
    assert tree(here) == before
