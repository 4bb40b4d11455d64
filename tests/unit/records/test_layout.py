"""Formats of text files: one reading fits all lines, or it is stated, or the file is refused."""

import gzip
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base import extras
from fastlloyd.errors import DataError
from fastlloyd.records import (
    NUMERIC,
    Layout,
    Missing,
    Table,
    delimited,
    open_records,
    read_csv,
    read_table,
)
from fastlloyd.records.declared import LAYOUT
from record_files import SECRET, refusal
from text_pairs import accepted, common_rows_differ, pair


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("layouts")


def read(
    folder: Path,
    text: str | bytes,
    layout: Layout | None = None,
    columns: Sequence[str] | None = None,
    name: str = "x.csv",
) -> Table:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_table(path, columns, layout=layout)


def refused(
    folder: Path,
    text: str | bytes,
    layout: Layout | None = None,
    columns: Sequence[str] | None = None,
    name: str = "x.csv",
) -> tuple[str, str | None]:
    """Return code and field of the error that refuses a file, whose message shows no cell."""
    with pytest.raises(DataError) as error:
        read(folder, text, layout, columns, name)
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)
    return error.value.code, error.value.field


# Fields


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("separator", ["", "ab", "a", "1", '"', ".", "-", "\n", "é", "\x00", 7]),
        ("decimal", ["", ";", "..", "point"]),
        ("thousands", ["", "_", ";", "..", "a"]),
        (
            "encoding",
            [
                "",
                "utf-9",
                "rot13",
                "base64",
                "idna",
                "punycode",
                "unicode_escape",
                "hex",
                "utf-7",
                "hz",
                "iso2022_jp",
                "iso2022_kr",
            ],
        ),
        ("header", ["", "maybe", "Yes", "true"]),
        ("skip_lines", [-1, 10_001, 1.5, "2", True, None]),
        ("missing_words", ["k.A.", ("",), (" ",), (7,), ("a\nb",), 7]),
    ],
)
def test_a_field_that_cannot_be_used_is_refused_by_its_name(field: str, values: list[str]) -> None:
    for value in values:
        with pytest.raises(DataError) as refused:
            Layout(**{field: value})  # type: ignore[arg-type]
        assert (refused.value.code, refused.value.field) == (LAYOUT, field)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"separator": ",", "decimal": ","}, "decimal"),
        ({"decimal": ",", "thousands": ","}, "thousands"),
        ({"separator": ";", "thousands": "point", "decimal": "."}, "thousands"),
        ({"separator": ",", "thousands": "."}, "thousands"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields: dict[str, str], field: str) -> None:
    with pytest.raises(DataError) as refused:
        Layout(**fields)  # type: ignore[arg-type]
    assert (refused.value.code, refused.value.field) == (LAYOUT, field)


def test_names_stand_for_characters_and_what_is_not_stated_is_none() -> None:
    assert Layout(separator="tab").separator == Layout(separator="\\t").separator == "\t"
    assert Layout(thousands="point").thousands == "."
    assert Layout(encoding="windows-1252").encoding == "cp1252"
    assert Layout().stated == ()
    assert Layout(header="no", skip_lines=1).stated == ("header", "skip_lines")


# The rule


@pytest.mark.parametrize(
    ("text", "names", "values"),
    [
        ("34,170\n", ["x1", "x2"], [[34, 170]]),
        ("34;1,2\n", ["x1", "x2"], [[34, 1.2]]),
        ("34;12\n", ["x1", "x2"], [[34, 12]]),
        ("1,5;2,5\n3;4\n", ["x1", "x2"], [[1.5, 2.5], [3, 4]]),
        ("34\t1.2\n", ["x1", "x2"], [[34, 1.2]]),
        ("34\t1,2\n", ["x1", "x2"], [[34, 1.2]]),
        ("34;22,5\n55;30,1\n", ["x1", "x2"], [[34, 22.5], [55, 30.1]]),
        ("age;height, cm\n34;170\n", ["age", "height, cm"], [[34, 170]]),
        ("age,height; cm\n34,170\n", ["age", "height; cm"], [[34, 170]]),
        ("age;dose, mg;x\n1;2,5;3\n", ["age", "dose, mg", "x"], [[1, 2.5, 3]]),
        ('"height, cm"\n170\n', ["height, cm"], [[170]]),
        ("x\n1.5\n", ["x"], [[1.5]]),
    ],
)
def test_the_only_reading_that_fits_all_lines_is_taken(
    folder: Path, text: str, names: list[str], values: list[list[float]]
) -> None:
    table = read(folder, text)
    assert (list(table.columns), table.values.tolist()) == (names, values)


