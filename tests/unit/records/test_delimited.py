"""Reading text files: what is read is what was written, and every refusal says where and never
what.
"""

import csv
import gzip
import io
import os
import signal
import struct
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd.records import Layout, delimited, files, read_csv, stores
from fastlloyd.records.lines import chunks
from record_files import SECRET, matrices, refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def write(folder: Path, text: str, name: str = "patients.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


# How it arrives


def unread(pipe: IO[bytes]) -> int:
    """How many bytes are in a pipe, as Linux says."""
    import fcntl
    import termios

    number: int = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
    return number


def arriving(path: Path, parts: Iterable[bytes]) -> threading.Thread:
    """Make a pipe into which these parts come, one after the other, and then its end."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)

    def write() -> None:
        with suppress(BrokenPipeError), path.open("wb", buffering=0) as pipe:
            for number, part in enumerate(parts):
                pipe.write(part)
                while number < 3 and unread(
                    pipe
                ):  # the first ones come one by one, also where the reader is slow
                    time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    return writer


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux whether a pipe has been emptied")
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("step", [1, 2, 7, 5000, 100_000])
def test_text_that_drips_from_a_pipe_comes_in_the_same_chunks_as_that_of_a_file(
    folder: Path, step: int, packed: bool
) -> None:
    text = "\ufeffa,b\n".encode() + b"".join(b"%d,%d\n" % (n, n * n) for n in range(3000)) + b"1,2"
    content = gzip.compress(text, compresslevel=0) if packed else text
    (folder / "whole.csv").write_bytes(content)
    sizes = [64, 1000, *[4096] * 100]
    expected = list(chunks(str(folder / "whole.csv"), sizes))
    writer = arriving(
        folder / "drips.csv", [content[at : at + step] for at in range(0, len(content), step)]
    )
    found = list(chunks(str(folder / "drips.csv"), sizes))
    writer.join()
    assert found == expected
    assert b"".join(found) == text.removeprefix(b"\xef\xbb\xbf")
    assert len(found) > 5
    assert all(found)
    assert [chunk[-1:] for chunk in found[:-1]] == [b"\n"] * (len(found) - 1)


@pytest.mark.skipif(os.name != "posix", reason="these systems have no such pipes")
def test_what_is_late_in_a_pipe_that_does_not_wait_is_not_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some systems open /dev/stdin as it is, others anew."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"a,b\n1,2\n")

    def later() -> None:
        time.sleep(0.1)
        os.write(writing, b"3,4\n")
        os.close(writing)

    monkeypatch.setattr(Path, "open", lambda *_: os.fdopen(reading, "rb"))
    writer = threading.Thread(target=later)
    writer.start()
    assert b"".join(chunks("/dev/stdin", [1 << 16] * 9)) == b"a,b\n1,2\n3,4\n"
    writer.join()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux whether a pipe has been emptied")
def test_a_ctrl_c_between_two_arrivals_is_heard_at_the_next_and_not_only_when_all_is_there(
    folder: Path,
) -> None:
    path, was_heard, was_late = folder / "slow.csv", threading.Event(), threading.Event()

    def parts() -> Iterator[bytes]:
        yield b"a,b\n1,2\n"  # and then it has been taken out
        time.sleep(0.1)  # until the reader waits
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.pthread_kill(
            threading.get_ident(), signal.SIGINT
        )  # to this thread: the one that waits is not woken
        yield b"3,4\n"
        if not was_heard.wait(5):
            was_late.set()

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    handler = signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell has what runs in the background ignore it
    try:
        writer = arriving(path, parts())
        with pytest.raises(KeyboardInterrupt):
            list(chunks(str(path), [1 << 16, 1 << 16]))
        was_heard.set()
        writer.join()
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert not was_late.is_set()


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_a_store_is_asked_for_whole_buffers_and_for_each_byte_once(
    packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"12,34\n" * 30_000
    content, asked = gzip.compress(text, compresslevel=0) if packed else text, list[int]()

    class Stored(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            part = content[sum(asked) :][: len(buffer)]
            buffer[: len(part)] = part
            asked.append(len(part))
            return len(part)

    monkeypatch.setattr(stores, "open_object", lambda _: Stored())
    monkeypatch.setattr(files.open_binary, "__kwdefaults__", {"buffer": 1 << 16})
    assert b"".join(chunks("s3://hospital/visits.csv", [1000] * 300)) == text
    assert [size for size in asked if size] == [1 << 16, 1 << 16, len(content) - (1 << 17)]


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux which files are open")
@pytest.mark.parametrize(
    "text", ["a,b\n1,x\n", "a,b\nc,d\n", "a,b\n", "sep=,\na,b\n", "a,b\n" + 200 * "1,2\n" + "1\n"]
)
def test_a_file_that_is_refused_is_closed_then_and_not_when_the_refusal_is_forgotten(
    folder: Path, text: str
) -> None:
    path = write(folder, text)
    with pytest.raises(DataError) as refused:
        read_csv(path)
    assert path.resolve() not in {each.resolve() for each in Path("/proc/self/fd").iterdir()}
    assert str(refused.value).startswith(str(path))  # and it keeps what was at work


# What is written is read


@given(
    X=matrices(),
    header=st.booleans(),
    delimiter=st.sampled_from(",;\t"),
    newline=st.sampled_from(["\n", "\r\n", "\r"]),
    quoting=st.sampled_from([0, 1]),
    bom=st.booleans(),
    packed=st.booleans(),
    block=st.sampled_from([1, 7, 1 << 16]),
)
def test_every_float64_survives_the_round_trip_in_every_dialect(
    folder: Path,
    X: npt.NDArray[np.float64],
    header: bool,
    delimiter: str,
    newline: str,
    quoting: Literal[0, 1],  # csv.QUOTE_MINIMAL, csv.QUOTE_ALL
    bom: bool,
    packed: bool,
    block: int,
) -> None:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator=newline, quoting=quoting)
    names = (
        [f"column {i}" for i in range(X.shape[1])]
        if header
        else [f"x{i + 1}" for i in range(X.shape[1])]
    )
    writer.writerows([names] * header + [list(map(repr, map(float, row))) for row in X])
    content = text.getvalue().encode("utf-8-sig" if bom else "utf-8")
    path = folder / "round-trip.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BLOCK_CELLS", block)
        table = read_csv(path)
    assert table.columns == tuple(names)
    assert table.values.tobytes() == X.tobytes()


@given(X=matrices(), style=st.sampled_from(["%.17g", "%.6f", "%e", "%+.3E"]))
def test_the_reader_and_numpy_read_the_same_numbers(
    folder: Path, X: npt.NDArray[np.float64], style: str
) -> None:
    path = folder / "numpy.csv"
    np.savetxt(
        path, X / 2, fmt=style, delimiter=","
    )  # halved, so that rounding to the style stays finite
    assert np.array_equal(read_csv(path).values, np.loadtxt(path, delimiter=",", ndmin=2))


@given(st.permutations(["age", "bmi", "mean radius", "a,b"]), st.integers(1, 4))
def test_chosen_columns_come_in_the_order_asked_whatever_the_others_hold(
    folder: Path, order: list[str], n: int
) -> None:
    path = write(
        folder, 'name,age,bmi,mean radius,"a,b"\n"Smith, J",1,2,3,4\n"O\'Neill, ""X""",5,6,7,8\n'
    )
    values = {"age": [1.0, 5.0], "bmi": [2.0, 6.0], "mean radius": [3.0, 7.0], "a,b": [4.0, 8.0]}
    table = read_csv(path, order[:n])
    assert table.columns == tuple(order[:n])
    assert table.values.T.tolist() == [values[name] for name in order[:n]]


