"""Text read by Arrow's parser and by Python's: the same bits, the same refusals, whatever stands in
the file.
"""

import gzip
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, localcontext
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd.records import NUMERIC, Missing, delimited, open_records
from fastlloyd.records.arrow_csv import ArrowText
from fastlloyd.records.cells import floats
from fastlloyd.records.lines import RowSplitter
from fastlloyd.records.table import ColumnBlock
from record_files import FINITE, SECRET, refusal

EXPONENTS = st.integers(-420, 420) | st.integers(-(10**12), 10**12)


@st.composite
def decimals(draw: st.DrawFn) -> str:
    """Numbers as people and programs spell them, near and far from the ends of float64, with more
    digits than it holds.
    """
    digits = draw(st.text("0123456789", max_size=draw(st.sampled_from([3, 25, 900]))))
    point = draw(st.integers(0, len(digits)))
    mantissa = (
        digits[:point]
        + draw(st.sampled_from([".", "" if point == len(digits) else "."]))
        + digits[point:]
    )
    exponent = draw(
        st.just("") | st.builds(str.format, st.sampled_from(["e{}", "E{:+}", "e{:04}"]), EXPONENTS)
    )
    return draw(st.sampled_from(["", "-", "+"])) + mantissa + exponent


def midpoint(x: float) -> str:
    """All digits of the number halfway to the next float64: the hardest to round."""
    with localcontext() as context:
        context.prec = 1200
        return str((Decimal(x) + Decimal(float(np.nextafter(x, np.inf)))) / 2)


numbers = st.one_of(
    FINITE.map(repr),
    FINITE.map("{:.30e}".format),
    FINITE.filter(lambda x: x < 1e308).map(midpoint),
    decimals(),
    st.integers().map(str),
    st.sampled_from(
        [
            "5e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "2.2250738585072011e-308",
            "-0",
            "1e22",
        ]
    ),
    st.sampled_from(
        [
            "1.7976931348623158e308",
            "1.7976931348623159e308",
            "9007199254740993",
            "0.1e1",
            "00",
            "1.",
            ".5",
        ]
    ),
)
words = st.sampled_from(
    [
        "",
        "NA",
        "na",
        "Na",
        "NaN",
        "nan",
        "NULL",
        "null",
        "?",
        "-nan",
        "inf",
        "-Infinity",
        "nan(1)",
        "1e999",
    ]
)
strange = st.sampled_from(
    [
        "1_0",
        "0x1p3",
        "٣",
        "1,5",
        "true",
        "--1",
        "+-1",
        "1e",
        "e1",
        "1 2",
        "1\x00",
        "\ufeff1",
        "\x0c1",
        "é",
        "#",
    ]
)
marks = st.sampled_from(
    ['"{}', '{}"', '"{}"x', '"{}" ', ' "{}"', '"a""{}"', '"a\n{}"', '"\r{}"', '""{}']
)
mostly = st.integers(0, 199)  # which kind a cell is of: strange ones spoil a table, so they are few


@st.composite
def cells(draw: st.DrawFn, odd: int) -> str:
    kind = draw(mostly)
    cell: str = draw(strange if kind < odd else words if kind < 4 * odd else numbers)
    before, after = (
        draw(st.sampled_from(["", "", "", " ", "  ", "\t"][: 3 + odd])) for _ in range(2)
    )
    cell = before + cell + after
    quoting = draw(mostly)
    if quoting < 5 * odd:
        return '"' + cell.replace('"', '""') + '"'
    if quoting < 6 * odd:
        return str(draw(marks)).format(cell)
    return cell


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, int]:
    """Text, and the number of its columns: a header, and rows of which a few have a cell too many,
    too few, or are blank.
    """
    width, delimiter = draw(st.integers(1, 4)), draw(st.sampled_from(",;\t"))
    odd = draw(st.sampled_from([0, 0, 1, 3]))
    lines = [delimiter.join(f"c{i}" for i in range(width))]
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(mostly)
        n = width + (kind < odd) - (odd <= kind < 2 * odd)
        lines.append(
            "" if 2 * odd <= kind < 5 * odd else delimiter.join(draw(cells(odd)) for _ in range(n))
        )
    ends = draw(st.sampled_from([["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r", "\n\n"]]))
    return "".join(line + draw(st.sampled_from(ends)) for line in lines), width


@contextmanager
def chunks_of(first: int, others: int, *, arrow: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "FIRST_BYTES", first)
        patch.setattr(delimited, "CHUNK_BYTES", others)
        patch.setattr(delimited, "MOST_CHUNK_BYTES", others)
        if not arrow:
            patch.setitem(sys.modules, "pyarrow.csv", None)
        yield