@pytest.mark.parametrize(
    ("text", "columns", "field"),
    [
        ("5,6;7\n", ["x1"], "separator"),  # 5, or 5.6
        ("2;5\t\n", ["x2"], "separator"),  # 5, or missing
        ("1,5\t,2\n", None, "separator"),  # three numbers, or two
        ("a;b,c\nd;1,5\n1;2,5\n", None, None),
        ("1;2,5\n1;2.5\n", None, None),
        ("34,5\n7\n", None, None),
        ("7\n34;5\n", None, "skip_lines"),
        ("7\n34\t5\n", None, "skip_lines"),
        ("7\n5\t\n", None, "skip_lines"),
        ("1,5;2,5\n1.5;2\n", None, None),
        ("1\t1,5\t1\n", None, "separator"),  # a record with tabs, or a header with commas
    ],
)
def test_a_file_that_no_reading_or_several_readings_fit_is_refused(
    folder: Path, text: str, columns: list[str] | None, field: str | None
) -> None:
    code, found = refused(folder, text, None, columns)
    assert (code, found) == (LAYOUT if field else "data", field)


@pytest.mark.parametrize("first", [1, 1 << 16])
@pytest.mark.parametrize("parser", ["Arrow", "Python"])
def test_a_late_line_settles_the_decimal_mark(
    folder: Path, monkeypatch: pytest.MonkeyPatch, first: int, parser: str
) -> None:
    monkeypatch.setattr(delimited, "FIRST_BYTES", first)
    monkeypatch.setattr(delimited, "CHUNK_BYTES", 64)
    if parser == "Python":
        monkeypatch.setattr(extras, "optional", lambda _: None)
    lines = [f"{i};{i}" for i in range(500)]
    for mark in ",.":
        table = read(folder, "\n".join(["a;b", *lines, f"1;2{mark}5"]))
        assert table.values[-1].tolist() == [1, 2.5]
        assert np.array_equal(table.values[:-1], np.arange(500)[:, None] * [1.0, 1.0])
    refused(folder, "\n".join(["a;b", *lines, "1;2,5", "1;2.5"]))
    path = folder / "notes.csv"
    path.write_text("\n".join(["a;b;note", *(f"{line};1.2.2024, ok" for line in lines), "1;2,5;"]))
    assert read_table(path, ["a", "b"]).values[-1].tolist() == [1, 2.5]


@pytest.mark.parametrize("header", [None, "yes"])
@pytest.mark.parametrize("text", ["p1,34,surgery\n", "34,34,surgery\n", "p1;34;surgery\n"])
@pytest.mark.parametrize(("columns", "unit"), [(["age"], None), (["x2"], "id"), (["34"], "id")])
def test_a_record_that_is_taken_for_a_header_is_not_shown(
    folder: Path, header: str | None, text: str, columns: list[str], unit: str | None
) -> None:
    path = folder / "secret.csv"
    path.write_text(text * 3)
    with pytest.raises(DataError) as refused:
        open_records(path, columns, unit=unit, layout=Layout(header=header, separator=","))
    assert not any(
        cell in str(refused.value) for cell in ("surgery", "p1", "34") if cell not in columns
    )


@pytest.mark.parametrize("columns", [["a", "b"], NUMERIC])
def test_the_rows_below_a_header_that_fills_the_first_chunk_are_tried_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, columns: Any
) -> None:
    monkeypatch.setattr(delimited, "FIRST_BYTES", 1)
    for mark in ",.":
        text = "a;b\n" + "1;2\n" * 120 + f"1;2{mark}5\n"
        path = folder / "wide.csv"
        path.write_text(text)
        assert open_records(path, columns).table().values[-1].tolist() == [1, 2.5]


def test_a_late_line_settles_the_separator(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "FIRST_BYTES", 1)
    lines, headless = "\n".join(["5,6;7"] * 200), Layout(header="no")
    assert refused(folder, lines, headless, ["x1"]) == (LAYOUT, "separator")
    assert read(folder, f"{lines}\n5,5\n", headless, ["x1"]).values[:, 0].tolist() == [5] * 201
    assert read(folder, f"{lines}\n5;5\n", headless, ["x1"]).values[:2, 0].tolist() == [5.6] * 2


