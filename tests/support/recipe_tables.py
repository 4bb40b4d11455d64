"""Random recipes, and random tables that fit them, in a file and in the libraries of data frames."""

import csv
import datetime as dt
import io
from typing import Any, NamedTuple

import polars as pl
import pytest
from hypothesis import strategies as st

from record_files import pa

pd: Any = pytest.importorskip("pandas")

DATES = "%d.%m.%Y"
NUMBERS = st.sampled_from(["0", "42", "-7.5", "0.1", "1e3", "12.25", "99999999999999999"])
POSITIVE = st.sampled_from(["0.3", "1", "2.718281828459045", "17.25", "400", "1e-9", "0", "-3"])
BELOW = st.sampled_from(["<0.3", "< 5", "0.5", "12", "300"])
SEXES = st.sampled_from(["m", "w", " w", "d"])
WARDS = st.sampled_from(["surgery", "médecine", "me\u0301decine", "kitchen", "Surgery"])
CODES = st.sampled_from(["1", "2", "17"])
DAYS = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)).map(lambda day: day.strftime(DATES))
BORN = DAYS
MISSING = ("", "NA", "k.A.", "NULL")


class Column(NamedTuple):
    """Column of a kind: its cells in a file, and what a typed column of it holds."""

    cells: st.SearchStrategy[str]
    holds: str
    feature: dict[str, Any]
    gaps: tuple[Any, ...]


KINDS = {
    "number": Column(NUMBERS, "number", {"bounds": [-10, 50]}, (3.0, "middle", "drop")),
    "log": Column(
        POSITIVE, "number", {"bounds": [0.25, 400], "transform": "log"}, (1.5, "middle", "drop")
    ),
    "below": Column(
        BELOW, "text", {"bounds": [0.25, 400], "transform": "log", "below": "bound"}, (2.0, "drop")
    ),
    "values": Column(
        SEXES, "text", {"values": {"m": 0, "w": 1}, "other": "missing"}, (0.5, "middle", "drop")
    ),
    "categories": Column(
        WARDS, "text", {"categories": ["surgery", "médecine"], "other": "none"}, ("none", "drop")
    ),
    "codes": Column(CODES, "code", {"values": {"1": 0, "2": 5, "17": 6}}, (1.0, "drop")),
    "date": Column(
        DAYS, "date", {"date": DATES, "bounds": ["2000-01-01", "2020-12-31"]},
        ("2010-05-05", "middle", "drop"),
    ),
    "age": Column(
        BORN, "date", {"date": DATES, "until": "2024-01-01", "count": "years", "bounds": [0, 110]},
        (50.0, "drop"),
    ),
}  # fmt: skip