def outcome(path: Path, columns: Sequence[str] | None, missing: Missing) -> tuple[object, ...]:
    """What a program that reads the file sees."""
    try:
        records = open_records(path, columns, missing=missing)
        values = np.concatenate([np.ascontiguousarray(block) for block in records.blocks()])
        lines = [records.place(1), records.place(len(values))]
        again = np.concatenate(
            [np.ascontiguousarray(block) for block in records.blocks_with_gaps()]
        )
    except DataError as refused:
        return (str(refused),)
    return (
        values.shape,
        values.tobytes(),
        records.dropped,
        lines,
        np.isnan(again).tobytes(),
        np.nan_to_num(again).tobytes(),
    )


@settings(max_examples=200, deadline=None)
@given(
    table=tables(),
    first=st.integers(1, 40),
    others=st.integers(1, 200),
    packed=st.booleans(),
    mark=st.booleans(),
    missing=st.sampled_from(Missing),
    data=st.data(),
)
def test_both_parsers_have_the_same_outcome(
    tmp_path_factory: pytest.TempPathFactory,
    table: tuple[str, int],
    first: int,
    others: int,
    packed: bool,
    mark: bool,
    missing: Missing,
    data: st.DataObject,
) -> None:
    text, width = table
    names = [f"c{i}" for i in range(width)]
    columns = data.draw(st.none() | st.lists(st.sampled_from(names), min_size=1, unique=True))
    content = text.encode("utf-8-sig" if mark else "utf-8")
    path = tmp_path_factory.getbasetemp() / "both.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    with chunks_of(first, others, arrow=False):
        expected = outcome(path, columns, missing)
    with chunks_of(first, others, arrow=True):
        assert outcome(path, columns, missing) == expected


# What Arrow reads


def by_python(chunk: str, column: int, width: int) -> list[float]:
    rows = list(
        RowSplitter("records.csv", ",").every(iter([b"c," * (width - 1) + b"c\n", chunk.encode()]))
    )[1:]
    assert {len(cells) for _, cells in rows} <= {width}
    return list(floats([cells[column] for _, cells in rows]))


@pytest.mark.parametrize(
    ("signs", "length", "chunk", "column"),
    [
        ('",\n a', 6, "1,{},2\n3,x,4\n", 2),
        ('",\r1', 6, "{},2\n", 0),
        ("01.e+-E \tx_nif", 3, "{},1\n", 0),
    ],
    ids=["text beside numbers", "numbers in marks", "numbers"],
)
def test_of_all_short_texts_arrow_is_sure_only_where_python_reads_the_same(
    signs: str, length: int, chunk: str, column: int
) -> None:
    width, n_sure = chunk.partition("\n")[0].count(",") + 1, 0
    text = ArrowText(",", width, [column], Missing.REFUSE)
    for cell in map(
        "".join, chain.from_iterable(product(signs, repeat=n) for n in range(length + 1))
    ):
        if (found := text.parse(chunk.format(cell).encode())) is not None:
            assert isinstance(found, ColumnBlock)
            assert list(map(float.hex, found.arrays[0].tolist())) == list(
                map(float.hex, by_python(chunk.format(cell), column, width))
            ), cell
            n_sure += 1
    assert n_sure > 20


def sure(
    text: str | bytes,
    missing: Missing = Missing.REFUSE,
    *,
    chosen: Sequence[int] = (0, 1),
    width: int = 2,
) -> bool:
    chunk = text.encode() if isinstance(text, str) else text
    return ArrowText(",", width, chosen, missing).parse(chunk) is not None


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1,2\r\n3,4\r5,6",
        "\n\n1,2\n\n",
        '"1","2"\n3,"4"\n"5",6',
        " 1, 2\t\n-.5e-3,+7.\n",
        f"1,{'9' * 5000}e-4999\n",
        "1,1e-999\n",
    ],
)
def test_arrow_is_sure_of_numbers_however_they_are_spelled(text: str) -> None:
    assert sure(text)


@pytest.mark.parametrize(
    "word",
    ["", "NA", "na", "NaN", "Nan", "null", "NULL", "?", " NA", " NaN", " ?", '"NA"', '""', " "],
)
def test_arrow_is_sure_of_missing_cells_where_such_records_are_left_out(word: str) -> None:
    assert sure(f"1,2\n3,{word}\n", Missing.DROP)
    assert not sure(f"1,2\n3,{word}\n")


@pytest.mark.parametrize(
    "note",
    [
        "text",
        '"a, b"',
        '"a ""b"" c"',
        '""',
        '""""',
        "größe",
        "it's",
        '"1,2"',
        "1_000",
        '","',
        "#",
        "\\",
        "x" * 60_000,
    ],
)
def test_arrow_is_sure_whatever_text_the_other_columns_hold(note: str) -> None:
    assert sure(f"1,{note},2\n{note},3,4\n", chosen=(2,), width=3)


