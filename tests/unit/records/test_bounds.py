"""Bounds and lists of columns: read as they are written, and refused with a sentence that says what
is wrong.
"""

import itertools
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.base.names import parse_columns
from fastlloyd.errors import DataError
from fastlloyd.records import read_csv
from fastlloyd.records.bounds import TEMPLATE_HEADING, bounds_template, data_bounds, parse_bounds
from record_files import FINITE, refusal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("records")


def write(folder: Path, text: str, name: str = "patients.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_a_list_of_columns_is_split_at_commas() -> None:
    assert parse_columns("age, bmi ,mean radius") == ["age", "bmi", "mean radius"]
    assert parse_columns('"a, b",c') == ["a, b", "c"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("a,,b", "empty"),
        ("a,", "empty"),
        (" ", "empty"),
        ("a,b,a", "'a' occurs 2 times"),
        ('a,"b', "no partner"),
    ],
)
def test_a_list_of_columns_with_gaps_or_repetitions_is_refused(text: str, what: str) -> None:
    assert what in refusal(lambda: parse_columns(text))


NAMES = st.lists(
    st.text(alphabet="abc =:.é", min_size=1).map(str.strip).filter(bool),
    min_size=1,
    max_size=4,
    unique=True,
)
INTERVALS = st.tuples(FINITE, FINITE).filter(
    lambda ends: ends[0] < ends[1] and np.isfinite(ends[1] - ends[0])
)


@given(names=NAMES, data=st.data())
def test_bounds_by_name_and_in_toml_are_read_as_written_in_any_order(
    folder: Path, names: list[str], data: st.DataObject
) -> None:
    intervals = data.draw(st.lists(INTERVALS, min_size=len(names), max_size=len(names)))
    given_order = data.draw(st.permutations(list(zip(names, intervals, strict=True))))
    as_text = ",".join(f"{name}={lower!r}:{upper!r}" for name, (lower, upper) in given_order)
    styles = itertools.cycle(["[{!r}, {!r}]", "{{lower = {!r}, upper = {!r}}}"])
    as_toml = "[bounds]\n" + "".join(
        f'"{name}" = {style.format(lower, upper)}\n'
        for style, (name, (lower, upper)) in zip(styles, given_order, strict=False)
    )
    for text in (as_text, str(write(folder, as_toml, "bounds.toml"))):
        lower, upper = parse_bounds(text, names)
        assert lower.dtype == upper.dtype == np.float64
        assert list(zip(lower.tolist(), upper.tolist(), strict=True)) == intervals


@given(INTERVALS, st.integers(1, 5))
def test_one_interval_is_for_every_column(interval: tuple[float, float], d: int) -> None:
    lower, upper = parse_bounds(f"{interval[0]!r}:{interval[1]!r}", [f"x{i}" for i in range(d)])
    assert (lower.tolist(), upper.tolist()) == ([interval[0]] * d, [interval[1]] * d)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("10:5", "'age' are reversed: write 5.0:10.0"),
        ("age=10:5,bmi=0:1", "'age' are reversed: write 5.0:10.0"),
        (
            "age=0:1,bmi=3:3",
            "a feature whose bounds are equal carries no information: drop the column or widen",
        ),
        ("0:inf", "expected LO:HI"),
        ("nan:1", "expected LO:HI"),
        ("age=0:1,bmi=-1e999:0", "expected LO:HI"),
        ("-1e308:1e308", "so must their difference"),
        (
            "age=0:1,bmj=0:1",
            "column 'bmj' is unknown (did you mean 'bmi'?); the known names are 'age', 'bmi'",
        ),
        ("age=0:1", "missing for 'bmi'"),
        ("age=0:1,age=0:2,bmi=0:1", "'age' occurs 2 times"),
        ("0:1,2:3", "LO:HI"),
        ("0:1:2", "LO:HI"),
        ("7", "LO:HI"),
        ("", "LO:HI"),
        ("age=0:1,bmi=1", "bounds of 'bmi': expected LO:HI"),
        (
            "bounds.tom",
            (
                "of every column: expected LO:HI, two numbers such as 0:120, or a file NAME.toml,"
                " got 'bounds.tom'"
            ),
        ),
        ("age=0:1,bmi=low:high", "bounds of 'bmi': expected LO:HI"),
        ("age=0:1,bmi=0:1_0", "bounds of 'bmi': expected LO:HI"),
        ('"age=0:1', "no partner"),
        ('"a, b"=0:1', "put double quotes around the whole item"),
        (
            "a, b=0:1",
            (
                "'a' is not NAME=LO:HI, such as age=0:120; if a name has a comma, put double quotes"
                " around"
            ),
        ),
        (
            "bounds.tml",
            "expected LO:HI, two numbers such as 0:120, or a file NAME.toml, got 'bounds.tml'",
        ),
        ("absent.toml", "absent.toml: there is no such file"),
    ],
)
def test_bounds_that_are_not_two_numbers_for_each_column_are_refused(text: str, what: str) -> None:
    assert what in refusal(lambda: parse_bounds(text, ["age", "bmi"]))


