"""Step 2: who is protected, which columns are used, and the name of the data set."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, chosen, columns, no_whole, sentence_of, whole
from fastlloyd.app.drafts import Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import (
    BACK,
    box,
    fault_at,
    form,
    h,
    page,
    radio_fields,
    select_field,
    text_field,
)
from fastlloyd.app.site import (
    Site,
    answered,
    beside,
    go,
    gone_back,
    id_of,
    missing_step,
    shown_at,
    step_before,
    steps,
)
from fastlloyd.base.markup import Markup
from fastlloyd.base.names import same
from fastlloyd.errors import BudgetError, FastLloydError
from fastlloyd.federation.admission import DataSet, check_known_unit
from fastlloyd.federation.ledger import known_datasets
from fastlloyd.federation.store.history import History
from fastlloyd.mechanisms.persons import Persons
from fastlloyd.records.recipe_proposal import CellKind, ColumnLook

RECORD, PERSON = "record", "person"
_OFFERED = (CellKind.NUMBER, CellKind.LIMIT, CellKind.DATE, CellKind.TEXT)
_MOST = 10**12
_NUMBERS = ("n_records", "n_expected")


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step, with its questions about rows, columns and the data set."""
    name = id_of(request)
    answers = site.drafts.load(name)
    if before := missing_step(answers, "protect"):
        return go(f"/new/{name}/{before}")
    return await _page(site, name, answers, _shown(answers))


def _shown(answers: Answers) -> dict[str, Any]:
    """Return the values of the fields when the page is opened."""
    numbers = {each: answers.get(each) for each in _NUMBERS}
    ids = [each.name for each in columns(answers) if each.kind is CellKind.ID]
    used = [each.name for each in chosen(answers)]
    of_numbers = [each.name for each in columns(answers) if each.kind in _OFFERED[:2]]
    given = {
        "unit": answers.get("unit", ""),
        "id": answers.get("id") or (ids[0] if ids else ""),
        "who": answers.get("who", ""),
        "chosen": used or of_numbers,
        "dataset": answers.get("dataset", ""),
        "is_new": answers.get("new_dataset", False),
        "is_new_unit": answers.get("new_unit", False),
    } | {each: "" if n is None else str(n) for each, n in numbers.items()}
    return shown_at(answers, "protect", given)


async def _page(
    site: Site,
    name: str,
    answers: Answers,
    given: dict[str, Any],
    faults: tuple[FieldFault, ...] = (),
) -> Response:
    every = columns(answers)
    known = await beside(lambda: known_datasets(site.history))
    doubts = [h("li", doubt) for doubt in answers.get("doubts", [])]
    return page(
        "Who is protected?",
        h("div", h("p", "How the file is read:"), h("ul", doubts), class_="note")
        if doubts
        else None,
        form(
            f"/new/{name}/protect",
            _unit(every, given, faults),
            h(
                "fieldset",
                h("legend", "How many are there?"),
                h(
                    "span",
                    "Records, or persons if persons are protected. Write what you know without"
                    " counting: both numbers are published with the result.",
                    class_="hint",
                ),
                text_field(
                    "n_records",
                    "At most",
                    given["n_records"],
                    faults,
                    hint="A round number that is surely not exceeded. Digits only, such as 5000.",
                    is_short=True,
                    is_number=True,
                ),
                text_field(
                    "n_expected",
                    "About (it may stay empty)",
                    given["n_expected"],
                    faults,
                    hint="A number that you expect, such as 3000. Rounds and forecasts are planned"
                    " for it. Without it they are planned for the largest number.",
                    is_short=True,
                    is_number=True,
                ),
            ),
            _columns(every, given["chosen"], faults),
            dataset_fields(known, given, faults),
            keeps=True,
        ),
        faults=faults,
        steps=steps(name, answers, "protect"),
    )


