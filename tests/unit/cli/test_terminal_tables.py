"""Tables on screens of every usual width: what stands in them stands there whole."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fastlloyd.cli import terminal
from fastlloyd.cli.terminal import Column

NUMBERS = st.sampled_from(["12.34 ± 0.56", "-0.1", "30270 ± 170", "(1.20 ± 0.34)e-09", "...", "7"])
HEADINGS = st.sampled_from(
    ["age", "mean fractal dimension", "systolic_blood_pressure", "noisy count"]
)


def printed(width: int, columns: list[Column]) -> list[str]:
    text = io.StringIO()
    terminal.show(
        Console(file=text, width=width, markup=False, highlight=False, emoji=False),
        "a title",
        columns,
    )
    return text.getvalue().splitlines()


@given(
    width=st.sampled_from([60, 80, 100, 200]),
    rows=st.integers(1, 4),
    given_columns=st.lists(
        st.tuples(HEADINGS, st.lists(NUMBERS, min_size=4, max_size=4)), min_size=1, max_size=8
    ),
)
def test_every_cell_is_printed_whole_in_its_row_and_in_the_order_of_the_columns(
    width: int, rows: int, given_columns: list[tuple[str, list[str]]]
) -> None:
    names = [f"row {number}" for number in range(rows)]
    columns = [Column(heading="name", cells=names)]
    columns += [Column(heading=heading, cells=cells[:rows]) for heading, cells in given_columns]
    lines = printed(width, columns)
    assert all(len(line) <= width for line in lines)
    assert not any("…" in line for line in lines)
    for number, name in enumerate(names):
        shown = [
            cell.strip()
            for line in lines
            if f" {name} " in line
            for cell in line.strip("│").split("│")
        ]
        assert [cell for cell in shown if cell != name] == [
            cells[number] for _, cells in given_columns
        ]


def test_a_table_that_fits_is_one_and_its_headings_are_whole() -> None:
    columns = [
        Column(heading="cluster", cells=["1"]),
        Column(heading="mean fractal dimension", cells=["1 ± 2"]),
    ]
    assert (
        sum("cluster" in line and "mean fractal dimension" in line for line in printed(80, columns))
        == 1
    )
    assert not any("(continued)" in line for line in printed(80, columns))


def test_headings_are_broken_rather_than_the_table() -> None:
    """A table of `advise` was in two parts at 80 columns, the second with a single column."""
    headings = [
        "epsilon",
        "error",
        "4 of 5 runs",
        "verdict",
        "rounds",
        "noise of a count",
        "of the loss per record",
    ]
    cells = ["0.1", "0.0707%", "0.0178% to 0.228%", "fine", "9", "69.4", "0.000814"]
    lines = printed(
        80,
        [
            Column(heading=heading, cells=[cell])
            for heading, cell in zip(headings, cells, strict=True)
        ],
    )
    assert not any("(continued)" in line for line in lines)
    assert sum(all(cell in line for cell in cells) for line in lines) == 1


@pytest.mark.parametrize("width", [60, 80])
def test_text_is_broken_between_words_and_all_of_it_is_there(width: int) -> None:
    words = [f"word{number}" for number in range(30)]
    columns = [
        Column(heading="run", cells=["0" * 32], justify="left"),
        Column(heading="rounds", cells=["2"]),
        Column(heading="now", cells=[" ".join(words)], justify="left", is_text=True),
    ]
    said = " ".join(printed(width, columns)).replace("│", " ").split()
    assert "0" * 32 in said
    assert [word for word in said if word.startswith("word")] == words
