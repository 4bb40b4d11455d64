"""Rows of a table as the features of a recipe."""

import datetime as dt
import math
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.clustering.domain import Domain, Scaling
from fastlloyd.errors import DataError
from fastlloyd.jobs.recipe_check import check_recipe
from fastlloyd.jobs.source import FileSource
from fastlloyd.records.recipe import Recipe
from fastlloyd.records.recipe.rows import Using
from fastlloyd.records.recipe.scales import natural_log
from fastlloyd.records.recipe_frames import frame_records
from record_files import pa, pq

pd: Any = pytest.importorskip("pandas")

FEATURES: dict[str, Any] = {
    "age": {"bounds": [0, 110]},
    "crp": {"bounds": [0.3, 400], "transform": "log", "below": "bound", "missing": 3.0},
    "sex": {"values": {"m": 0, "w": 1}, "missing": "middle"},
    "ward": {"categories": ["surgery", "medicine"], "other": "none", "missing": "surgery"},
    "admitted": {
        "date": "%d.%m.%Y", "bounds": ["2023-01-01", "2023-12-31"], "missing": "2023-07-01",
    },
    "stay": {
        "date": "%d.%m.%Y", "until": "2024-01-01", "count": "years", "bounds": [0, 2],
        "missing": "drop",
    },
}  # fmt: skip
HEADER = "age,crp,sex,ward,admitted,stay\n"


def rows_of(path: Path, text: str, features: dict[str, Any] | None = None, **here: Any) -> Any:
    """Return the records of a text by a recipe."""
    path.write_text(text)
    recipe = Recipe.of({"features": FEATURES if features is None else features, "here": here})
    source = FileSource(
        path=str(path),
        unit_column=recipe.here.unit_column,
        recipe=Using(features=recipe.features, here=recipe.here),
    ).open()
    source.load()
    return source.records


def test_each_way_gives_the_number_that_it_states(tmp_path: Path) -> None:
    table = rows_of(
        tmp_path / "a.csv",
        HEADER
        + '42,12.5, m ,surgery,31.12.2023,1.7.2023\n'
        + '-1,"<0.3",w,kitchen,01.01.2023,01.01.2023\n'
        + "7,,,,,01.01.2024\n",
    )  # fmt: skip
    day = dt.date(1970, 1, 1).toordinal()
    log = natural_log(np.array([12.5, 0.3, 3.0]))
    assert table.columns == (
        "age", "crp", "sex", "ward=surgery", "ward=medicine", "admitted", "stay",
    )  # fmt: skip
    assert table.values.tolist() == [
        [42, log[0], 0, 1, 0, dt.date(2023, 12, 31).toordinal() - day, 184 / 365.25],
        [-1, log[1], 1, 0, 0, dt.date(2023, 1, 1).toordinal() - day, 365 / 365.25],
        [7, log[2], 0.5, 1, 0, dt.date(2023, 7, 1).toordinal() - day, 0],
    ]


def test_types_decide_in_files_that_have_them_and_text_is_read_as_the_recipe_states(
    tmp_path: Path,
) -> None:
    pa: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {
        "a": ["1,5", "k.A.", "2"],
        "b": [-999, 3, 4],
        "c": pa.array(["1.000", "2,5", None]).dictionary_encode(),
        "d": pa.nulls(3),
    }
    parquet.write_table(pa.table(columns), path)
    features = {key: {"bounds": [0, 2000], "missing": 7.0} for key in columns}
    here = {"decimal": ",", "thousands": ".", "missing_words": ["k.A.", "-999"]}

    def using(**more: Any) -> Using:
        recipe = Recipe.of({"features": features, "here": here | more})
        return Using(features=recipe.features, here=recipe.here)

    source = FileSource(path=str(path), recipe=using()).open()
    source.load()
    expected = [[1.5, 7.0, 1000.0, 7.0], [7.0, 3.0, 2.5, 7.0], [2.0, 4.0, 7.0, 7.0]]
    records: Any = source.records
    assert np.asarray(records.values).tolist() == expected
    assert frame_records(parquet.read_table(path), using()).values.tolist() == expected
    assert check_recipe(using(), str(path)).features["a"].missing == 1
    with pytest.raises(DataError) as caught:
        FileSource(path=str(path), recipe=using(separator=";")).open()
    assert caught.value.field == "separator"


