"""Conversion of the answers of a draft to a recipe, and of faults of the recipe to fields of a
page.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from fastlloyd.app.drafts import Answers
from fastlloyd.base.problems import Faults
from fastlloyd.errors import FastLloydError, Problems
from fastlloyd.federation.store.noted import DataFiles
from fastlloyd.jobs.fit_file import FitFile
from fastlloyd.mechanisms.persons import Unit, unit
from fastlloyd.records.layout import Layout
from fastlloyd.records.recipe.recipe import Recipe
from fastlloyd.records.recipe_proposal import CellKind, ColumnLook

NUMBERS: Final = (CellKind.NUMBER, CellKind.LIMIT)
_WHOLE: Final = re.compile(r"[0-9]{1,15}|[0-9]{1,3}(( [0-9]{3})+|(_[0-9]{3})+)")
_GROUPED: Final = re.compile(r"[0-9]{1,3}([.,][0-9]{3})+")
_TWOFOLD: Final = re.compile(r"([+-]?[1-9][0-9]{0,2})[.,]([0-9]{3})")
_FORCE: Final = ", or replace it with --force"
_PLAIN: Final = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]{1,3})?")


class FieldFault(NamedTuple):
    """Fault of an answer on a page.

    field : id of the field on the page, or "" for the page.
    sentence : fault, and what to do.
    """

    field: str
    sentence: str


def whole(text: str) -> int | None:
    """Return the whole number in a text, such as 15000 or 15 000, or None if the text is not one.
    Points and commas are refused, because 15.000 and 15,000 have two meanings.
    """
    return int(re.sub(r"[^0-9]", "", text)) if _WHOLE.fullmatch(text.strip()) else None


def number(text: str) -> float | None:
    """Return the number in a text, or None if the text is not one. Its decimal mark is a point or a
    comma.

    Numbers such as 1.500 and 1,500 are refused, because they have two meanings.
    """
    plain = _plain(text)
    if not _PLAIN.fullmatch(plain) or _TWOFOLD.fullmatch(plain):
        return None
    value = float(plain.replace(",", "."))
    return value if math.isfinite(value) else None


def no_whole(text: str, wanted: str) -> str:
    """Return a sentence about a text that is not a whole number.

    wanted : sentence that says what is expected.
    """
    if _GROUPED.fullmatch(text):
        return f"Write digits only: {re.sub('[.,]', '', text)} instead of {text}."
    return wanted


def no_number(text: str, wanted: str) -> str:
    """Return a sentence about a text that is not a number.

    wanted : sentence that says what is expected.
    """
    if found := _TWOFOLD.fullmatch(_plain(text)):
        units, thousandths = found.groups()
        return (
            f"{text} has two meanings. Write {units}{thousandths} without a mark, or"
            f" {units}{text[-4]}{thousandths}0 with a fourth decimal."
        )
    return wanted


def _plain(text: str) -> str:
    return text.strip().replace("\u2212", "-")


def columns(answers: Answers) -> list[ColumnLook]:
    """Return the columns of the file of a draft."""
    return msgspec.convert(answers.get("columns", []), list[ColumnLook])


def chosen(answers: Answers) -> list[ColumnLook]:
    """Return the columns to cluster by, in their order in the file."""
    names = set(answers.get("chosen", []))
    return [each for each in columns(answers) if each.name in names]


def tables(answers: Answers) -> dict[str, Any]:
    """Return the tables of the recipe that the answers give so far."""
    is_person = answers.get("unit") == "person"
    privacy: dict[str, Any] = {}
    if is_person:
        privacy |= {"unit": "person", "unit_name": answers.get("who", "")}
    if "epsilon" in answers:
        privacy["epsilon"] = answers["epsilon"]
    if "n_records" in answers:
        privacy["n_records"] = answers["n_records"]
    if answers.get("n_expected") is not None:
        privacy["n_expected"] = answers["n_expected"]
    here: dict[str, Any] = {"dataset": answers["dataset"]} if answers.get("dataset") else {}
    if is_person:
        here["unit_column"] = answers.get("id", "")
    if answers.get("layout"):
        layout = msgspec.convert(answers["layout"], Layout)
        stated = msgspec.structs.asdict(layout)
        here |= {
            name: list(value) if isinstance(value := stated[name], tuple) else value
            for name in layout.stated
        }
        if words := answers.get("missing_words"):
            here["missing_words"] = list(words)
    features = {
        each.name: answers["features"][each.name]
        for each in chosen(answers)
        if each.name in answers.get("features", {})
    }
    clustering = {"n_clusters": answers["k"]} if "k" in answers else {}
    given = {"privacy": privacy, "clustering": clustering, "features": features, "here": here}
    return {name: table for name, table in given.items() if table or name == "features"}


def recipe(answers: Answers) -> Recipe:
    """Return the recipe of a draft. Raises Problems with all faults."""
    return Recipe.of(tables(answers))


def unit_of(answers: Answers) -> Unit:
    """Return the words for the unit that a draft protects: a record or a person."""
    is_person = answers.get("unit") == "person"
    return Unit.called(answers["who"]) if is_person else unit(None)


def request(name: str, answers: Answers, out: str, ledger: str | None) -> FitFile:
    """Return the request that a draft makes.

    name : id of the draft, which becomes the id of the run.
    out : full path of the folder of the result.
    ledger : full path of the ledger, or None for the default.

    Raises Problems with all faults of the recipe.
    """
    return FitFile(
        run_id=name,
        records=str(answers["path"]),
        files=msgspec.convert(answers["files"], DataFiles),
        recipe=recipe(answers).to_toml(),
        out=out,
        ledger=ledger,
        new_dataset=bool(answers.get("new_dataset")),
        new_unit=bool(answers.get("new_unit")),
        purpose=answers.get("purpose") or None,
    )


def faults_in(make: Any, fields: Mapping[str, str]) -> list[FieldFault]:
    """Return the faults that `make` raises, each with the field of the page at which it is shown.

    make : function that raises Problems or another error.
    fields : id of a field on the page, by the name of the setting at fault. Faults in other
        settings are shown for the whole page.
    """
    faults = Faults()
    with faults.noted():
        make()
    try:
        faults.check()
    except Problems as problems:
        return list(_at_fields(problems.errors, fields))
    return []


def sentence_of(error: FastLloydError) -> str:
    """Return the sentence of an error for a page: with a capital letter and a full stop."""
    return as_sentence(str(error).removeprefix("features."))


def as_sentence(text: str) -> str:
    """Return a text as a sentence for a page: with a capital letter and a full stop. Remove the
    advice to use --force, an option of the command line that pages do not have.
    """
    plain = text.replace(_FORCE, "").strip()
    return f"{plain[:1].upper()}{plain[1:].rstrip('.')}{'' if plain.endswith('?') else '.'}"


def _at_fields(errors: Iterable[FastLloydError], fields: Mapping[str, str]) -> Iterator[FieldFault]:
    for error in errors:
        name = error.field or ""
        field = fields.get(name) or fields.get(name.rpartition(".")[2], "")
        yield FieldFault(field, sentence_of(error))
