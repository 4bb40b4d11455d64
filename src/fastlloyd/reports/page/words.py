"""Sentences of the page as HTML. The words are those of `sentences.toml`."""

import re
import string
from typing import Any, Final

from fastlloyd.base.markup import Child, Markup, element, together
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.mechanisms.persons import Unit
from fastlloyd.reports.facts import Wording, sentence, template

# class of the text of a fact
_CLASSES: Final = {
    name: side
    for side, names in {
        "hi": ("side_highest", "side_higher", "side_latest", "side_later", "legend_high"),
        "lo": ("side_lowest", "side_lower", "side_earliest", "side_earlier", "legend_low"),
    }.items()
    for name in names
}
_BREAKS: Final = re.compile(r"(?<=[_./-])(?=\w)(?!_)|(?<=\w)(?==\w)")


def marked(fact: Fact, unit: Unit) -> Markup:
    """Return the sentence of a fact as HTML. Values may be facts, lists of facts, or HTML."""
    words = template(fact)
    if words is None:
        return together(sentence(fact, unit))
    values = {"one": unit.one, "many": unit.many, "a": unit.a} | {
        name: _marked_value(value, unit) for name, value in fact.values.items()
    }
    parts: list[Child] = []
    for text, name, form, _ in string.Formatter().parse(words):
        parts.append(text)
        if name is not None:
            parts.append(_formatted(name, values[name], form or ""))
    made = together(parts)
    side = _CLASSES.get(fact.name)
    return made if side is None else element("span", made, class_=side)


def _formatted(name: str, value: Any, form: str) -> Markup | str:
    """Return a value as HTML. Long names that people chose may break across lines, and are isolated
    from the writing direction around them.
    """
    if isinstance(value, Markup):
        return value
    text = str(Wording().format_field(value, form))
    if name == "feature":
        return element("b", breakable(text))
    return breakable(text) if name in ("name", "text") else text


def _marked_value(value: Any, unit: Unit) -> Any:
    if isinstance(value, Fact):
        return marked(value, unit)
    if isinstance(value, tuple):
        return _joined([marked(each, unit) for each in value], ", ")
    if isinstance(value, list):
        *most, last = (marked(each, unit) for each in value)
        if not most:
            return last
        return marked(Fact.of("and", most=_joined(most, ", "), last=last), unit)
    return value


def _joined(parts: list[Markup], separator: str) -> Markup:
    return together([[separator if n else None, part] for n, part in enumerate(parts)])


def spaced(texts: list[Markup]) -> list[Child]:
    """Return sentences with spaces between them."""
    return [[" " if n else None, text] for n, text in enumerate(texts)]


def breakable(name: str) -> Markup:
    """Return a name that people chose, with places where a line may break."""
    parts = _BREAKS.split(name)
    return element("bdi", [[element("wbr") if n else None, part] for n, part in enumerate(parts)])