@pytest.mark.parametrize(
    "note",
    [
        '"a',
        'a"',
        '"a"b',
        '"a" ',
        ' "a"',
        '"a\nb"',
        '"a\rb"',
        '"a"""b',
        "x" * 140_000,
        f'"{"x," * 70_000}"',
        b"\xff",
        "a,b",
        "a\nb",
    ],
)
@pytest.mark.parametrize("row", [0, 1, 2])
def test_arrow_is_not_asked_where_it_might_split_text_otherwise(
    note: str | bytes, row: int
) -> None:
    rows = [b"1,text,2\n"] * 3
    rows[row] = rows[row].replace(b"text", note.encode() if isinstance(note, str) else note)
    assert not sure(b"".join(rows), chosen=(2,), width=3)


@pytest.mark.parametrize(
    "cell",
    ["-nan", "nan(1)", "inf", "-inf", "1e999", "1_0", "0x1", "1e", "yes", "1 2", "  NA", "NA "],
)
@pytest.mark.parametrize("missing", Missing)
def test_arrow_is_not_sure_of_what_is_no_finite_number(cell: str, missing: Missing) -> None:
    assert not sure(f"1,2\n{cell},3\n", missing)


def test_a_long_file_is_read_by_arrow_but_for_its_beginning_and_for_the_chunk_with_an_odd_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_arrow: list[bool] = []
    parse = ArrowText.parse

    def watched(text: ArrowText, chunk: bytes) -> object:
        found = parse(text, chunk)
        by_arrow.append(found is not None)
        return found

    monkeypatch.setattr(ArrowText, "parse", watched)
    X = np.random.default_rng(0).normal(size=(3000, 4))
    lines = [",".join(map(repr, row)) for row in X.tolist()]
    lines[2000] = lines[2000].replace(",", ",\x0c")  # which float() takes for a space
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["a,b,c,d", *lines]))
    for size in (4000, 30_000, 1 << 20):
        by_arrow.clear()
        with chunks_of(1000, size, arrow=True):
            records = open_records(path)
            assert np.concatenate(list(records.blocks())).tobytes() == X.tobytes()
        assert by_arrow.count(False) == 1
        assert len(by_arrow) in range(
            (path.stat().st_size - 1000) // size, (path.stat().st_size - 1000) // size + 3
        )


@pytest.mark.parametrize("width", [2, 3000])
@pytest.mark.parametrize("columns", [None, NUMERIC, 2])
def test_tables_of_very_many_columns_are_read_whole_or_in_part(
    tmp_path: Path, width: int, columns: object
) -> None:
    X = np.random.default_rng(width).normal(size=(12, width))
    names = [f"c{i}" for i in range(width)]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join(names), *(",".join(map(repr, row)) for row in X.tolist())]))
    wanted = names[::-1][:2] if columns == 2 else columns
    with chunks_of(1 << 10, 1 << 17, arrow=True):
        found = np.concatenate(list(open_records(path, wanted).blocks()))  # type: ignore[arg-type]
    assert (
        found.tobytes() == np.ascontiguousarray(X[:, ::-1][:, :2] if columns == 2 else X).tobytes()
    )


@pytest.mark.parametrize("row", [3, 40, 90])
@pytest.mark.parametrize(
    "fault", [f"1,{SECRET}", "1", "1,2,3", f'1,"{SECRET}', f'1,"2"{SECRET}', "1,inf", '1,"2\n']
)
def test_a_fault_is_worded_by_pythons_parser_with_its_line(
    tmp_path: Path, row: int, fault: str
) -> None:
    lines = ["a,b", *(f"{i},{-i}" for i in range(100))]
    lines[row] = fault
    path = tmp_path / "fault.csv"
    path.write_text("\n".join(lines))
    sentences = set()
    for arrow in (False, True):
        with chunks_of(20, 64, arrow=arrow):
            sentences.add(refusal(lambda: list(open_records(path).blocks())))
    [sentence] = sentences
    assert sentence.startswith(f"{path}, line {row + 1}")


def test_no_thread_is_left_when_a_pass_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "1,2\n" * 1000)
    with chunks_of(20, 64, arrow=True):
        before = threading.active_count()
        blocks = open_records(path).column_blocks()
        assert sum(len(next(blocks)) for _ in range(3)) > 0
        assert threading.active_count() > before
        del blocks
        assert threading.active_count() == before


@pytest.mark.parametrize("missing", Missing)
def test_a_mark_of_utf_8_between_lines_is_refused_wherever_a_chunk_begins(
    tmp_path: Path, missing: Missing
) -> None:
    path = tmp_path / "two-files-in-one.csv"
    path.write_text("a,b\n1,2\n\ufeff3,4\n5,6\n", encoding="utf-8")
    for first in (3, 6, 9, 12):
        for arrow in (True, False):
            with chunks_of(first, 4, arrow=arrow):
                assert "line 3, column 'a': not a number" in refusal(
                    open_records(path, missing=missing).table
                )