@pytest.mark.parametrize(
    ("text", "columns", "values"),
    [
        ("1,2\n3,4\n", ("x1", "x2"), [[1, 2], [3, 4]]),
        ("a,b\n1,2", ("a", "b"), [[1, 2]]),
        (" a , b \n 1 , 2 \n", ("a", "b"), [[1, 2]]),
        ("\n\na,b\n\n1,2\n\n3,4\n\n", ("a", "b"), [[1, 2], [3, 4]]),
        ("x\n1\n2\n\n\n", ("x",), [[1], [2]]),
        ("\n\nx\n1\n", ("x",), [[1]]),
        ("1;2\n3;4\n", ("x1", "x2"), [[1, 2], [3, 4]]),
        ('"a, in cm";b\n1;2\n', ("a, in cm", "b"), [[1, 2]]),
        ("a\tb\n1\t2\n", ("a", "b"), [[1, 2]]),
        ("a;b,c\n1,2\n", ("a;b", "c"), [[1, 2]]),
        ('a, "b, c"\n1, "2"\n', ("a", "b, c"), [[1, 2]]),
        ("größe,数\n1,2\n", ("größe", "数"), [[1, 2]]),
        ('a,"b\nc"\n1,2\n', ("a", "b c"), [[1, 2]]),
        ('\n"a\r\n(cm, kg)";"b\n"\n1;2\n', ("a (cm, kg)", "b"), [[1, 2]]),
        ('"a\nb"\n1\n2\n', ("a b",), [[1], [2]]),
        ('size 5", b,note\n1, 2,5" pipe\n3,4,"5"" pipe"\n', ("b",), [[2], [4]]),
        ("1e3,-.5\n+2.,0\n", ("x1", "x2"), [[1000, -0.5], [2, 0]]),
    ],
)
def test_tables_have_the_values_worked_out_by_hand(
    folder: Path, text: str, columns: tuple[str, ...], values: list[list[float]]
) -> None:
    table = read_csv(write(folder, text), columns if "note" in text else None)
    assert (table.columns, table.values.tolist()) == (columns, values)


