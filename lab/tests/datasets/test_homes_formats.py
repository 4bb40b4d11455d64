"""Tests of the formats of public files: cells, classes, ids, missing cells and images are read, and
damaged files are refused.
"""

import gzip
import struct
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import DataError
from fastlloyd_lab.datasets import CATALOGUE, homes
from fastlloyd_lab.datasets.catalogue import DataSet, Form, Home
from fastlloyd_lab.datasets.homes import parse

TEXT, LABELLED, IMAGES = (
    Home(address=""),
    Home(address="", has_class=True, missing=1.0),
    Home(address="", form=Form.IDX),
)


def of_shape(n: int, d: int) -> DataSet:
    return replace(CATALOGUE["iris"], n_records=n, n_features=d)


def idx(n: int, height: int, width: int, cells: bytes) -> bytes:
    return struct.pack(">4I", 0x0803, n, height, width) + cells


@pytest.mark.parametrize(
    "text",
    [
        b"1,2.5\n-3,4e2\n",
        b" 1 2.5\n -3 400\n\n",
        b"1\t2.5\r\n-3\t400.0\r\n",
        b"     1       2.5\n    -3     400",
        gzip.compress(b"1 2.5\n-3 400\n", mtime=0),
    ],
)
def test_cells_are_separated_by_commas_or_white_space_and_files_may_be_compressed(
    text: bytes,
) -> None:
    assert parse(text, TEXT, of_shape(2, 2)).tolist() == [[1, 2.5], [-3, 400]]


def test_class_and_id_are_left_out_and_a_missing_cell_has_its_value() -> None:
    assert parse(b"1,2,Iris-setosa\n?,.5,4\n", LABELLED, of_shape(2, 2)).tolist() == [
        [1, 2],
        [1, 0.5],
    ]
    assert parse(b"1000025,1,2,4\n1002945,3,?,2\n", LABELLED, of_shape(2, 2)).tolist() == [
        [1, 2],
        [3, 1],
    ]


def test_an_image_is_a_record_row_by_row() -> None:
    assert parse(
        idx(2, 2, 2, bytes([0, 1, 2, 3, 252, 253, 254, 255])), IMAGES, of_shape(2, 4)
    ).tolist() == [[0, 1, 2, 3], [252, 253, 254, 255]]


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_numbers_survive_being_written_as_text(n: int, d: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(n, d)) * 10.0 ** np.arange(-20, -20 + d)
    text = "\n".join(" ".join(map(repr, row)) for row in values.tolist())
    assert np.array_equal(parse(text.encode(), TEXT, of_shape(n, d)), values)


@pytest.mark.parametrize(
    ("data", "home", "sentence"),
    [
        (b"", TEXT, "the file holds 0 records of 2 features; expected 2 of 2"),
        (b"1,2\n", TEXT, "the file holds 1 records of 2 features; expected 2 of 2"),
        (b"1,2\n3", TEXT, "line 2 of the file has 1 cells; expected 2"),
        (b"1,2\n3,4,5\n", TEXT, "line 2 of the file has 3 cells; expected 2"),
        (b"1,2\n3,?\n", TEXT, "line 2 of the file has a cell that is not a number"),
        (b"<html>404\n", TEXT, "line 1 of the file has 1 cells; expected 2"),
        (b"\xff\xfe,\xff\n1,2", TEXT, "line 1 of the file has a cell that is not a number"),
        (b"1,a\n", LABELLED, "line 1 of the file has 2 cells; expected 2 and a class"),
        (b"1,2,a\n5,", LABELLED, "line 2 of the file has 1 cells; expected 2 and a class"),
        (
            gzip.compress(b"1 2\n3 4\n", mtime=0)[:-9],
            TEXT,
            "the file is compressed, and damaged or cut short",
        ),
        (b"\x1f\x8bnothing", TEXT, "the file is compressed, and damaged or cut short"),
        (idx(2, 1, 2, b"123"), IMAGES, "the file has 19 bytes, and 2 images of 1 x 2 need 20"),
        (idx(2, 1, 2, b"12345"), IMAGES, "the file has 21 bytes"),
        (
            idx(2, 1, 3, b"123456"),
            IMAGES,
            "the file holds 2 records of 3 features; expected 2 of 2",
        ),
        (idx(2**32 - 1, 2**32 - 1, 2**32 - 1, b""), IMAGES, "the file has 16 bytes"),
        (idx(0, 1, 2, b""), IMAGES, "the file holds 0 records"),
        (b"\0" * 16, IMAGES, "does not begin as images"),
        (b"\0", IMAGES, "ends within its header"),
    ],
)
def test_what_does_not_hold_the_set_is_refused_in_one_sentence(
    data: bytes, home: Home, sentence: str
) -> None:
    with pytest.raises(DataError) as refused:
        parse(data, home, of_shape(2, 2))
    assert sentence in str(refused.value)


def test_a_file_that_unpacks_to_very_much_is_refused_before_it_is_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(homes, "MOST_BYTES", 1000)
    with pytest.raises(DataError, match=r"unpacks.*1000 bytes"):
        parse(gzip.compress(b"0 " * 501), TEXT, of_shape(2, 2))


@given(st.binary(max_size=60), st.sampled_from([TEXT, LABELLED, IMAGES]), st.booleans())
def test_any_bytes_are_records_or_refused(data: bytes, home: Home, is_packed: bool) -> None:
    with suppress(DataError):
        assert parse(gzip.compress(data) if is_packed else data, home, of_shape(2, 2)).shape == (
            2,
            2,
        )
