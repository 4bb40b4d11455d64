"""The words of docstrings: a noun or a verb first, and every thing by its name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clone import ROOT

PACKAGE = ROOT / "src/fastlloyd"
FIRST = re.compile(
    r"(What|Who|Whose|Whom|Where|How|Whether|Those|That|Of|As|So)\b"
)  # a clause or a half sentence, where a noun or a verb belongs
WORDS = re.compile(r"\b(None where|of which|whom|so many|nobody|whoever)\b", re.IGNORECASE)
ONLY_SEE = re.compile(r"See `[^`]+`\.")
ITEM = re.compile(r"^(\w[\w, ]*) : \S", re.MULTILINE)  # description of a parameter
END = re.compile(r"^(?:Attributes|Returns|Raises)\n-", re.MULTILINE)


def _faults(text: str) -> list[str]:
    words = " ".join(text.split())
    found = []
    if first := FIRST.match(words):
        found.append(f"begins with {first[1]!r}")
    found += [f"says {word!r}" for word in WORDS.findall(words)]
    if ONLY_SEE.fullmatch(words):
        found.append("is only a reference")
    if words.count(";") > 1:
        found.append("has more than one semicolon")
    return found


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Return line and text of every docstring in a file."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text


def _absent(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the names in a function's docstring that are described but are no parameters."""
    text = END.split(ast.get_docstring(node) or "")[0]
    named = [name for item in ITEM.findall(text) for name in item.split(", ")]
    known = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    return [name for name in named if name not in known]


def _room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


FAULTY = [
    (_room(path), f"{path.relative_to(PACKAGE)}:{line} {', '.join(faults)}: {text[:60]!r}")
    for path in sorted(PACKAGE.rglob("*.py"))
    for line, text in _docstrings(path)
    if (faults := _faults(text))
]


@pytest.mark.parametrize("room", sorted({_room(path) for path in PACKAGE.rglob("*.py")}))
def test_docstrings_begin_with_a_noun_or_a_verb_and_name_what_they_mean(room: str) -> None:
    found = [where for of, where in FAULTY if of == room]
    assert not found, "write these anew:\n" + "\n".join(found)


def test_docstrings_describe_only_parameters_that_exist() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}: {', '.join(absent)}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (absent := _absent(node))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "n_faults"),
    [
        ("Return the ids of all records.", 0),
        ("Something: so much, and how.", 0),
        ("What a run reveals.", 1),
        ("How many there are, of which\n    nobody knows.", 3),
        ("See `Question.answer`.", 1),
        ("See `Question.answer`: one pass.", 0),
        ("One; two.", 0),
        ("One; two; three.", 1),
        ("Ids, None\n    where there are none.", 1),
    ],
)
def test_the_lint_finds_each_kind_of_fault(text: str, n_faults: int) -> None:
    assert len(_faults(text)) == n_faults
