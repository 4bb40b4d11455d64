"""`fastlloyd bounds template`: a form for public bounds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import SECRET_NUMBER, SECRET_TEXT, Command, refused, write_arrow


def test_a_template_of_bounds_is_made_filled_in_and_used_for_any_choice_of_columns(
    fastlloyd: Command, here: Path
) -> None:
    (here / "three.csv").write_text(
        "age,mean dose,sex\n" + "".join(f"{20 + i % 50},{i % 5},{i % 2}\n" for i in range(200))
    )
    code, out, err = fastlloyd("bounds", "template", "three.csv", "--out", "bounds.toml")
    assert (code, err) == (0, "")
    assert "bounds.toml" in out
    text = Path("bounds.toml").read_text()
    assert fastlloyd("bounds", "template", "three.csv").out == text
    assert [
        line for line in text.splitlines() if line.endswith('= ["LOWER", "UPPER"]')
    ] == text.splitlines()[-3:]
    fit = ("fit", "three.csv", "-k", "2", "--n-records", "300", "--bounds", "bounds.toml")
    refused(fastlloyd(*fit), "bounds of 'age' in bounds.toml are not filled in yet")
    Path("bounds.toml").write_text(text.replace('age = ["LOWER", "UPPER"]', "age = [0, 100]"))
    assert fastlloyd(*fit, "--columns", "age").code == 0
    refused(
        fastlloyd(*fit, "--columns", "age,mean dose"),
        "bounds of 'mean dose' in bounds.toml are not filled in yet",
    )
    refused(fastlloyd("bounds", "template", "three.csv", "--out", "bounds.toml"), "exists already")
    assert (
        fastlloyd(
            "bounds", "template", "three.csv", "--columns", "sex", "--out", "bounds.toml", "--force"
        ).code
        == 0
    )
    assert "age" not in Path("bounds.toml").read_text().partition("[bounds]")[2]


FOUR = ("four.csv", "-k", "2", "--n-records", "300", "--json")


@pytest.fixture
def four(here: Path) -> None:
    (here / "four.csv").write_text(
        "age,name,dose,sex\n" + "".join(f"{20 + i % 50},n{i},{i % 5},{i % 2}\n" for i in range(200))
    )


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    "command", [("fit", *FOUR), ("simulate", *FOUR, "--clients", "2"), ("fit", *FOUR, "found")]
)
def test_the_columns_named_with_numbers_are_those_that_are_used(
    fastlloyd: Command, here: Path, command: tuple[str, ...]
) -> None:
    """The file has a column of text too, which no bounds name."""
    option = "--range" if command[-1] == "found" else "--bounds"
    words = tuple(word for word in command if word != "found")
    (here / "bounds.toml").write_text(
        '[bounds]\nsex = [0, 1]\ndose = ["LOWER", "UPPER"]\nage = [0, 100]\n'
    )
    for bounds in ("bounds.toml", "sex=0:1,age=0:100"):
        ran = fastlloyd(*words, option, bounds, "--epsilon", "5", "--no-out")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["privacy"]["features"] == ["sex", "age"]
        notes = [line for line in ran.err.splitlines() if "left out" in line]
        assert [("'dose'" in line, "'name'" in line) for line in notes] == (
            [(True, False)] if bounds == "bounds.toml" else []
        )


@pytest.mark.usefixtures("four")
def test_columns_that_are_chosen_need_bounds_and_a_file_without_numbers_is_refused(
    fastlloyd: Command, here: Path
) -> None:
    (here / "bounds.toml").write_text('[bounds]\nage = ["LOWER", "UPPER"]\n')
    refused(fastlloyd("fit", *FOUR[:-1], "--bounds", "bounds.toml"), "'age'")
    refused(fastlloyd("fit", *FOUR[:-1], "--columns", "age,sex", "--bounds", "age=0:100"), "'sex'")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_a_template_leaves_out_columns_of_text_and_says_which(
    fastlloyd: Command, here: Path, suffix: str
) -> None:
    columns: dict[str, Any] = {
        "age": np.arange(3.0),
        "name": np.array([SECRET_TEXT, "", "b"]),
        "dose": np.arange(3),
    }
    match suffix:
        case ".csv":
            rows = "".join(
                f"{a:g},{name},{'NA' if dose == 1 else dose}\n"
                for a, name, dose in zip(*columns.values(), strict=True)
            )
            (here / "mixed.csv").write_text("age,name,dose\n" + rows)
        case ".npz":
            np.savez(here / "mixed.npz", **columns)
        case _:
            write_arrow(here / f"mixed{suffix}", columns)
    code, out, err = fastlloyd("bounds", "template", f"mixed{suffix}")
    assert code == 0
    assert [line.split(" = ")[0] for line in out.partition("[bounds]\n")[2].splitlines()] == [
        "age",
        "dose",
    ]
    assert (
        err.splitlines()[0]
        == "Note: left out 'name': not all cells there are numbers, and only numbers are clustered."
        " Choose columns yourself with --columns."
    )
    assert SECRET_TEXT not in out + err


def test_a_template_tells_nothing_of_the_records(fastlloyd: Command, here: Path) -> None:
    templates = []
    for records in (f"{SECRET_NUMBER},1\n", "3,4\n5,6\n"):
        (here / "some.csv").write_text(f"age,dose\n{records}")
        templates.append(fastlloyd("bounds", "template", "some.csv"))
    assert templates[0] == templates[1]
    assert templates[0].code == 0


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_template_says_why_it_leaves_a_column_out(
    fastlloyd: Command, here: Path, suffix: str
) -> None:
    cells = {
        "age": np.arange(2.0),
        "ward": np.array([SECRET_TEXT, "b"]),
        "smokes": np.array(["yes", "no"]),
    }
    if suffix == ".csv":
        (here / "mixed.csv").write_text(f"age,ward,smokes\n1,{SECRET_TEXT},yes\n2,b,no\n")
    else:
        write_arrow(here / f"mixed{suffix}", cells)
    code, out, err = fastlloyd("bounds", "template", f"mixed{suffix}")
    assert code == 0
    assert 'age = ["LOWER", "UPPER"]' in out
    note, *reasons = err.splitlines()
    assert note.startswith("Note: left out 'ward', 'smokes'")
    expected = [
        "line 2, column 'ward': not a number",
        "line 2, column 'smokes': not a number; write yes and no",
    ]
    assert len(reasons) == 2
    for reason, fragment in zip(
        reasons, expected if suffix == ".csv" else ["'ward' holds text"] * 2, strict=True
    ):
        assert fragment.replace("ward", "smokes" if "smokes" in reason else "ward") in reason
        assert SECRET_TEXT not in reason