def test_a_name_that_differs_in_how_its_accents_are_stored_is_not_just_repeated() -> None:
    """As of a file that was made under macOS."""
    composed, decomposed = "gr\u00f6\u00dfe", "gro\u0308\u00dfe"
    said = refusal(lambda: parse_bounds(f"{composed}=0:1", [decomposed]))
    assert (
        f"it looks like '{decomposed}', but the accents are stored in another way: copy that name"
        in said
    )


@pytest.mark.parametrize(
    ("toml", "what"),
    [
        ("", "[bounds]"),
        ("bounds = [0, 1]", "[bounds]"),
        ("[bounds]\nage = [0, 1]", "missing for 'bmi'"),
        ("[bounds]\nage = [0, 1]\nbmi = [0, 1, 2]", "bounds of 'bmi' in"),
        ("[bounds]\nage = [0, 1]\nbmi = {lower = 0}", "bounds of 'bmi' in"),
        ("[bounds]\nage = [0, 1]\nbmi = {lower = 0, upper = 1, q = 2}", "bounds of 'bmi' in"),
        ("[bounds]\nage = [0, 1]\nbmi = [false, true]", "expected two numbers"),
        ('[bounds]\nage = [0, 1]\nbmi = ["0", "1"]', "expected two numbers"),
        ("[bounds]\nage = [0, 1]\nbmi = 3", "expected two numbers"),
        (f"[bounds]\nage = [0, 1]\nbmi = [0, 1{'0' * 400}]", "expected two numbers"),
        ("[bounds]\nage = [0, 1]\nbmi = [0, inf]", "must be finite"),
        ("[bounds]\nage = [0, 1]\nbmi = [2, 1]", "reversed"),
        ("[bounds]\nage = [0, 1]\nbmi = [1, 1.0]", "equal"),
        ("[bounds]\nage = [0, 1]\nbmi = [0, 1]\nx = [0, 1]", "column 'x' is unknown"),
        ("[bounds]\nage = [0, 1\n", "not a TOML file"),
        ("[bounds]\nage = " + "[" * 5000, "not a TOML file"),
    ],
)
def test_a_toml_file_that_does_not_state_bounds_is_refused(
    folder: Path, toml: str, what: str
) -> None:
    path = write(folder, toml, "bounds.TOML")
    assert what in refusal(lambda: parse_bounds(str(path), ["age", "bmi"]))


def test_bounds_may_be_stated_for_columns_that_are_not_used_but_not_for_unknown_ones(
    folder: Path,
) -> None:
    toml = "[bounds]\nbmi = [10, 60]\nage = [0, 120]\ndose = [0, 5]\n"
    for text in (str(write(folder, toml, "bounds.toml")), "bmi=10:60,age=0:120,dose=0:5"):
        lower, upper = parse_bounds(text, ["dose", "age"], ["bmi"])
        assert (lower.tolist(), upper.tolist()) == ([0, 0], [5, 120])
        # bound now
        sentence = refusal(lambda text=text: parse_bounds(text, ["age"], ["dose"]))  # type: ignore[misc]
        assert sentence == "bounds: column 'bmi' is unknown; the known names are 'age', 'dose'"


def test_a_misspelt_column_and_bounds_of_its_right_name_are_named_together() -> None:
    sentence = refusal(lambda: parse_bounds("age=0:120,systolic=80:200", ["age", "systolc"]))
    assert (
        sentence
        == "bounds: column 'systolic' is unknown (did you mean 'systolc'?); the known names are 'age',"
        " 'systolc'. Bounds are missing for 'systolc'; correct the name if it is misspelt"
    )
    assert "missing for 'bmi', 'systolc'" in refusal(
        lambda: parse_bounds("age=0:9,systolic=8:20", ["age", "bmi", "systolc"])
    )


def test_without_a_table_a_file_that_has_all_columns_may_have_others_and_a_name_that_is_misspelt_is_found(
    folder: Path,
) -> None:
    path = str(
        write(folder, "[bounds]\nbmi = [10, 60]\nage = [0, 120]\ndose = [0, 5]\n", "bounds.toml")
    )
    lower, upper = parse_bounds(path, ["dose", "age"], None)
    assert (lower.tolist(), upper.tolist()) == ([0, 0], [5, 120])
    assert "'bmi' is unknown (did you mean 'bmj'?)" in refusal(
        lambda: parse_bounds(path, ["age", "bmj"], None)
    )
    assert "'dose' is unknown" in refusal(lambda: parse_bounds("age=0:120,dose=0:5", ["age"], None))


