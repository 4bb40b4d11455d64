"""Step 4: the number of groups, and the choice of epsilon from a table. No epsilon is chosen
beforehand.
"""

import math

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import (
    FieldFault,
    faults_in,
    no_number,
    no_whole,
    number,
    recipe,
    sentence_of,
    unit_of,
    whole,
)
from fastlloyd.app.drafts import Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import BACK, back_button, elsewhere, fault_at, h, page, table, text_field
from fastlloyd.app.ladder import EPSILONS, Rung, cautions, rungs
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
from fastlloyd.base.markup import Child, Markup
from fastlloyd.base.precision import rounded_up
from fastlloyd.base.problems import Faults
from fastlloyd.errors import FastLloydError
from fastlloyd.federation.admission import DataSet
from fastlloyd.jobs.choices import choices_of
from fastlloyd.jobs.settings import check_clustering
from fastlloyd.mechanisms.uncertainty import Verdict
from fastlloyd.reports.accounts import down

_MOST = 1000
_SHOWN = 8  # features in a row of the table
_SAYS = {
    Verdict.CLEAR: "noise hardly matters",
    Verdict.BLURRED: "noise blurs the picture",
    Verdict.MOSTLY_NOISE: "mostly noise",
}
OTHER = "other"


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step. It contains the table of epsilons if the number of groups is
    known.
    """
    name = id_of(request)
    answers = site.drafts.load(name)
    if before := missing_step(answers, "privacy"):
        return go(f"/new/{name}/{before}")
    return await _page(site, name, answers, _shown(answers))


def _shown(answers: Answers) -> dict[str, str]:
    """Return the texts for the fields when the page is opened."""
    epsilon = f"{answers['epsilon']:g}" if "epsilon" in answers else ""
    other = "" if epsilon in {f"{each:g}" for each in EPSILONS} else epsilon
    given = {"k": str(answers.get("k", "")), "epsilon": epsilon, "other": other}
    return shown_at(answers, "privacy", given)


async def _page(
    site: Site,
    name: str,
    answers: Answers,
    given: dict[str, str],
    faults: list[FieldFault] | None = None,
) -> Response:
    faults = [] if faults is None else faults
    k = whole(given["k"])
    ladder, other = list[Rung](), number(given["other"])
    if k is not None and not any(fault.field == "k" for fault in faults):
        try:
            ladder = await beside(_ladder, site, answers | {"k": k}, other)
        except FastLloydError as error:
            faults.append(FieldFault("k", sentence_of(error)))
    unit = unit_of(answers)
    ladder_fields: Child = _unseen(given)
    if ladder:
        ladder_fields = _choices(ladder, unit.one, given, faults, answers["dataset"])
    on = h("button", "Continue", name="go", value="on") if ladder else None
    return page(
        "How many groups, how much privacy?",
        h(
            "form",
            _groups(given, faults, is_again=bool(ladder)),
            ladder_fields,
            [h("p", said, class_="warn") for said in cautions(k or 0, other or 0.0, unit)]
            if ladder
            else None,
            h("div", on, back_button(), class_="acts"),
            method="post",
            action=f"/new/{name}/privacy",
            autocomplete="off",
        ),
        elsewhere("fastlloyd advise --recipe recipe.toml"),
        faults=faults,
        steps=steps(name, answers, "privacy"),
    )


def _unseen(given: dict[str, str]) -> list[Child]:
    """Return the answers about epsilon as hidden fields, for a page without the table."""
    return [
        h("input", type="hidden", name=each, value=given[each]) for each in ("epsilon", "other")
    ]


def _groups(given: dict[str, str], faults: list[FieldFault], *, is_again: bool) -> Markup:
    return h(
        "fieldset",
        h("legend", "How many groups?"),
        text_field(
            "k",
            "Number of groups",
            given["k"],
            faults,
            hint="The largest number that could be of use to you. The result says, at no further"
            " cost, whether fewer groups fit better. It cannot say so of more groups, and a second"
            " run spends again.",
            is_short=True,
            is_number=True,
        ),
        h(
            "button",
            "Show the ladder again" if is_again else "Show what each choice means",
            name="go",
            value="look",
            class_="second" if is_again else None,
        ),
    )


def _ladder(site: Site, answers: Answers, other: float | None) -> list[Rung]:
    """Return the rows of the table for these answers, with one row for another epsilon."""
    made = recipe(answers)
    dataset = DataSet(
        name=answers["dataset"],
        is_new=bool(answers.get("new_dataset")),
        is_new_unit=bool(answers.get("new_unit")),
    )
    more = () if other is None or not 0 < other < math.inf else (other,)
    return rungs(made, choices_of(made), dataset, site.ledger, (*EPSILONS, *more))


def _choices(
    ladder: list[Rung], who: str, given: dict[str, str], faults: list[FieldFault], dataset: str
) -> Markup:
    clear = next((each for each in ladder if each.is_clear and not each.refusal), None)
    allowed = [each for each in ladder if not each.refusal]
    rows = [
        _row(at, each, given, is_first_clear=each is clear, is_dull=_is_dull(at, ladder))
        for at, each in enumerate(ladder)
    ]
    heads = (
        "epsilon",
        f"right answers in 100 guesses whether one {who} is in the data (50 without the result)",
        "noise in the picture",
        "how far off a centre may be",
        "left in the ledger afterwards",
    )
    ends = (
        h(
            "p",
            f"Your ledger allows none of these on {dataset}: {ladder[0].refusal}.",
            class_="warn",
        )
        if not allowed
        else None
    )
    return h(
        "fieldset",
        h("legend", f"How much may become known about one {who}?"),
        h(
            "p",
            "Each row is a choice of epsilon. Further down the picture is sharper, and more can be"
            f" known about one {who}. The rows are computed from the numbers that you gave; the"
            " file is not read. They are about noise, not about whether the groups are real. How"
            " far off a centre may be is half the length of its bar, as the median of simulated"
            " runs: of smaller groups it is more.",
        ),
        fault_at("epsilon", faults),
        ends,
        table(heads, rows, kind="ladder cards"),
        _another(given, faults),
    )


def _another(given: dict[str, str], faults: list[FieldFault]) -> Markup:
    """Return the field for an epsilon that the table does not have."""
    return h(
        "details",
        h("summary", "Another epsilon"),
        text_field("other", "Another epsilon", given["other"], faults, is_short=True),
        h("input", type="hidden", name="added", value=_plain(given["other"])),
        h("button", "Add this epsilon to the table", name="go", value="look", class_="second"),
        open=True if given["other"] else None,
    )


def _is_dull(at: int, ladder: list[Rung]) -> bool:
    """Return whether at least two rows above this one are already expected to be clear. This row
    then costs more and gains little.
    """
    above = [each for each in ladder[:at] if each.is_clear]
    return len(above) >= 2


def _row(
    at: int, rung: Rung, given: dict[str, str], *, is_first_clear: bool, is_dull: bool
) -> Markup:
    value = f"{rung.epsilon:g}"
    field = "epsilon" if at == 0 else f"epsilon-{at}"
    choice = h(
        "label",
        h(
            "input",
            type="radio",
            name="epsilon",
            value=value,
            id=field,
            checked=given["epsilon"] == value or None,
            disabled=bool(rung.refusal) or None,
        ),
        value,
    )
    mark = h("span", "smallest with a clear picture", class_="mark") if is_first_clear else None
    off = [h("div", f"{bar.feature}: {bar.text}") for bar in rung.bars]
    left = "your ledger refuses this" if rung.refusal else _left(rung)
    said = _SAYS[rung.verdict]
    if is_dull:
        said = f"{said}; more epsilon buys little"
    odds = f"{rung.average} on average, at most {rung.at_most}"
    return h(
        "tr",
        h("th", choice, scope="row"),
        h("td", odds, data_name="right guesses"),
        h("td", said, " ", mark, data_name="noise"),
        h("td", off[:_SHOWN], _more(off), data_name="off by"),
        h("td", left, data_name="left"),
        class_="dull" if rung.refusal or is_dull else None,
    )


def _more(off: list[Markup]) -> Markup | None:
    if len(off) <= _SHOWN:
        return None
    return h("details", h("summary", f"{len(off) - _SHOWN} more"), off[_SHOWN:])


def _left(rung: Rung) -> str:
    if rung.left is None:
        spent = max((each.epsilon for each in rung.accounts), default=rung.epsilon)
        if not math.isfinite(spent):
            return "no limit is set"
        return f"no limit is set; epsilon {rounded_up(spent)} spent in all"
    return f"{down(rung.left)} for one more run" if rung.left > 0 else "nothing"


async def take(site: Site, request: Request) -> Response:
    """Check the answers. Show the table again, or lead to the last page before anything is
    spent.
    """
    name, form_ = id_of(request), await Form.of(request)
    answers = site.drafts.load(name)
    if before := missing_step(answers, "privacy"):
        return go(f"/new/{name}/{before}")
    given = {each: form_.text(each) for each in ("k", "epsilon", "other")}
    if form_.text("go") == BACK:
        site.drafts.save(name, gone_back(answers, "privacy", given, _shown(answers)))
        return go(f"/new/{name}/{step_before('privacy')}")
    faults, k = _faults(given), whole(given["k"])
    if not faults and form_.text("go") == "on" and _is_new(given, form_.text("added")):
        given["epsilon"] = given["epsilon"] or _plain(given["other"])
        said = (
            f"Epsilon {given['other']} now has a row in the table. Read the row, choose, and"
            " continue."
        )
        faults.append(FieldFault("epsilon", said))
    if faults or form_.text("go") != "on":
        if k is not None and not any(fault.field == "k" for fault in faults):
            site.drafts.save(name, answers | {"k": k})
        return await _page(site, name, answers, given, faults)
    epsilon = number(given["epsilon"])
    if epsilon is None or epsilon <= 0:
        wanted = "Choose one row. Nothing is chosen for you."
        site.drafts.save(name, answers | {"k": k})
        return await _page(site, name, answers | {"k": k}, given, [FieldFault("epsilon", wanted)])
    made = answers | {"k": k, "epsilon": epsilon}
    places = {"n_clusters": "k", "epsilon": "epsilon", "n_records": "k"}
    faults += await beside(faults_in, lambda: _check(made), places)
    if faults:
        return await _page(site, name, answers, given, faults)
    site.drafts.save(name, answered(made, "privacy"))
    return go(f"/new/{name}/confirm")


def _faults(given: dict[str, str]) -> list[FieldFault]:
    faults, k, other = list[FieldFault](), whole(given["k"]), number(given["other"])
    if k is None or not 1 <= k <= _MOST:
        said = no_whole(given["k"], f"Write a whole number of groups, from 1 to {_MOST}.")
        faults.append(FieldFault("k", said))
    if given["other"] and (other is None or other <= 0):
        said = no_number(given["other"], "Write a number above 0, such as 0.7.")
        faults.append(FieldFault("other", said))
    return faults


def _is_new(given: dict[str, str], added: str) -> bool:
    """Return whether the user wrote an epsilon that the table did not have.

    added : epsilon that the table had in addition to its own.
    """
    other = _plain(given["other"])
    known = {added, given["epsilon"], *(f"{each:g}" for each in EPSILONS)}
    return bool(other) and other not in known


def _plain(text: str) -> str:
    """Return a positive number in the form that the rows of the table have, or "" for another
    text.
    """
    value = number(text)
    return f"{value:g}" if value is not None and value > 0 else ""


def _check(answers: Answers) -> None:
    faults, choices = Faults(), choices_of(recipe(answers))
    check_clustering(choices, faults)
    faults.check()
