"""Columns of Arrow as text: text, categories, integers and dates."""

from __future__ import annotations

import importlib
from typing import Any

from fastlloyd.errors import DataError
from fastlloyd.records.declared import Holds, content
from fastlloyd.records.text_cells import TextCells

_TEXT = ("string", "large_string", "string_view")


def check_texts(kind: Any, name: str, source: str) -> None:
    """Raise DataError unless a column of this Arrow type can be read as text.

    Rounding may change a floating-point number, so such numbers have no text of their own.

    name : name of the column in messages.
    """
    types = importlib.import_module("pyarrow.types")
    plain = kind.value_type if types.is_dictionary(kind) else kind
    if str(plain) in _TEXT or types.is_integer(plain) or types.is_date32(plain):
        return
    said = content(kind)
    raise DataError(
        f"{source}: column {name!r} holds {said.words}; to be read as text, it must hold text,"
        " categories of text, integers or dates",
        code=Holds.OTHER.value if said.is_numbers else said.holds.value,
        field=name,
    )


def text_cells(array: Any, words: frozenset[str] = frozenset()) -> TextCells:
    """Return the cells of an Arrow array, with integers in decimal and dates as 2024-05-31.

    words : as in `TextCells.of`.
    """
    pa = importlib.import_module("pyarrow")
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    cells = coded.dictionary.cast(pa.string()).to_pylist()
    codes = coded.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    return TextCells.coded(cells, codes, words)