def test_a_replaced_record_cannot_change_the_separator_only_if_it_is_stated_or_in_the_header(
    folder: Path,
) -> None:
    path = folder / "x.csv"
    for text, layout, fixed in (
        ("a,b\n1,2\n", None, True),
        ("1,2\n3,4\n", None, False),
        ("1,2\n3,4\n", Layout(separator=","), True),
        ("a,b;c\n1,2\n", None, False),
        ("7\n8\n", None, True),
    ):
        path.write_text(text)
        assert open_records(path, layout=layout).has_fixed_separator is fixed


def test_tsv_has_tabs_and_a_layout_has_no_effect_on_other_formats(folder: Path) -> None:
    assert read(folder, "a,b\tc\n1\t2,5\n", name="x.tsv").columns == ("a,b", "c")
    packed = gzip.compress(b"a,b\n1\n2\n")
    assert read(folder, packed, name="x.tsv.gz").columns == ("a,b",)
    np.save(folder / "x.npy", np.ones((2, 2)))
    with pytest.raises(DataError) as refused:
        open_records(folder / "x.npy", layout=Layout(decimal=","))
    assert (refused.value.code, refused.value.field) == (LAYOUT, "decimal")


# Statements


@pytest.mark.parametrize("parser", ["Arrow", "Python"])
@pytest.mark.parametrize(
    ("text", "fields", "values"),
    [
        ("a\n34,5\n", {"decimal": ","}, [[34.5]]),
        ("a\n34,5\n7\n", {"separator": "semicolon"}, [[34.5], [7]]),
        ("a;b\n1.234,5;-1.000\n", {"thousands": "."}, [[1234.5, -1000]]),
        ("a;b\n1 234;1'0\n", {"thousands": "space"}, None),
        ("a;b\n12.34;1\n", {"thousands": "."}, None),
        ("a;b\n1'234'567.5;1\n", {"thousands": "'"}, [[1234567.5, 1]]),
        ("a b\n1 2.5\n", {"separator": "space"}, [[1, 2.5]]),
        ('"a" "b"\n"1" 2,5\n', {"separator": " "}, [[1, 2.5]]),
        ("a|b\n1|2\n", {"separator": "|"}, [[1, 2]]),
        ("t\n\na,b\n1,2\n", {"skip_lines": 2}, [[1, 2]]),
        ("s,2022\n1,2\n", {"header": "yes"}, [[1, 2]]),
        ("1,2,3\n4,5,6\n", {"header": "no"}, [[1, 2, 3], [4, 5, 6]]),
        ("1,2,3\n4,5,6\n", {"header": "yes"}, [[4, 5, 6]]),
        ("a,b\n1.5,2\n", {"decimal": ","}, None),
    ],
)
def test_what_is_stated_is_honoured(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    parser: str,
    text: str,
    fields: dict[str, str | int],
    values: list[list[float]] | None,
) -> None:
    monkeypatch.setattr(delimited, "FIRST_BYTES", 1)
    if parser == "Python":
        monkeypatch.setattr(extras, "optional", lambda _: None)
    layout = Layout(**fields)  # type: ignore[arg-type]
    if values is None:
        refused(folder, text, layout)
    else:
        assert read(folder, text, layout).values.tolist() == values


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "cp1252", "latin-1", "utf-16", "utf-16-le", "utf-32", "cp037", "cp500",
     "shift_jis", "gb18030", "mac-roman"],
)  # fmt: skip
def test_text_in_a_stated_encoding_is_read_as_in_utf_8(folder: Path, encoding: str) -> None:
    name = "größe" if encoding not in ("shift_jis", "gb18030") else "大きさ"
    text = f"{name};b\r\n" + "".join(f"{i},5;{i}\r\n" for i in range(30_000))
    table = read(folder, text.encode(encoding), Layout(encoding=encoding))
    assert table.columns == (name, "b")
    assert np.array_equal(table.values, np.arange(30_000)[:, None] + [0.5, 0.0])


def test_text_that_is_not_in_its_encoding_is_refused_and_no_other_encoding_is_tried(
    folder: Path,
) -> None:
    for content, layout in (
        ("größe,b\n1,2\n".encode("cp1252"), None),
        ("a,b\n1,2\n".encode("utf-16"), None),
        ("a,b\n1,2\n".encode("utf-16-le"), None),
        (b"a,b\n\x81,2\n", Layout(encoding="cp1252")),
        (b"a,b\n1,2\n", Layout(encoding="utf-16")),
    ):
        assert refused(folder, content, layout, ["b"]) == (LAYOUT, "encoding")