def test_a_text_column_of_a_file_without_header_can_be_left_out(folder: Path) -> None:
    path = write(folder, f"{SECRET},1,2\n{SECRET},3,4\n")
    stated = Layout(header="no")
    assert read_csv(path, ["x3", "x2"], layout=stated).values.tolist() == [[2, 1], [4, 3]]
    assert "line 1, column 'x1': not a number" in refusal(lambda: read_csv(path, layout=stated))
    assert "--header" in refusal(lambda: read_csv(path, ["x3", "x2"]))


def test_an_index_column_without_a_name_can_be_left_out_but_is_not_taken_for_a_feature(
    folder: Path,
) -> None:
    path = write(folder, ",age\n0,41\n1,42\n")
    assert read_csv(path, ["age"]).values.tolist() == [[41], [42]]
    assert (
        "column 1 has no name; if it is the index of a pandas frame, write the file with"
        " index=False" in refusal(lambda: read_csv(path))
    )
    assert "column ''" in refusal(lambda: read_csv(path, [""]))


def test_a_long_file_is_read_in_blocks_and_the_line_of_a_late_fault_is_right(folder: Path) -> None:
    lines = ["a,b", *(f"{i},{-i}" for i in range(50_000))]
    table = read_csv(write(folder, "\n".join(lines)))
    assert np.array_equal(table.values, np.arange(50_000)[:, None] * [1.0, -1.0])
    lines[45_678] = f"1,{SECRET}"
    assert "line 45679, column 'b'" in refusal(lambda: read_csv(write(folder, "\n".join(lines))))


def test_the_memory_beyond_the_table_does_not_grow_with_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "CHUNK_BYTES", 1 << 16)

    def extra(n: int) -> float:
        path = write(folder, "0.123456789,2,3,4\n" * n, f"{n}.csv")
        tracemalloc.start()
        try:
            table = read_csv(path)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        return peak - float(table.values.nbytes)

    # 80,000 further records: 2.6 MB as numbers, over 15 MB as text in Python; the growing array
    # holds some in reserve.
    assert extra(140_000) - extra(60_000) < 80_000 * 32 / 4


# Refusals: file, line, column, never the value


