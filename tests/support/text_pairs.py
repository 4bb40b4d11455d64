"""Pairs of text files that differ by one line, and what a reader makes of their common lines."""

import random
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from fastlloyd.base.arrays import RealArray
from fastlloyd.errors import DataError
from fastlloyd.records import Layout, Missing, delimited
from fastlloyd.records.delimited import DelimitedFile

CELLS = ["5", "6", "1,5", "1.5", "7,25", "NA", "", "Na", "x1", "x2", "a", "b", "1", "2", "3", "\t5", "5\t", " 5",
         '"6"', '"1,5"', '"a;b"', "0", "2020", "2021", "inf", "?", "5;6", "1,2", "1\t2", "1.000", "1e3", "-", "age",
         '"', "k.A."]  # fmt: skip
HEADS = [["a", "b", "age", "x1", "x2"], ["x1", "x2", "Na", "NA", "a,b", "a;b"], ["Na", "a", "K", "inf", "2020"]]  # fmt: skip
NUMBERED = [["x1"], ["x2"], ["x1", "x2"]]
LAYOUTS = [
    *[Layout()] * 5,
    Layout(decimal=","),
    Layout(separator=";"),
    Layout(header="no"),
    Layout(header="yes"),
    Layout(thousands="."),
    Layout(missing_words=("-", "5")),
]


class Pair(NamedTuple):
    """Two files that differ by one line.

    replaced : the line is another one in the second file; otherwise only the second file has it.
    at : number of the line, from 0.
    """

    lines: list[str]
    others: list[str]
    at: int
    replaced: bool
    columns: list[str] | None
    layout: Layout


def _line(draw: random.Random, width: int, separator: str, cells: list[str]) -> str:
    return separator.join(draw.choice(cells) for _ in range(width))


def pair(draw: random.Random) -> Pair:
    """Return a pair. A header is common to both files, because it is no record."""
    cells = draw.sample(CELLS, draw.randint(2, 7))
    separator, width = draw.choice(",;\t"), draw.choice([1, 2, 2, 2, 3])
    lines = [_line(draw, width, separator, cells) for _ in range(draw.randint(1, 4))]
    if draw.random() < 0.3:
        odd = _line(draw, draw.choice([1, 2, 3]), draw.choice(",;\t"), cells)
        lines[draw.randrange(len(lines))] = odd
    columns = draw.choice([None, None, *NUMBERED])
    has_header = draw.random() < 0.6
    if has_header:
        lines.insert(0, _line(draw, width, separator, draw.choice(HEADS)))
        if draw.random() < 0.4:
            columns = [draw.choice(lines[0].split(separator))]
    # a choice of other names says that there is a header
    names_a_header = has_header and columns is not None and columns not in NUMBERED
    first = int(names_a_header or (has_header and draw.random() < 0.5))
    new = _line(
        draw,
        draw.choice([width, width, width, 1, 2, 3]),
        draw.choice([separator, separator, ",", ";", "\t"]),
        draw.choice([cells, CELLS]),
    )
    replaced = draw.random() < 0.5 and first < len(lines)
    others = list(lines)
    at = draw.randrange(first, len(lines) + (not replaced))
    others[at : at + replaced] = [new]
    lines, others = ([line if line.strip() else "7" for line in each] for each in (lines, others))
    return Pair(lines, others, at, replaced, columns, draw.choice(LAYOUTS))


def _read(
    folder: Path, lines: list[str], of: Pair
) -> tuple[DelimitedFile, list[RealArray | None]] | None:
    """Return the reader, and the record of each line, or None for a header; None if refused."""
    path = folder / "pair.csv"
    path.write_text("\n".join([*lines, ""]), newline="")
    try:
        file = DelimitedFile(str(path), of.columns, Missing.DROP, layout=of.layout)
        rows = np.concatenate([np.asarray(block) for block in file.blocks()])
    except DataError:
        return None
    n_above = len(lines) - len(rows)
    assert n_above in (0, 1)
    return file, [*[None] * n_above, *rows]


def accepted(folder: Path, of: Pair) -> bool:
    """Return whether both files are accepted."""
    return all(_read(folder, lines, of) is not None for lines in (of.lines, of.others))


def common_rows_differ(folder: Path, of: Pair, draw: random.Random) -> bool:
    """Return whether both files are accepted and a common line is another record in one of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "FIRST_BYTES", draw.choice([1, 8, 1 << 16]))
        one, other = _read(folder, of.lines, of), _read(folder, of.others, of)
    if one is None or other is None:
        return False
    (first, rows), (second, others) = one, other
    if of.replaced and not (first.has_fixed_separator and second.has_fixed_separator):
        return False  # a run with this neighbouring relation refuses one of them
    if of.at > 0 and (rows[0] is None) != (others[0] is None):
        return True  # a header in one file, and a record in the other
    del others[of.at]
    if of.replaced:
        del rows[of.at]
    return any(
        row is not None and same is not None and row.tobytes() != same.tobytes()
        for row, same in zip(rows, others, strict=True)
    )