@pytest.mark.parametrize("parser", ["Arrow", "Python"])
def test_stated_words_are_missing_in_any_case_and_in_ids_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, parser: str
) -> None:
    monkeypatch.setattr(delimited, "FIRST_BYTES", 1)
    if parser == "Python":
        monkeypatch.setattr(extras, "optional", lambda _: None)
    path, layout = folder / "x.csv", Layout(missing_words=("k.A.", "-9", "\u2013"))
    cells = ["k.A.", "K.a.", " k.A. ", "-9", "-9 ", "\u2013", "NA", ""]
    path.write_text("who;a;b\n" + "".join(f"p;{cell};1\n" for cell in cells) + "p;-9,0;2\n")
    table = read_table(path, ["a", "b"], missing=Missing.DROP, layout=layout)
    assert table.values.tolist() == [[-9.0, 2]]
    assert "missing" in refusal(lambda: read_table(path, ["a"], layout=layout))
    path.write_text("who;a\np;1\nk.a.;2\n")
    assert "id is missing" in refusal(lambda: read_table(path, unit="who", layout=layout))
    assert len(read_table(path, unit="who").values) == 2


# The first line


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Na,K,Cl\n1,2,3\n", ["Na", "K", "Cl"]),
        ("null,inf,age\n1,2,3\n", ["null", "inf", "age"]),
        ("K,NaN\n1,2\n", ["K", "NaN"]),
        ("1,NA\n2,3\n", None),
        ("5,6,7\n8,9,10\n", None),
        ("2019,2020\n2021,2019\n", None),
        ("1,2\n3,4\n", None),
    ],
)
def test_a_first_line_without_numbers_is_a_header_and_one_of_numbers_is_none(
    folder: Path, text: str, names: list[str] | None
) -> None:
    (folder / "x.csv").write_text(text)
    columns = open_records(folder / "x.csv", missing=Missing.DROP).columns
    assert list(columns) == (names or [f"x{i}" for i in range(1, 1 + len(columns))])


@pytest.mark.parametrize(
    "text",
    [
        "state,2022\n1,2\n",
        "age,2022,2023\n1,2,3\n",
        "id,1\n5,6\n",
        "NA,?\n1,2\n",
        "Na,NaN\n1,2\n",
        f"{SECRET},?\n1,2\n",
        "0,1,2\n5,6,7\n",
        "1,2,3,4\n5,6,7,8\n",
        "2019,2020,2021\n5,6,7\n",
        "x2,x1\n1,2\n",
    ],
)
def test_a_first_line_that_is_not_clear_is_refused_until_it_is_stated(
    folder: Path, text: str
) -> None:
    assert refused(folder, text) == (LAYOUT, "header")
    stated = read(folder, text, Layout(header="yes"))
    assert len(stated.values) == 1


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("Ward statistics 2024\n\nage,bmi\n34,22.5\n", "skip_lines"),
        ("Report\nage;bmi;x\n34;22,5;1\n", "skip_lines"),
        ("Title\n\n\nage\tbmi\n34\t22.5\n", "skip_lines"),
        ('"age","bmi"\n"1",34,22.5\n"2",55,30.1\n', "header"),
        ('"age";"bmi"\n"ann";34;22,5\n"bob";55;30,1\n', "header"),
        ("age,bmi\nr1,34,22.5\nr2,55,30.1\n", "header"),
        ('"age" "bmi"\n"1" 34 22.5\n"2" 55 30.1\n', "separator"),
        ("age bmi\n34 22.5\n55 30.1\n", "separator"),
        ("34 22.5\n55 30.1\n", "separator"),
        ("ID,NAME,B1\nGeo,Area Name,Estimate\nUS1,Autauga,55639\n", "skip_lines"),
        ("a,b\ncm,kg\n1,2\n", "skip_lines"),
        ("a;b\ncm;\n1;2,5\n", "skip_lines"),
        ("sep=;\na;b\n1;2\n", "skip_lines"),
    ],
)
def test_lines_above_a_table_row_names_and_spaces_are_refused_with_what_to_state(
    folder: Path, text: str, field: str
) -> None:
    columns = ["B1"] if "B1" in text else None
    assert refused(folder, text, None, columns) == (LAYOUT, field)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("\ufeff\ufeffage,bmi\n1,2\n", ["age", "bmi"]),
        ("\ufeff\ufeff\ufeffage;bmi\n1;2,5\n", ["age", "bmi"]),
        ("\ufeffage\n1\n", ["age"]),
        ('"age\n(years)",bmi\n1,2\n', ["age (years)", "bmi"]),
        ('"age \r\n  (years)";bmi\n1;2\n', ["age (years)", "bmi"]),
        ('bmi\t"age\n\n(years)"\n1\t2\n', ["bmi", "age (years)"]),
    ],
)
def test_byte_order_marks_and_line_breaks_in_names_leave_no_trace(
    folder: Path, text: str, names: list[str]
) -> None:
    assert list(read(folder, text).columns) == names