@pytest.mark.parametrize(("below", "number"), [("bound", -2.0), ("limit", 0.3), ("missing", 9.0)])
def test_a_cell_below_a_limit_counts_as_the_recipe_states(
    tmp_path: Path, below: str, number: float
) -> None:
    features = {"a": {"bounds": [-2, 10], "below": below, "missing": 9.0}, "b": {"bounds": [0, 1]}}
    table = rows_of(tmp_path / "a.csv", "a,b\n<0.3,0\n4,1\n", features)
    assert table.values.tolist() == [[number, 0.0], [4.0, 1.0]]


def test_a_number_without_a_logarithm_lies_below_the_bounds(tmp_path: Path) -> None:
    features = {"crp": FEATURES["crp"], "age": FEATURES["age"]}
    table = rows_of(tmp_path / "a.csv", "age,crp\n1,0\n2,-5\n3,0.2\n", features)
    domain = Domain.of_recipe(
        Recipe.of({"features": features}).features, scaling=Scaling.PER_FEATURE
    )
    grid, marks = domain.to_grid_and_outside(table.values)
    assert grid[:, 0].tolist() == [-(1 << 16)] * 3
    assert marks.records.tolist() == [True] * 3


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ("42,1,xyzzy,surgery,01.01.2023,01.01.2023", "sex"),
        ("42,<xyzzy,m,surgery,01.01.2023,01.01.2023", "crp"),
        ("42,inf,m,surgery,01.01.2023,01.01.2023", "crp"),
        ("42,1e999,m,surgery,01.01.2023,01.01.2023", "crp"),
        ("42,>3,m,surgery,01.01.2023,01.01.2023", "crp"),
        ("42,1,m,surgery,2023-01-01,01.01.2023", "admitted"),
        ("42,1,m,surgery,31.02.2023,01.01.2023", "admitted"),
        (",1,m,surgery,01.01.2023,01.01.2023", "age"),
    ],
)
def test_a_cell_that_the_recipe_does_not_know_is_refused_without_a_word_of_it(
    tmp_path: Path, row: str, field: str
) -> None:
    with pytest.raises(DataError, match="line 3") as refused:
        rows_of(tmp_path / "a.csv", HEADER + "1,1,m,surgery,01.01.2023,01.01.2023\n" + row)
    assert refused.value.field == field
    for cell in row.split(","):
        said = str(refused.value).replace(str(tmp_path), "")
        assert cell in ("", "m", "1", "surgery") or cell not in said


def test_a_record_is_dropped_by_its_own_gap_alone(tmp_path: Path) -> None:
    table = rows_of(
        tmp_path / "a.csv",
        HEADER
        + "1,1,m,surgery,01.01.2023,01.01.2023\n"
        + "2,1,m,surgery,01.01.2023,\n"
        + "3,1,m,surgery,01.01.2023,01.01.2023\n",
    )
    assert table.values[:, 0].tolist() == [1, 3]
    assert table.dropped == 1


CELLS = st.fixed_dictionaries(
    {
        "age": st.sampled_from(["0", "42", "1e3", "-7.5"]),
        "crp": st.sampled_from(["", "<0.3", "0", "12.5", "1e-3", "NA", "500"]),
        "sex": st.sampled_from(["m", "w", "", "?"]),
        "ward": st.sampled_from(["surgery", "medicine", "kitchen", ""]),
        "admitted": st.sampled_from(["01.01.2023", "31.12.2023", "1.1.1900", ""]),
        "stay": st.sampled_from(["01.01.2023", "31.12.2023", ""]),
    }
)


@settings(deadline=None)
@given(rows=st.lists(CELLS, min_size=2, max_size=6), place=st.integers(0, 5), other=CELLS)
def test_a_neighbour_changes_the_features_of_one_record_only(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[dict[str, str]],
    place: int,
    other: dict[str, str],
) -> None:
    path, place = tmp_path_factory.mktemp("rows") / "a.csv", place % len(rows)
    features = FEATURES | {"stay": FEATURES["stay"] | {"missing": 1.0}}

    def read(table: list[dict[str, str]]) -> Any:
        lines = (",".join(row[name] for name in FEATURES) for row in table)
        return rows_of(path, HEADER + "\n".join(lines), features).values

    one, two = read(rows), read([*rows[:place], other, *rows[place + 1 :]])
    same = np.arange(len(rows)) != place
    assert np.array_equal(one[same], two[same])


