"""Sentences of screens and pages: each stands once, fits its facts, and is that of the last look.

To accept other words, run `GOLDEN=1 pytest tests/unit/reports/test_facts.py` and read the diff.
"""

import ast
import os
import re
import string
from pathlib import Path

import pytest

import fastlloyd
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.reports.facts import catalogue, duration, sentence, worded
from screens import screens

GOLDEN = Path(__file__).parents[2] / "golden"
PACKAGE = Path(fastlloyd.__file__).parent


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    from fastlloyd.testing import repeatable_noise

    with repeatable_noise():
        return screens()


@pytest.mark.parametrize("name", [
    "plan-explain.txt", "plan-page.txt", "plan-show.txt", "plan-show.json", "plan-liveness.txt",
    "plan-statement.txt", "result.txt", "result-statement.txt",
])  # fmt: skip
def test_every_screen_says_what_its_golden_file_says(drawn: dict[str, str], name: str) -> None:
    if os.environ.get("GOLDEN"):
        (GOLDEN / name).write_text(drawn[name])
    assert drawn[name] == (GOLDEN / name).read_text()
    assert "{" not in drawn[name] or name.endswith(".json")


def test_no_two_sentences_have_one_name() -> None:
    tables = [entries for table, entries in catalogue().items() if table != "counted"]
    names = [name for entries in tables for name in entries]
    assert len(set(names)) == len(names)


def test_every_sentence_is_asked_for_by_its_name() -> None:
    text = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))
    literals = {
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    starts = re.findall(r'(?:f"|found\(\s*")([a-z_]+)(?:_\{|")', text)
    for table, entries in catalogue().items():
        for name in entries:
            named = name in literals or any(name.startswith(f"{start}_") for start in starts)
            is_of_list = table in ("counted", "outside") or name.startswith(("hides_", "would_"))
            assert named or is_of_list, name


def test_the_values_of_placeholders_are_simple() -> None:
    formatter = string.Formatter()
    for table, entries in catalogue().items():
        for words in entries.values() if table != "counted" else ():
            for _, field, _, _ in formatter.parse(words):
                assert field is None or field.isidentifier(), words


def test_a_fact_without_words_is_shown_by_name_and_values() -> None:
    assert sentence(Fact.of("new fact", a=1, b="two")) == "new fact: a = 1, b = two"


def test_words_stand_in_place_of_facts_in_a_tree() -> None:
    tree = {
        "a": [Fact.of("clipped"), 1],
        "b": (Fact.of("clipped"), Fact.of("counts_once")),
        "c": (),
    }
    clipped = "Values outside the bounds count as the bound."
    assert worded(tree, Unit.called("family")) == {
        "a": [clipped, 1],
        "b": f"{clipped} Each family counts once, whatever the number of rows.",
        "c": (),
    }


@pytest.mark.parametrize(
    ("seconds", "said"), [(60, "60 s"), (3600, "1 hour"), (7200, "2 hours"), (3601, "3601 s")]
)
def test_a_duration_is_in_whole_hours_or_in_seconds(seconds: int, said: str) -> None:
    assert duration(seconds) == said