@pytest.mark.parametrize(
    ("text", "columns", "where", "what"),
    [
        (f"age,sex\n41,1\n42,{SECRET}\n", None, "line 3, column 'sex'", "--columns"),
        (f"age,sex\n41,1\n{SECRET},2\n", ["sex", "age"], "line 3, column 'age'", "not a number; correct the cell, or if the cell stands"),
        ("age,sex\n41,yes\n", ["sex"], "line 2, column 'sex'", "as 1 and 0, or if the cell stands"),
        ("age,sex\n41,1_000\n", None, "line 2, column 'sex'", "not a number"),
        ("age,sex\n41,٣\n", None, "line 2, column 'sex'", "not a number"),
        ("age,sex\n41,0x1F\n", None, "line 2, column 'sex'", "not a number; correct the cell, or choose"),
        *((f"age,sex\n41,{cell}\n", None, "line 2, column 'sex'", "not a number; write yes and no, or true and false, as 1 a")
          for cell in ("True", "false", "YES", " no", "y")),
        *((f"age;sex\n41;{cell}\n", None, "line 2, column 'sex'", "write decimals with")
          for cell in ("1.234,5", "1,234,567")),
        ("age,sex\n41,\u00a0\n", None, "line 2, column 'sex'", "not a number"),
        ('age,sex\n41,"1,5"\n', None, "line 2, column 'sex'", "decimals with a point"),
        ("age,dose\n41,1,5\n", None, "line 2", "a decimal comma (write 3.14, not 3,14)"),
        *((f"age,sex\n41,{cell}\n", None, "line 2, column 'sex'", "missing; fill it in") for cell in
          ("", " ", "NA", "NA ", "na", "NaN", "nan", "null", "NULL", "?", '""')),
        (f"age,note\n,{SECRET}\n", ["age"], "line 2, column 'age'", "missing"),
        ("1,2\n3,?\n", None, "line 2, column 'x2'", "missing"),
        ("NA,2\n", None, "line 1, column 'x1'", "missing"),
        ("NA,?\n1,2\n", None, "line 1", "missing"),
        ("age\n41\n\n42\n", None, "line 3, column 'age'", "missing"),
        ('age\n41\n""\n', None, "line 3, column 'age'", "missing"),
        (f"a,b\n1,2\n3,{SECRET},4\n", None, "line 3", "3 cell(s) and the first row 2"),
        (f"a,b\n1,2\n\n{SECRET}\n", None, "line 4", "1 cell(s) and the first row 2"),
        (f"a,b,c\n1,2,3\n1,{SECRET}\n", ["a"], "line 3", "separator"),
        (f'a,b\n1,"2\n{SECRET},3\n', None, "line 2", "a quotation mark stays open"),
        (f'a,b\n1,"2"{SECRET}\n', None, "line 2", "quotation mark has no partner"),
        (f"a,b\n1,{SECRET * 20_000}\n", ["a"], "line 2", "far too long"),
        (f"id,2019\n{SECRET},3\n", None, "line 1", "mixes names and numbers; pass --header yes"),
    ],
)  # fmt: skip
def test_a_faulty_cell_or_row_is_refused_with_file_line_and_column(
    folder: Path, text: str, columns: list[str] | None, where: str, what: str
) -> None:
    path = write(folder, text)
    sentence = refusal(lambda: read_csv(path, columns))
    assert sentence.startswith(f"{path}, {where}")
    assert what in sentence
    assert (
        columns is None or "--columns" not in sentence
    )  # who has chosen them, or has a plan that did, cannot choose others


@pytest.mark.parametrize(
    "cell", ["nan", "NaN", "-nan", "inf", "-inf", "Infinity", "1e999", "-1e999"]
)
@pytest.mark.parametrize("line", [2, 3, 4])
def test_w22_nan_and_inf_are_refused_with_line_and_column(
    folder: Path, cell: str, line: int
) -> None:
    rows = ["age,bmi,dose", "1,2,3", "4,5,6", "7,8,9"]
    rows[line - 1] = f"1,{cell},3"
    path = write(folder, "\n".join(rows))
    sentence = refusal(lambda: read_csv(path))
    assert sentence.startswith(f"{path}, line {line}, column 'bmi': ")
    assert "e999" not in sentence
    assert read_csv(path, ["dose"]).values.shape == (
        3,
        1,
    )  # the column is what is refused, not the file


