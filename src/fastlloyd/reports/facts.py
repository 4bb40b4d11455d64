"""Turn facts into sentences. `sentences.toml` contains the sentences, with placeholders for values.

A fact has a name and values (`mechanisms/facts.py`). Every screen, page and statement takes its
sentences from here. Each sentence is written once, and can be translated there.
"""

import string
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.mechanisms.persons import RECORD, Unit

SHOWN: Final = 20  # features in one sentence


@cache
def catalogue() -> dict[str, dict[str, Any]]:
    """Return the tables of `sentences.toml`: for each table, the sentence of each fact
    by its name.
    """
    return tomllib.loads(resources.files(__package__).joinpath("sentences.toml").read_text("utf-8"))


@cache
def _sentences() -> dict[str, str]:
    return {
        name: words
        for table, entries in catalogue().items()
        if table != "counted"
        for name, words in entries.items()
    }


class Wording(string.Formatter):
    """Formatter of sentences. It adds the formats `duration` and `number`, and those in
    the table `counted`.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value in one of the formats."""
        if format_spec == "number":
            words = catalogue()["counted"]["numbers"]
            return str(words[value]) if value < len(words) else str(value)
        if format_spec == "duration":
            return duration(value)
        if (words := catalogue()["counted"].get(format_spec)) is not None:
            return str(words[min(value, 2)].format(n=value))
        return str(super().format_field(value, format_spec))


def duration(seconds: int) -> str:
    """Return a number of seconds in words, as whole hours if possible."""
    hours, rest = divmod(seconds, 3600)
    return f"{seconds} s" if rest or not hours else Wording().format("{:hours}", hours)


def sentence(fact: Fact, unit: Unit = RECORD) -> str:
    """Return the sentence of a fact. For a fact without a sentence, return its name and values.

    unit : unit of protection, for the words "record" or, for example, "patient".
    """
    values = {name: _in_sentence(value, unit) for name, value in fact.values.items()}
    if (words := template(fact)) is None:
        return f"{fact.name}: {', '.join(f'{name} = {value}' for name, value in values.items())}"
    given = {"one": unit.one, "many": unit.many, "a": unit.a} | values
    return Wording().vformat(words, (), given)


def template(fact: Fact) -> str | None:
    """Return the words of a fact with placeholders, or None if `sentences.toml` has none."""
    return _sentences().get(fact.name)


def sentences(facts: Fact | Facts, unit: Unit = RECORD) -> str:
    """Return the sentences of one or more facts, joined by spaces."""
    each = (facts,) if isinstance(facts, Fact) else facts
    return " ".join(sentence(fact, unit) for fact in each)


def said(facts: Iterable[Fact | Facts], unit: Unit = RECORD) -> list[str]:
    """Return the sentences of each item as one string. An item is a fact, or several facts
    together.
    """
    return [sentences(each, unit) for each in facts]


def worded(value: Any, unit: Unit) -> Any:
    """Return a tree of tables and lists in which sentences replace the facts."""
    if isinstance(value, Fact) or (isinstance(value, tuple) and value):
        return sentences(value, unit)
    if isinstance(value, Mapping):
        return {name: worded(each, unit) for name, each in value.items()}
    return [worded(each, unit) for each in value] if isinstance(value, list) else value


def cut(items: Iterable[Fact], rest: str, most: int | None, separator: str) -> str:
    """Return a list in words, cut off after `most` items.

    items : facts to list.
    rest : name of the fact that states how many items are left out.
    most : largest number of items to list, or None to list all.
    separator : text between two items.
    """
    named = said(items)
    more = said([Fact.of(rest, n=len(named) - most)] if most and len(named) > most else [])
    return separator.join([*named[:most], *more])


def _in_sentence(value: Any, unit: Unit) -> Any:
    """Return a value in the form for a sentence: a fact or a list becomes words, other values are
    unchanged.
    """
    if isinstance(value, Fact):
        return sentence(value, unit)
    if isinstance(value, dict):
        bars = (Fact.of("bar", name=name, bar=bar) for name, bar in value.items())
        return cut(bars, "more_bars", SHOWN, "\n    ")
    if isinstance(value, tuple):
        return ", ".join(said(value, unit))
    if isinstance(value, list):
        *most, last = (
            sentence(each, unit) if isinstance(each, Fact) else str(each) for each in value
        )
        return sentence(Fact.of("and", most=", ".join(most), last=last)) if most else last
    return value