# Any name a column can have, and what TOML or a terminal could take for something else
ODD_NAMES = ["age", "mean radius", "a.b", 'a"b', "größe", "[bounds]", "a=b", "#", "a\nb", "LOWER"]
COLUMN_NAMES = st.lists(
    st.one_of(st.sampled_from(ODD_NAMES), st.text(min_size=1)), min_size=1, max_size=5, unique=True
)


@given(names=COLUMN_NAMES, data=st.data())
def test_a_template_names_every_column_and_is_refused_by_name_until_what_is_used_is_filled_in(
    folder: Path, names: list[str], data: st.DataObject
) -> None:
    text = bounds_template(names)
    assert text.startswith(TEMPLATE_HEADING)
    assert tomllib.loads(text) == {"bounds": {name: ["LOWER", "UPPER"] for name in names}}
    used = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    others = [name for name in names if name not in used]
    first = next(name for name in names if name in used)
    with pytest.raises(DataError) as refused:
        parse_bounds(str(write(folder, text, "template.toml")), used, others)
    assert str(refused.value).startswith(f"bounds of {first!r} in ")
    assert "not filled in yet" in str(refused.value)
    lines = text.splitlines(keepends=True)
    keys = [bounds_template([name]).splitlines(keepends=True)[-1] for name in used]
    filled = "".join(
        line.replace('["LOWER", "UPPER"]', "[-1, 2.5]") if line in keys else line for line in lines
    )
    lower, upper = parse_bounds(str(write(folder, filled, "filled.toml")), used, others)
    assert (lower.tolist(), upper.tolist()) == ([-1.0] * len(used), [2.5] * len(used))


def test_bounds_of_a_toml_file_that_is_not_text_are_refused(folder: Path) -> None:
    path = folder / "binary.toml"
    path.write_bytes(b"\xff\xfe[bounds]")
    assert "UTF-8" in refusal(lambda: parse_bounds(str(path), ["age"]))


FUZZED = st.text(alphabet='ab=:,.0123e-+" _infaé', max_size=30) | st.from_regex(
    r"-?[0-3]:[0-3](e[0-9])?|a=-?[0-3]:[0-3](e[0-9])?,[ab]=-?[0-3]:[0-9]", fullmatch=True
)


def test_fuzzed_bounds_and_columns_give_an_answer_or_a_data_error() -> None:
    n_accepted = 0

    @settings(max_examples=300)
    @given(FUZZED)
    def check(text: str) -> None:
        nonlocal n_accepted
        for parse in (lambda: parse_bounds(text, ["a", "b"]), lambda: parse_columns(text)):
            try:
                answer = parse()
            except DataError as refused:
                assert str(refused)  # noqa: PT017 - either outcome is right
            else:
                assert len(answer) >= 1
        try:
            lower, upper = parse_bounds(text, ["a", "b"])
        except DataError:
            return
        n_accepted += 1
        assert (lower < upper).all()
        assert np.isfinite(upper - lower).all()

    check()
    assert n_accepted > 0


def test_w21_bounds_come_from_what_is_stated_and_no_record_moves_them(folder: Path) -> None:
    # The outlier that moved every normalised record when bounds were the records' extremes moves
    # nothing here.
    usual, outlier = "age,bmi\n40,20\n50,30\n", "age,bmi\n40,20\n50,30\n1e9,-1e9\n"
    stated = []
    for text in (usual, outlier):
        table = read_csv(write(folder, text))
        lower, upper = parse_bounds("age=0:120,bmi=10:60", table.columns)
        stated.append((lower.tolist(), upper.tolist()))
    assert stated == [([0.0, 10.0], [120.0, 60.0])] * 2


@given(
    n=st.integers(1, 300), d=st.integers(1, 5), cut=st.integers(1, 299), order=st.sampled_from("CF")
)
def test_bounds_of_data_are_the_least_and_greatest_value_of_each_column(
    n: int, d: int, cut: int, order: str
) -> None:
    X = np.random.default_rng(n * d).normal(0, 100, (n, d)).astype(np.int16 if d == 2 else float)
    parts = [np.asarray(part, order=order) for part in (X[:cut], X[cut:]) if len(part)]  # type: ignore[call-overload]
    lower, upper = data_bounds(parts)
    for column, low, high in zip(X.T.tolist(), lower, upper, strict=True):
        if min(column) < max(column):
            assert (low, high) == (min(column), max(column))
        else:
            assert low < column[0] < high