@pytest.mark.parametrize(
    ("text", "columns", "what"),
    [
        ("", None, "the file is empty"),
        ("\n\r\n", None, "the file is empty"),
        ("\ufeff", None, "the file is empty"),
        ("a,b\n", None, "a header and no records"),
        ("a,b", ["a"], "a header and no records"),
        (f"a,b,a\n{SECRET},2,3\n", None, "'a' occurs 2 times"),
        (f"a,b,a\n{SECRET},2,3\n", ["b"], "'a' occurs 2 times"),
        (
            f"age,bmi\n{SECRET},2\n",
            ["aeg"],
            "there is no column 'aeg' (did you mean 'age'?); the columns are 'age', 'bmi'",
        ),
        (
            "1,2\n",
            ["age"],
            "(no header in its first line): there is no column 'age'; the columns are 'x1', 'x2'",
        ),
        ("a,b\n1,2\n", ["a", "a"], "'a' occurs 2 times"),
        ("a,b\n1,2\n", [], "no columns are chosen"),
    ],
)
def test_a_file_without_records_or_columns_as_asked_is_refused(
    folder: Path, text: str, columns: list[str] | None, what: str
) -> None:
    path = write(folder, text)
    sentence = refusal(lambda: read_csv(path, columns))
    assert what in sentence
    assert str(path) in sentence or "chosen columns" in sentence


def test_a_table_with_decimal_commas_throughout_is_read_as_such(folder: Path) -> None:
    table = read_csv(write(folder, "age;dose\n4,1;1,5\n"))
    assert (table.columns, table.values.tolist()) == (("age", "dose"), [[4.1, 1.5]])


def test_a_long_list_of_columns_is_cut_short(folder: Path) -> None:
    path = write(folder, ",".join(f"x{i}y" for i in range(784)) + "\n")
    sentence = refusal(lambda: read_csv(path, ["label"]))
    assert "'x19y' and 764 more. Correct the name" in sentence


def test_what_is_no_readable_file_is_refused_by_name(folder: Path) -> None:
    packed = gzip.compress(f"a,b\n1,{SECRET}\n".encode() * 1000)
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 0xFF
    for name, content, what in (
        ("absent.csv", None, "no such file"),
        (".", None, "folder"),
        ("absent.csv/x.csv", None, "no such file"),
        ("cut.csv.gz", packed[:-9], "damaged or cut short"),
        ("header.csv.gz", packed[:5], "damaged or cut short"),
        ("checksum.csv.gz", packed[:-8] + bytes(8), "damaged or cut short"),
        ("latin.csv", f"größe,b\n1,{SECRET}".encode("latin-1"), "UTF-8"),
        ("utf16.csv", f"a,b\n1,{SECRET}".encode("utf-16"), "UTF-8"),
    ):
        path = folder / name
        if content is not None:
            path.write_bytes(content)
        sentence = refusal(partial(read_csv, path, ["a"]))
        assert sentence.startswith(f"{path}: ")
        assert what in sentence


def test_a_file_below_a_file_is_refused(folder: Path) -> None:
    path = write(folder, "a\n1\n") / "x.csv"
    assert refusal(lambda: read_csv(path)).startswith(f"{path}: cannot be read (")


# A record is a line