class Case(NamedTuple):
    """Tables of a recipe file, kind and cells of each column, and the id of each row."""

    tables: dict[str, Any]
    kinds: dict[str, str]
    rows: list[dict[str, str]]
    ids: list[str]
    typed: dict[str, int]

    def csv(self, *, rows: list[dict[str, str]] | None = None) -> str:
        """Return the table as a text file."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", *self.kinds, "other"])
        for name, row in zip(self.ids, self.rows if rows is None else rows, strict=True):
            writer.writerow([name, *row.values(), "xyzzy"])
        return file.getvalue()

    def columns(self) -> dict[str, list[Any]]:
        """Return the cells of each column as values of Python."""
        return {
            key: [_value(row[key], self._holds(key)) for row in self.rows] for key in self.kinds
        }

    def _holds(self, key: str) -> str:
        kind, typed = KINDS[self.kinds[key]].holds, self.typed[key]
        is_text = typed == 3 if kind == "number" else kind in ("date", "code") and typed % 2
        return "text" if is_text else kind

    def in_arrow(self) -> Any:
        types = {"number": pa.float64(), "code": pa.int64(), "date": pa.date32()}
        found = {"id": pa.array(self.ids), "other": pa.array(["xyzzy"] * len(self.ids))}
        for key, cells in self.columns().items():
            array = pa.array(cells, types.get(self._holds(key), pa.string()))
            if self._holds(key) == "text" and self.typed[key] >= 2:
                array = array.dictionary_encode()
            if self._holds(key) == "date" and self.typed[key] >= 2:
                array = array.cast(pa.timestamp("us"))
            found[key] = array
        table = pa.table(found)
        half = len(self.ids) // 2
        return pa.concat_tables([table.slice(0, half), table.slice(half)])

    def in_polars(self) -> Any:
        types = {"number": pl.Float64, "code": pl.Int64, "date": pl.Date}
        found = [pl.Series("id", self.ids), pl.Series("other", ["xyzzy"] * len(self.ids))]
        for key, cells in self.columns().items():
            column = pl.Series(key, cells, types.get(self._holds(key), pl.String))
            if self._holds(key) == "text" and self.typed[key] >= 2:
                column = column.cast(pl.Categorical)
            if self._holds(key) == "date" and self.typed[key] >= 2:
                column = column.cast(pl.Datetime("us"))
            found.append(column)
        return pl.DataFrame(found)

    def in_pandas(self) -> Any:
        found: dict[str, Any] = {"other": ["xyzzy"] * len(self.ids), "id": self.ids}
        for key, cells in self.columns().items():
            kinds = {
                "number": ("float64", object, "Float64", None),
                "code": ("Int64", "Int64", object, pd.ArrowDtype(pa.int64())),
                "date": ("datetime64[ns]", "datetime64[s]", object, pd.ArrowDtype(pa.date32())),
                "text": (object, "string", "category", pd.ArrowDtype(pa.string())),
            }
            found[key] = pd.Series(cells, dtype=kinds[self._holds(key)][self.typed[key]])
        return pd.DataFrame(found)


def _value(cell: str, holds: str) -> Any:
    if holds == "text":
        return cell
    if cell in MISSING:
        return None
    if holds == "date":
        return dt.datetime.strptime(cell, DATES).date()
    return int(cell) if holds == "code" else float(cell)


@st.composite
def cases(draw: st.DrawFn, *, per_person: bool | None = None) -> Case:
    """Draw a recipe with a table that it accepts. per_person : None for either."""
    n = draw(st.integers(2, 6))
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    named = {f"c{i}": kind for i, kind in enumerate(kinds)}
    by_person = draw(st.booleans()) if per_person is None else per_person
    features = dict[str, Any]()
    for key, kind in named.items():
        feature = dict(KINDS[kind].feature)
        feature["missing"] = draw(st.sampled_from(KINDS[kind].gaps))
        feature["weight"] = draw(st.sampled_from([1.0, 0.5, 0.3]))
        if by_person:
            feature["per_person"] = "mean"
        features[key] = feature
    if by_person and draw(st.booleans()):
        named["day"] = "date"
        features["day"] = {"date": DATES, "role": "order"}
        for key in set(features) - {"day"}:
            features[key]["per_person"] = draw(st.sampled_from(["mean", "first", "last"]))
    rows = [
        {
            key: draw(st.sampled_from(MISSING[:2]))
            if draw(st.integers(0, 5)) == 0
            else draw(KINDS[kind].cells)
            for key, kind in named.items()
        }
        for _ in range(n)
    ]
    for key, feature in features.items():  # one record that no gap drops
        if feature.get("missing") == "drop" or key == "day":
            rows[0][key] = _FIRST[named[key]]
    ids = draw(st.lists(st.sampled_from(["a", "b", "007", "7"]), min_size=n, max_size=n))
    typed = {key: draw(st.integers(0, 3)) for key in named}
    here = {"unit_column": "id"}
    return Case({"features": features, "here": here}, named, rows, ids, typed)


_FIRST = {
    "number": "1", "log": "1", "below": "1", "values": "m", "categories": "surgery", "codes": "1",
    "date": "01.01.2010", "age": "01.01.2010",
}  # fmt: skip