@pytest.mark.parametrize("below", [None, "bound"])
@pytest.mark.parametrize(
    ("cell", "number"),
    [("1.234,5", 1234.5), ("-1.234", -1234), ("1,5", 1.5), ("1.5", None), ("1.2.3", None), ("1,5,0", None),
     ("12.34.567", None), ("1..234", None), ("+nan", 3), ("-NaN", 3), ("inf", None), ("-999", 3), ("-999,0", 3)],
)  # fmt: skip
def test_a_number_has_one_notation_in_every_column_and_frame(
    tmp_path: Path, below: str | None, cell: str, number: float | None
) -> None:
    number_cell = {"bounds": [0, 9], "missing": 3.0, **({"below": below} if below else {})}
    features: dict[str, Any] = {"a": number_cell, "b": {"bounds": [0, 9]}}
    here = {"separator": ";", "decimal": ",", "thousands": ".", "missing_words": ["-999"]}
    recipe = Recipe.of({"features": features, "here": here})
    using = Using(features=recipe.features, here=recipe.here)
    doors: list[Callable[[], Any]] = [
        lambda: rows_of(tmp_path / "a.csv", f"a;b\n1;1\n{cell};1\n", features, **here).values,
        lambda: frame_records(pd.DataFrame({"a": ["1", cell], "b": [1, 1]}), using).values,
    ]
    for read in doors:
        if number is None:
            with pytest.raises(DataError, match=r"'a'.*not a (finite )?number"):
                read()
        else:
            assert read()[1, 0] == number


FORMS: tuple[Literal["NFC"], Literal["NFD"]] = ("NFC", "NFD")


@pytest.mark.parametrize("written", FORMS)
@pytest.mark.parametrize("feature", [{"bounds": [0, 9]}, {"values": {"1": 1, "2": 2}}])
def test_a_word_for_a_gap_is_compared_in_one_form_of_unicode(
    tmp_path: Path, written: Literal["NFC", "NFD"], feature: dict[str, Any]
) -> None:
    features = {"a": feature | {"missing": 7.0}, "b": {"bounds": [0, 9]}}
    for stated in FORMS:
        word, cell = (unicodedata.normalize(form, "fehlt, é") for form in (stated, written))
        text = f'a,b\n1,1\n"{cell.upper()}",1\n'
        assert rows_of(tmp_path / "a.csv", text, features, missing_words=[word]).values[1, 0] == 7