OPEN = (
    "the row does not end in its line, because a quotation mark stays open; take the mark out or"
    " close it, or, if a column "
)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "closed", ['990,1980,"', '990,1980,text"', '990,1980,text",', "990,1980,text"]
)
@pytest.mark.parametrize("columns", [["a", "b"], ["a", "b", "note"]], ids=["unused", "used"])
def test_a_quotation_mark_that_opens_in_one_record_and_closes_in_another_loses_none_of_them(
    folder: Path, newline: str, packed: bool, closed: str, columns: list[str]
) -> None:
    """The second mark may stand at the end of a line, in the middle, or nowhere."""
    rows = ["a,b,note", *(f"{i},{2 * i},{SECRET}" for i in range(1000))]
    assert len(read_csv(write(folder, newline.join(rows)), ["a", "b"]).values) == 1000
    rows[101], rows[991] = f'100,200,"{SECRET}', closed
    text = newline.join(rows).encode()
    path = folder / "marks.csv"
    path.write_bytes(gzip.compress(text) if packed else text)
    sentence = refusal(lambda: read_csv(path, columns))
    assert sentence.startswith(f"{path}, line 102: {OPEN}") or (
        "note" in columns and sentence.startswith(f"{path}, line 2, column 'note': not a number")
    )


@pytest.mark.parametrize("block", [1, 5, 6, 1 << 16])
@pytest.mark.parametrize("row", range(1, 6))
def test_a_record_that_spans_lines_is_refused_by_its_first_line_wherever_blocks_begin(
    folder: Path, monkeypatch: pytest.MonkeyPatch, block: int, row: int
) -> None:
    monkeypatch.setattr(delimited, "BLOCK_CELLS", block)
    rows = ['"a\n(cm)",note', *(f"{i}," for i in range(5))]
    rows[row] = f'7,"{SECRET}\n{SECRET}"'
    sentence = refusal(lambda: read_csv(write(folder, "\n".join(rows)), ["a (cm)"]))
    assert f"line {row + 2}: {OPEN}" in sentence
    assert sentence.endswith("of text has line breaks, export without that column, or as Parquet")


@pytest.mark.parametrize(
    "text",
    [
        f'"{SECRET}\n",2\n3,4\n',  # no header
        # a header with the first two records in it
        f'a,b,"note\n1,2,{SECRET}\n3,4,"\n5,6,{SECRET}\n',
        f'a;b;"note\n1;2;{SECRET}\n3;4;"\n5;6;{SECRET}\n',
        f'a,b,"note\n1,2,"{SECRET}"\n3,4,5\n',
        f'a,"note\n1,{SECRET}\n',  # to the end
        'a,"note\n',
        '"a\n1\n2"\n3\n4\n',  # in a table of one column
        '"a\nb\n?"\n3\n4\n',
        '"a\n1;2"\n3\n4\n',
        "\n\n" + '"a,b\n' + f"1,{SECRET}\n" * 10_000,
    ],
)
def test_a_header_that_would_take_a_record_along_is_refused(folder: Path, text: str) -> None:
    path = write(folder, text)
    line = 1 + len(text) - len(text.lstrip("\n"))
    assert refusal(lambda: read_csv(path, ["a"])).startswith(
        (f"{path}, line {line}: {OPEN}", f"{path}, line {line}: a quotation")
    )


@settings(max_examples=300)
@given(
    st.lists(
        st.lists(
            st.sampled_from(["1", "", '"', '""', '"5"', 'x"', '"x', "x, y"]), min_size=2, max_size=3
        ),
        max_size=6,
    ),
    st.sampled_from(",;\t"),
    st.sampled_from(["\n", "\r\n"]),
)
def test_every_line_below_the_header_is_one_record_or_the_file_is_refused(
    folder: Path, rows: list[list[str]], delimiter: str, newline: str
) -> None:
    lines = [delimiter.join(["1", *cells]) for cells in rows]
    path = write(
        folder, newline.join([delimiter.join(["a", "b", "c"]), "1" + 2 * delimiter, *lines])
    )
    try:
        table = read_csv(path, ["a"])
    except DataError as refused:
        assert str(refused).startswith(f"{path}, line ")  # noqa: PT017 - either outcome is right
    else:
        assert len(table.values) == 1 + len(lines)


# Fuzz: whatever the text, a table or one sentence