def test_a_proposal_of_columns_of_numbers_takes_the_notation_that_reads_more_of_them(
    folder: Path,
) -> None:
    path = folder / "x.csv"
    path.write_text("who;age;dose\np1;34;1,5\np2;35;2,5\n")
    assert open_records(path, NUMERIC).columns == ("age", "dose")


# Neighbours


@settings(max_examples=400)
@given(st.randoms(use_true_random=False))
def test_two_accepted_files_that_differ_by_one_line_read_their_common_lines_alike(
    folder: Path, draw: random.Random
) -> None:
    one = pair(draw)
    assert not common_rows_differ(folder, one, draw)


@pytest.mark.campaign
def test_a_hundred_thousand_pairs_of_files_read_their_common_lines_alike(folder: Path) -> None:
    draw, n_accepted = random.Random(20_261_127), 0  # noqa: S311 - of texts
    for _ in range(100_000):
        one = pair(draw)
        assert not common_rows_differ(folder, one, draw), one
        n_accepted += accepted(folder, one)
    assert n_accepted > 1000


# Mutated tables

COLUMNS = ["age", "dose", "ward"]
ROWS = [[34, 1.5, 1], [55, -0.25, 2], [61, 1234.5, 3], [18, 0.0, 1]]


def mutated(draw: random.Random) -> tuple[bytes, str, Layout]:
    """Return a file with the table above, written somehow, its name, and a layout of it."""
    separator = draw.choice(",;\t")
    decimal = "." if separator == "," else draw.choice(".,")
    head = draw.choice([[COLUMNS], [COLUMNS], [[f'"{name}"' for name in COLUMNS]], []])
    rows = [[f"{cell:.17g}".replace(".", decimal) for cell in row] for row in ROWS]
    if draw.random() < 0.2:
        rows = [[f'"{cell}"' for cell in row] for row in rows]
    lines = [separator.join(row) for row in [*head, *rows]]
    if draw.random() < 0.2:
        lines.insert(draw.randrange(len(lines) + 1), "")
    title = draw.choice([[], [], ["A title"], ["Two", ""]])
    encoding = draw.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252"])
    mark = "" if encoding != "utf-8" else draw.choice(["", "\ufeff", "\ufeff\ufeff"])
    text = mark + draw.choice(["\n", "\r\n", "\r"]).join([*title, *lines, ""])
    stated = Layout(
        separator=draw.choice([None, separator]),
        decimal=draw.choice([None, decimal]),
        encoding=draw.choice([None, encoding]),
        header=draw.choice([None, "yes" if head else "no"]),
        skip_lines=draw.choice([0, len(title)]),
    )
    content = text.encode(encoding)
    suffix = ".tsv" if separator == "\t" and draw.random() < 0.5 else ".csv"
    if draw.random() < 0.2:
        return gzip.compress(content), f"x{suffix}.gz", stated
    return content, f"x{suffix}", stated


def test_mutated_tables_give_the_table_or_one_sentence(folder: Path) -> None:
    draw, n_read = random.Random(7), 0  # noqa: S311 - of texts
    refusals = list[tuple[str, int]]()
    for _ in range(200):
        content, name, stated = mutated(draw)
        try:
            table = read(folder, content, stated, name=name)
        except DataError as error:
            refusals.append((error.code, str(error).count("\n")))
        else:
            n_read += 1
            assert table.values.tolist() == ROWS, (content, stated)
            assert list(table.columns) in (COLUMNS, ["x1", "x2", "x3"])
    assert n_read > 100
    assert set(refusals) == {(LAYOUT, 0)}


def test_read_csv_takes_a_layout_too(folder: Path) -> None:
    path = folder / "x.txt"
    path.write_text("34,5\n")
    assert read_csv(path, layout=Layout(decimal=",")).values.tolist() == [[34.5]]