def _unit(every: list[ColumnLook], given: dict[str, Any], faults: tuple[FieldFault, ...]) -> Markup:
    options = [("", "Choose a column")] + [(each.name, each.name) for each in every]
    return radio_fields(
        "unit",
        "One row of the table is ...",
        (
            (
                RECORD,
                "all there is about one person or thing",
                "Each row is protected. Choose this only if nobody has two rows.",
            ),
            (
                PERSON,
                "one of several about the same person",
                "All rows of a person are protected together. A column says whose row it is.",
            ),
        ),
        given["unit"],
        faults,
        select_field(
            "id",
            "Column that says whose row it is",
            options,
            given["id"],
            faults,
            hint="Only if a person can have several rows.",
        ),
        text_field(
            "who",
            "What one person is called",
            given["who"],
            faults,
            hint="One word in the singular, such as patient. Only if a person can have several"
            " rows.",
            is_short=True,
        ),
        box(
            "is_new_unit",
            "Earlier runs on this data set protected something else, such as cases. Count the"
            " epsilon for this unit separately.",
            is_ticked=given["is_new_unit"],
        )
        if given["is_new_unit"] or any(fault.field in ("who", "is_new_unit") for fault in faults)
        else None,
        fault_at("is_new_unit", faults),
    )


def _columns(every: list[ColumnLook], used: list[str], faults: tuple[FieldFault, ...]) -> Markup:
    boxes = [
        h(
            "label",
            h(
                "input",
                type="checkbox",
                name="chosen",
                value=each.name,
                id="chosen" if number == 0 else f"chosen-{number}",
                checked=each.name in used or None,
            ),
            h("span", h("b", each.name), " ", h("span", each.kind.value, class_="soft")),
            class_="choice",
        )
        for number, each in enumerate(each for each in every if each.kind in _OFFERED)
    ]
    others = [each.name for each in every if each.kind not in _OFFERED]
    return h(
        "fieldset",
        h("legend", "Columns by which to compare records"),
        fault_at("chosen", faults),
        boxes,
        h("p", f"Not offered, because they look like ids or are empty: {', '.join(others)}.")
        if others
        else None,
    )


def dataset_fields(
    known: list[str],
    given: dict[str, Any],
    faults: tuple[FieldFault, ...],
    unknown: str = "Your ledger has no data set yet.",
) -> Markup:
    """Return the fields in which the user names a data set and says whether it is new.

    unknown : sentence if no data set is known.
    """
    says = f"Your ledger knows: {', '.join(known[:20])}." if known else unknown
    return h(
        "fieldset",
        h("legend", "Name of this data set"),
        text_field(
            "dataset",
            "Name",
            given.get("dataset", ""),
            faults,
            hint="Under this name your ledger adds up what all runs on these records spend. Use"
            f" the same name each time. {says}",
            offers=known,
        ),
        box(
            "is_new",
            "The name is new, and no run on these records was counted under another name.",
            is_ticked=bool(given.get("is_new")),
        ),
        fault_at("is_new", faults),
    )


async def take(site: Site, request: Request) -> Response:
    """Check the answers, and lead to the next step."""
    name, form_ = id_of(request), await Form.of(request)
    answers = site.drafts.load(name)
    given: dict[str, Any] = {
        each: form_.text(each) for each in ("unit", "id", "who", *_NUMBERS, "dataset")
    }
    given |= {"chosen": form_.texts("chosen")}
    given |= {each: bool(form_.text(each)) for each in ("is_new", "is_new_unit")}
    if form_.text("go") == BACK:
        site.drafts.save(name, gone_back(answers, "protect", given, _shown(answers)))
        return go(f"/new/{name}/{step_before('protect')}")
    history = await beside(lambda: site.history)
    known = known_datasets(history)
    faults = (*_faults(answers, given, known), *_unit_faults(given, history))
    if faults:
        return await _page(site, name, answers, given, faults)
    is_person = given["unit"] == PERSON
    found = {
        "unit": given["unit"],
        "id": given["id"] if is_person else "",
        "who": given["who"] if is_person else "",
        **{each: whole(given[each]) for each in _NUMBERS},
        "chosen": given["chosen"],
        "dataset": given["dataset"],
        "new_dataset": not is_known(given["dataset"], known),
        "new_unit": is_person and given["is_new_unit"],
    }
    site.drafts.save(name, answered(answers | found, "protect"))
    return go(f"/new/{name}/bounds")


