"""Tests of names in specifications: braces, and references to objects of code."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import PlanError
from fastlloyd_lab.experiments.references import code_digest, resolve, said
from fastlloyd_lab.experiments.spec import MAX_NAMES, expand

WORD = st.text("abc-.:_0123456789", max_size=4)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("iris", ["iris"]),
        ("a{1,2}b{x,y}", ["a1bx", "a1by", "a2bx", "a2by"]),
        ("s{1,2,3}", ["s1", "s2", "s3"]),
        ("{a,}", ["a", ""]),
    ],
)
def test_braces_expand_as_in_a_shell(text: str, names: list[str]) -> None:
    assert expand(text) == names


@given(st.lists(st.tuples(WORD, st.lists(WORD, min_size=2, max_size=3)), max_size=4))
def test_the_names_are_the_product_of_the_braces(parts: list[tuple[str, list[str]]]) -> None:
    text = "".join(f"{word}{{{','.join(items)}}}" for word, items in parts)
    names = [""]
    for word, items in parts:
        names = [name + word + item for name in names for item in items]
    assert expand(text) == names


@pytest.mark.parametrize("text", ["a{1,2", "a1,2}", "{", "}{", "a{b}", "a{}", "a{1,{2,3}}"])
def test_a_brace_without_partner_or_choice_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="brace"):
        expand(text)


def test_more_names_than_anybody_means_are_refused_before_they_are_made() -> None:
    text = "{0,1,2,3,4,5,6,7,8,9}" * 60
    with pytest.raises(PlanError, match=rf"1{',000' * 20} names.*{MAX_NAMES:,}"):
        expand(text)


def test_a_file_of_code_is_run_once_and_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_names.py").write_text("VALUE = 3\n")
    (tmp_path / "code.py").write_text("from neighbour_of_names import VALUE\nTHING = [VALUE]\n")
    thing = resolve("code.py:THING", tmp_path)
    assert thing == [3]
    assert resolve("code.py:THING", tmp_path) is thing
    assert code_digest("code.py:THING", tmp_path) != code_digest(
        "neighbour_of_names.py:VALUE", tmp_path
    )


def test_an_object_of_a_package_is_found_by_its_module() -> None:
    assert resolve("fastlloyd.errors:PlanError", Path("/")) is PlanError


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("absent.py:X", "does not exist"),
        ("code.py:ABSENT", "there is no 'ABSENT'"),
        ("code.py:", "not of the form"),
        ("broken.py:X", "ZeroDivisionError"),
        ("no_such_module_anywhere:X", "ModuleNotFoundError"),
    ],
)
def test_code_that_is_not_there_or_fails_is_named_in_one_sentence(
    tmp_path: Path, text: str, reason: str
) -> None:
    (tmp_path / "code.py").write_text("")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(PlanError, match=reason) as raised:
        resolve(text, tmp_path)
    assert "\n" not in str(raised.value)


def test_what_an_exception_says_is_one_line() -> None:
    assert said(PlanError("as it was\nwritten")) == "as it was written"
    assert said(KeyError("x")) == "KeyError: 'x'"
    assert said(MemoryError()) == "MemoryError"
