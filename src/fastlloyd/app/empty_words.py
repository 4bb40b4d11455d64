"""Fields for the words that mean an empty cell: boxes for usual words, and a line for others.

The usual words are the same for every file, so no page shows a cell.
"""

from collections.abc import Sequence
from typing import Final

from fastlloyd.app.answers import FieldFault
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import h, text_field
from fastlloyd.base.markup import Markup
from fastlloyd.base.names import joined_list, listing, split_list
from fastlloyd.records.recipe_proposal import ColumnLook

USUAL: Final = ("n/a", "N/A", "k.A.", "-", ".", "missing", "unknown", "none")


def split_words(text: str) -> list[str]:
    """Return the words in a text, which are separated by commas."""
    return [each.strip() for each in split_list(text) if each.strip()]


def given_words(form: Form) -> str:
    """Return the words of a form, ticked and written, separated by commas."""
    ticked = [each for each in form.texts("usual") if each in USUAL]
    return joined_list(dict.fromkeys([*ticked, *split_words(form.text("words"))]))


def words_field(used: Sequence[ColumnLook], value: str, faults: tuple[FieldFault, ...]) -> Markup:
    """Return the fields for the words that mean an empty cell.

    used : columns that are read.
    value : words, separated by commas.
    """
    words = split_words(value)
    found = [each.name for each in used if each.has_words]
    hint = f" Some cells of {listing(found)} are words." if found else ""
    boxes = [
        h(
            "label",
            h(
                "input",
                type="checkbox",
                name="usual",
                value=word,
                id=f"usual-{number}",
                checked=word in words or None,
            ),
            h("span", word),
            class_="choice",
        )
        for number, word in enumerate(USUAL)
    ]
    return h(
        "fieldset",
        h("legend", "Words that mean an empty cell"),
        h(
            "span",
            f'An empty cell, NA, NaN, null and "?" always mean an empty cell.{hint}',
            class_="hint",
        ),
        h("div", boxes, class_="words"),
        text_field(
            "words",
            "Other words, separated by commas",
            joined_list(word for word in words if word not in USUAL),
            faults,
        ),
    )