@pytest.mark.parametrize("ids", [["1", " K.a."], [1, -9]])
def test_an_id_that_is_a_word_for_a_gap_is_missing_in_every_format(
    tmp_path: Path, ids: list[str] | list[int]
) -> None:
    features = {"a": {"bounds": [0, 9], "per_person": "mean"}}
    here: dict[str, Any] = {"unit_column": "id", "missing_words": ["k.A.", "-9"]}
    recipe = Recipe.of({"features": features, "here": here})
    using = Using(features=recipe.features, here=recipe.here)
    table = pa.table({"id": ids, "a": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "a.parquet")
    text, names = f"id,a\n1,1\n{ids[1]},2\n", [str(name).encode() for name in ids]
    source = FileSource(path=str(tmp_path / "a.parquet"), unit_column="id", recipe=using)
    doors: list[Callable[[], Any]] = [
        lambda: rows_of(tmp_path / "a.csv", text, features, separator=",", **here),
        source.open,
        lambda: frame_records(table, using, names),
    ]
    for read in doors:
        with pytest.raises(DataError, match="id is missing") as refused:
            read()
        assert "k.a." not in str(refused.value).lower()


@pytest.mark.parametrize(
    "cells", [[2**53, 1], [2**63 - 1, 1], [1e300, 1.0], [-(2.0**53), 1.0], [math.inf, 1.0]]
)
def test_codes_that_float64_rounds_are_refused_and_not_taken_for_another_category(
    cells: list[float],
) -> None:
    feature = {"categories": ["1", str(2**53)], "other": "none"}
    using = Using(features=Recipe.of({"features": {"a": feature}}).features)
    with pytest.raises(DataError, match="column 'a'") as refused:
        frame_records(pd.DataFrame({"a": cells}), using)
    assert refused.value.code == "numbers"


def test_text_that_is_not_unicode_is_refused_without_a_trace_of_it(tmp_path: Path) -> None:
    ends, letters = np.array([0, 1, 8], np.int32).tobytes(), b"1secret\xff"
    cells = pa.StringArray.from_buffers(2, pa.py_buffer(ends), pa.py_buffer(letters))
    pq.write_table(pa.table({"a": cells}), tmp_path / "a.parquet")
    using = Using(features=Recipe.of({"features": {"a": {"categories": ["1"]}}}).features)
    doors: list[Callable[[], Any]] = [
        lambda: FileSource(path=str(tmp_path / "a.parquet"), recipe=using).open().load(),
        lambda: frame_records(pa.table({"a": cells}), using),
    ]
    for read in doors:
        with pytest.raises(DataError, match="not valid Unicode") as refused:
            read()
        assert refused.value.__context__ is None


PERSONS = {
    "age": {"bounds": [0, 110], "per_person": "mean"},
    "crp": {
        "bounds": [0.3, 400], "transform": "log", "per_person": "last", "missing": 3.0,
    },
    "ward": {"categories": ["surgery"], "other": "none", "per_person": "mean", "missing": "drop"},
    "admitted": {"date": "%Y-%m-%d", "role": "order", "missing": "drop"},
}  # fmt: skip


def test_a_person_is_one_record_of_the_cells_that_are_there(tmp_path: Path) -> None:
    table = rows_of(
        tmp_path / "a.csv",
        "id,age,crp,ward,admitted\n"
        "7,40,1,surgery,2023-01-02\n"
        "8,50,2,surgery,2023-01-01\n"
        "7,42,5,kitchen,2023-03-01\n"
        "7,44,,surgery,2023-04-01\n"
        "9,1,2,,2023-01-01\n"
        "8,50,,surgery,2023-02-01\n",
        PERSONS,
        unit_column="id",
    )
    log = natural_log(np.array([5.0, 2.0]))
    assert table.ids.texts() == [b"7", b"8"]
    assert table.values.tolist() == [[42, log[0], 2 / 3], [50, log[1], 1]]
    assert table.dropped == 1


@settings(deadline=None)
@given(data=st.data())
def test_the_order_of_rows_changes_no_person(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    rows = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from("abc"),
                (st.floats(-1e300, 1e300) | st.sampled_from([1.7e308, -1.7e308])).map(repr),
                st.sampled_from(["1", "2.5", "", "1e308"]),
                st.sampled_from(["surgery", "kitchen"]),
                st.sampled_from(["2023-01-01", "2023-02-01", ""]),
            ),
            min_size=1,
            max_size=12,
        )
    )
    path = tmp_path_factory.mktemp("persons") / "a.csv"

    def read(table: list[tuple[str, ...]]) -> dict[bytes, list[float]]:
        text = "id,age,crp,ward,admitted\n" + "\n".join(map(",".join, table))
        found = rows_of(path, text, PERSONS, unit_column="id")
        return dict(zip(found.ids.texts(), found.values.tolist(), strict=True))

    assert read(rows) == read(data.draw(st.permutations(rows)))
    persons = read(rows)
    others = [row for row in rows if row[0] != rows[0][0]]
    if others:
        assert read(others) == {
            name: values for name, values in persons.items() if name != rows[0][0].encode()
        }


@given(
    weight=st.floats(2**-12, 1),
    value=st.floats(allow_nan=False, allow_infinity=False),
    scaling=st.sampled_from(Scaling),
    bits=st.integers(13, 20),
)
def test_a_weight_narrows_the_grid_and_every_point_lies_within(
    weight: float, value: float, scaling: Scaling, bits: int
) -> None:
    recipe = Recipe.of(
        {"features": {"a": {"bounds": [-3, 5], "weight": weight}, "b": {"bounds": [0, 8]}}}
    )
    domain = Domain.of_recipe(recipe.features, scaling=scaling, fraction_bits=bits)
    point = domain.to_grid(np.array([[value, value]]))
    B = domain.half_widths
    assert (np.abs(point) <= B).all()
    assert abs(B[0] - weight * 2**bits) <= 0.5
    assert B[1] == 2**bits
    ends = domain.to_grid(np.array([[-3.0, 0.0], [5.0, 8.0]]))
    assert (ends == [-B, B]).all()
    back = domain.from_grid(point)[0]
    inside = np.clip(value, domain.lower, domain.upper)
    assert (np.abs(back - inside) <= domain.units * (1 + 1e-9)).all()


def test_a_domain_that_does_not_follow_from_its_recipe_is_refused() -> None:
    recipe = Recipe.of({"features": {"a": {"bounds": [0, 1]}}}).features
    with pytest.raises(ValueError, match="recipe"):
        Domain(features=("a",), lower=(0.0,), upper=(2.0,), recipe=recipe)
    assert math.isclose(Domain.of_recipe(recipe, scaling=Scaling.PER_FEATURE).upper[0], 1)