def is_known(dataset: str, known: list[str]) -> bool:
    """Return whether a name belongs to a known data set."""
    return same(dataset) in map(same, known)


def _faults(answers: Answers, given: dict[str, Any], known: list[str]) -> list[FieldFault]:
    faults, names = list[FieldFault](), [each.name for each in columns(answers)]
    if given["unit"] not in (RECORD, PERSON):
        faults.append(FieldFault("unit", "Say what one row is."))
    if given["unit"] == PERSON:
        if given["id"] not in names:
            faults.append(FieldFault("id", "Choose the column that says whose row it is."))
        elif given["id"] in given["chosen"]:
            faults.append(
                FieldFault("chosen", f"{given['id']} says whose row it is; do not tick it.")
            )
        faults += (
            _refused("who", lambda: Persons.called(given["who"]))
            if given["who"]
            else [FieldFault("who", "Write what one person is called, one word, such as patient.")]
        )
    faults += _number_faults(given)
    offered = {each.name for each in columns(answers) if each.kind in _OFFERED}
    if not given["chosen"] or not offered.issuperset(given["chosen"]):
        faults.append(FieldFault("chosen", "Tick one column at least."))
    return faults + dataset_faults(given["dataset"], known, is_new=given["is_new"])


def _number_faults(given: dict[str, Any]) -> list[FieldFault]:
    """Return the faults of the largest and of the expected number."""
    faults = list[FieldFault]()
    cap, expected = (whole(given[each]) for each in _NUMBERS)
    if cap is None or not 1 <= cap <= _MOST:
        said = no_whole(given["n_records"], "Write a number in digits only, such as 2500.")
        faults.append(FieldFault("n_records", said))
    if not given["n_expected"]:
        return faults
    if expected is None or expected < 1:
        said = no_whole(given["n_expected"], "Write a number in digits only, such as 1500.")
        faults.append(FieldFault("n_expected", said))
    elif cap is not None and expected > cap:
        said = f"Write at most {cap}, the largest number that you gave."
        faults.append(FieldFault("n_expected", said))
    return faults


def dataset_faults(name: str, known: list[str], *, is_new: bool) -> list[FieldFault]:
    """Return the faults of the name of a data set.

    is_new : whether the user says that the data set is new.
    """
    wrong = (
        _refused("dataset", lambda: DataSet(name=name))
        if name
        else [FieldFault("dataset", "Write a name, such as ward-7.")]
    )
    if wrong or is_known(name, known) or is_new:
        return wrong
    said = (
        "Your ledger does not know this name. Use the name under which runs on these records were"
        " counted, or tick the box."
    )
    return [FieldFault("is_new", said)]


def _unit_faults(given: dict[str, Any], history: History) -> list[FieldFault]:
    """Return a fault if earlier runs on the data set protected persons of another unit."""
    is_person = given["unit"] == PERSON
    if given["is_new_unit"] or not (given["who"] if is_person else given["unit"] == RECORD):
        return []
    try:
        check_known_unit(given["dataset"], given["who"] if is_person else "", "", history)
    except BudgetError:
        if is_person:
            said = (
                f"Earlier runs on {given['dataset']} protected something other than one"
                f" {given['who']}. Write the word that those runs used, or tick the box."
            )
            return [FieldFault("who", said)]
        said = (
            f"Your ledger counts {given['dataset']} for persons with all their rows. It can give no"
            " total for them after a run that protects single rows. Say that a row is one of"
            " several, or tick the box."
        )
        return [FieldFault("is_new_unit", said)]
    return []


def _refused(field: str, make: Any) -> list[FieldFault]:
    try:
        make()
    except FastLloydError as error:
        return [FieldFault(field, sentence_of(error))]
    return []