CELLS = st.sampled_from(
    ["1", "-2.5", "1e3", "", " ", "NA", "nan", "inf", "1e999", "a", "b", "é", "1_0", "٣", '"', '""', '"x, y"', '"3"', "\x00",
     "\ufeff", "0x1", "?", "1,5", "-", "\r"]
)  # fmt: skip
CSV_TEXTS = st.one_of(
    st.builds(
        lambda rows, delimiter, newline: newline.join(delimiter.join(row) for row in rows),
        st.lists(st.lists(CELLS, max_size=4), max_size=6),
        st.sampled_from(",;\t"),
        st.sampled_from(["\n", "\r\n", "\r"]),
    ),
    st.text(alphabet='01.,;\t"\n\r -+eEnaNifx_?\x00é\ufeff', max_size=60),
)


@settings(max_examples=500)
@given(
    text=CSV_TEXTS,
    columns=st.one_of(st.none(), st.lists(st.sampled_from(["a", "b", "x1", "x2", ""]), max_size=3)),
)
@example(text='"', columns=None)
@example(text="\x00", columns=None)
@example(text="a\n\r\n\r1", columns=["a"])
def test_fuzzed_text_gives_a_finite_table_or_a_data_error(
    folder: Path, text: str, columns: list[str] | None
) -> None:
    try:
        table = read_csv(write(folder, text), columns)
    except DataError as refused:
        # either outcome is right
        assert str(refused).startswith((str(folder), "the chosen columns"))  # noqa: PT017
    else:
        assert np.isfinite(table.values).all()
        assert table.values.shape == (len(table.values), len(table.columns))
        assert len(table.values) <= len(text)


@settings(max_examples=200)
@given(
    content=st.binary(max_size=80),
    packed=st.sampled_from([b"", b"\x1f\x8b", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"]),
)
def test_fuzzed_bytes_give_a_finite_table_or_a_data_error(
    folder: Path, content: bytes, packed: bytes
) -> None:
    path = folder / "fuzz.csv"
    path.write_bytes(packed + content)
    try:
        table = read_csv(path)
    except DataError as refused:
        assert str(refused).startswith(str(path))  # noqa: PT017 - either outcome is right
    else:
        assert np.isfinite(table.values).all()


@settings(max_examples=300)
@given(
    faults=st.lists(
        st.tuples(
            st.integers(1, 5),
            st.integers(0, 2),
            st.sampled_from([SECRET, f"1{SECRET}", "", f"{SECRET},"]),
        ),
        min_size=1,
        max_size=4,
    ),
    block=st.sampled_from([1, 6, 1 << 16]),
)
@example(faults=[(1, column, SECRET) for column in range(3)], block=1)
def test_the_first_faulty_line_is_named_and_no_cell_is_quoted(
    folder: Path, faults: list[tuple[int, int, str]], block: int
) -> None:
    rows = [["age", "bmi", "dose"], *([f"{i}", "2", "3"] for i in range(5))]
    for line, column, cell in faults:
        rows[line][column] = cell
    path = write(folder, "\n".join(",".join(row) for row in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BLOCK_CELLS", block)
        sentence = refusal(lambda: read_csv(path))
    first_record = {column for line, column, _ in faults if line == 1}
    no_names = "first two lines", "line 2 may be a second header"
    if first_record == {0, 1, 2} and any(words in sentence for words in no_names):
        # a first record without any number: the line above it may be a record too, and is not taken
        # for names
        return
    assert sentence.startswith(f"{path}, line {1 + min(line for line, _, _ in faults)}")


@pytest.mark.parametrize(
    "text",
    [
        "71.5 182.3\n68.2 170.1\n",
        "71.5|182.3\n68.2|170.1\n",
        f"{SECRET}\nanother\n",
        f"{SECRET},2020-01-05\nanother,2020-01-06\n",
        f"{SECRET},?\n12,3\n",
    ],
    ids=["spaces", "bars", "names", "dates", "a missing cell"],
)
@pytest.mark.parametrize("columns", [None, ["weight"]])
def test_w22_a_first_record_is_not_shown_as_if_it_were_names(
    folder: Path, text: str, columns: list[str] | None
) -> None:
    sentence = refusal(lambda: read_csv(write(folder, text), columns))
    assert not any(cell in sentence for cell in ("71.5", "182.3", "2020"))
