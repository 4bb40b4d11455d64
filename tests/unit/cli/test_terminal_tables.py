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


def printed(width: int, columns: list[Column], *, is_terminal: bool = True) -> list[str]:
    text = io.StringIO()
    console = Console(
        file=text,
        width=width,
        markup=False,
        highlight=False,
        emoji=False,
        color_system=None,
        force_terminal=is_terminal,
    )
    terminal.show(console, "a title", columns)
    return text.getvalue().splitlines()


def layout(columns: list[Column]) -> list[list[str]]:
    """The cells of each row, its name first."""
    return [list(row) for row in zip(*(column.cells for column in columns), strict=True)]


@given(
    width=st.sampled_from([60, 80, 100, 200]),
    rows=st.integers(1, 4),
    given_columns=st.lists(
        st.tuples(HEADINGS, st.lists(NUMBERS, min_size=4, max_size=4)), min_size=1, max_size=8
    ),
    is_terminal=st.booleans(),
)
def test_every_cell_is_printed_whole_beside_its_name_whichever_way_the_table_is_turned(
    width: int, rows: int, given_columns: list[tuple[str, list[str]]], is_terminal: bool
) -> None:
    names = [f"row-{number}" for number in range(rows)]
    columns = [Column(heading="name", cells=names)]
    columns += [Column(heading=heading, cells=cells[:rows]) for heading, cells in given_columns]
    lines = printed(width, columns, is_terminal=is_terminal)
    assert all(len(line) <= width for line in lines)
    assert not any("…" in line or "(continued)" in line for line in lines)
    said = [" ".join(line.replace("│", " ").split()) for line in lines]
    by_row = [" ".join(row) for row in layout(columns)]
    by_column = [" ".join(column.cells) for column in columns[1:]]
    if by_row[0] in said:
        assert [line for line in said if line in by_row] == by_row
    elif f"name {names[0]}:" in said:
        assert said[1:] == [
            line
            for number, name in enumerate(names)
            for line in (
                f"name {name}:",
                *(f"{column.heading}: {column.cells[number]}" for column in columns[1:]),
            )
        ]
    else:  # headings of rows may be broken, cells not
        ends = iter(said)
        assert all(any(line.endswith(cells) for line in ends) for cells in by_column)


def test_a_table_that_is_too_wide_has_its_rows_and_columns_swapped() -> None:
    columns = [Column(heading="cluster", cells=["0", "1"])]
    columns += [Column(heading=f"feature-{n}", cells=[f"{n}.5 ± 0.1", "2 ± 0.1"]) for n in range(9)]
    lines = printed(80, columns, is_terminal=False)
    assert lines[1].split() == ["cluster", "0", "1"]
    assert [line.split()[0] for line in lines[2:]] == [f"feature-{n}" for n in range(9)]


def test_a_table_that_is_too_wide_either_way_is_a_list_of_each_row() -> None:
    columns = [Column(heading="cluster", cells=[str(n) for n in range(20)])]
    columns += [Column(heading=f"feature-{n}", cells=["12.34 ± 0.56"] * 20) for n in range(20)]
    lines = printed(60, columns, is_terminal=False)
    assert lines.count("  feature-7: 12.34 ± 0.56") == 20
    assert sum(line.startswith("cluster ") for line in lines) == 20


@pytest.mark.parametrize("width", [30, 60, 200])
def test_a_frame_is_drawn_on_a_terminal_only(width: int) -> None:
    columns = [Column(heading="cluster", cells=["0"]), Column(heading="age", cells=["1 ± 2"])]
    assert any(set("│┃") & set(line) for line in printed(width, columns))
    lines = printed(width, columns, is_terminal=False)
    assert "".join(lines).replace("±", "").isascii()
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_values_have_a_frame_on_a_terminal_and_are_unbroken_elsewhere(is_terminal: bool) -> None:
    text = io.StringIO()
    console = Console(file=text, width=40, color_system=None, force_terminal=is_terminal)
    terminal.show_values(console, "a title", {"digest": "0f" * 32, "parties": "a\nb"})
    lines = text.getvalue().splitlines()
    plain = ["a title", "digest   " + "0f" * 32, "parties  a", "         b"]
    assert (lines == plain) != is_terminal
    assert any("│" in line for line in lines) == is_terminal


def test_a_table_that_fits_is_one_and_its_headings_are_whole() -> None:
    columns = [
        Column(heading="cluster", cells=["1"]),
        Column(heading="mean fractal dimension", cells=["1 ± 2"]),
    ]
    assert (
        sum("cluster" in line and "mean fractal dimension" in line for line in printed(80, columns))
        == 1
    )


def test_headings_are_broken_rather_than_the_table() -> None:
    """A table of `advise` was in two parts at 80 columns, the second with a single column."""
    headings = [
        "epsilon",
        "verdict",
        "bar",
        "4 of 5 runs",
        "rounds",
        "noise of a count",
        "of the loss per record",
    ]
    cells = ["0.1", "blurred", "0.0707%", "0.0178% to 0.228%", "9", "69.4", "0.000814"]
    lines = printed(
        80,
        [
            Column(heading=heading, cells=[cell])
            for heading, cell in zip(headings, cells, strict=True)
        ],
    )
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
    assert "0" * 32 in [word.removesuffix(":") for word in said]
    assert [word for word in said if word.startswith("word")] == words
