"""Step 4 of a study: the agreement to print, and who approved it."""

from datetime import date

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault
from fastlloyd.app.drafts import Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import BACK, STUDY, elsewhere, form, h, page, text_field
from fastlloyd.app.pages.plan import answers_name, bill, in_words
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
from fastlloyd.app.studies import plan_of, title_of
from fastlloyd.reports import agreement
from fastlloyd.reports.accounts import outlook

_LONGEST = 200
Given = dict[str, str]


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step: the agreement and the questions about its approval."""
    name = id_of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "approval", STUDY):
        return go(f"/study/{name}/{before}")
    return _page(name, answers, _shown(answers))


def _shown(answers: Answers) -> Given:
    """Return the texts for the fields when the page is opened."""
    before = answers.get("approval", {})
    given = {each: str(before.get(each, "")) for each in ("by", "on", "document")}
    return shown_at(answers, "approval", given)


def _page(
    name: str, answers: Answers, given: Given, faults: tuple[FieldFault, ...] = ()
) -> Response:
    return page(
        "Who approves it?",
        h(
            "p",
            "Print the agreement for the person who answers for the records, such as the data"
            " protection officer. It says what is agreed, what your ledger holds before and after,"
            " what leaves this machine, and who sees it. When it is open, print it with Ctrl+P (on"
            " a Mac, Cmd+P).",
        ),
        h(
            "div",
            h("a", "Open the agreement", href=f"/study/{name}/agreement", class_="button second"),
            class_="acts",
        ),
        form(
            f"/study/{name}/approval",
            text_field("by", "Approved by", given.get("by", ""), faults, hint="Name and role."),
            text_field(
                "on",
                "On",
                given.get("on", ""),
                faults,
                hint="The day of the signature, as 2026-05-31.",
                is_short=True,
            ),
            text_field(
                "document",
                "Document",
                given.get("document", ""),
                faults,
                hint="Where the signed page is, such as a number or a folder. It may stay empty.",
            ),
            h(
                "p",
                "When the run begins, your approval is written to NAME.approvals.jsonl, next to"
                " the file in which this machine keeps your runs. It is sent to nobody.",
                class_="soft",
            ),
            label="Go on to the records",
            keeps=True,
        ),
        elsewhere("fastlloyd plan digest plan.toml --page page.txt --dataset NAME"),
        faults=faults,
        steps=steps(name, answers, "approval", STUDY),
    )


async def take(site: Site, request: Request) -> Response:
    """Store the approval in the draft, and lead to the step for the records."""
    name, form_ = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "approval", STUDY):
        return go(f"/study/{name}/{before}")
    given = {each: form_.text(each) for each in ("by", "on", "document")}
    if form_.text("go") == BACK:
        site.studies.save(name, gone_back(answers, "approval", given, _shown(answers)))
        return go(f"/study/{name}/{step_before('approval', STUDY)}")
    faults = [
        FieldFault(field, f"Write at most {_LONGEST} characters in one line.")
        for field, text in given.items()
        if len(text) > _LONGEST or not text.isprintable()
    ]
    if not given["by"]:
        faults.append(FieldFault("by", "Write who approved it."))
    try:
        given["on"] = date.fromisoformat(given["on"]).isoformat()
    except ValueError:
        said = "Write the day with year, month and day in this order, such as 2026-05-31."
        faults.append(FieldFault("on", said))
    if faults:
        return _page(name, answers, given, tuple(faults))
    found = answers | {"approval": given}
    site.studies.save(name, answered(found, "approval", STUDY))
    return go(f"/study/{name}/records")


async def printed(site: Site, request: Request) -> Response:
    """Return the agreement, to be printed."""
    name = id_of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "approval", STUDY):
        return go(f"/study/{name}/{before}")
    plan = plan_of(answers["plan"])
    spent = await beside(lambda: outlook(site.history, answers["dataset"], plan))
    member = await beside(answers_name, answers)
    return page(
        f"Agreement: {title_of(plan)}",
        h(
            "p",
            h("a", "Back to the approval", href=f"/study/{name}/approval"),
            class_="no-print",
        ),
        h("h2", "In plain words"),
        bill(in_words(plan, member)),
        h("h2", "Balance in the ledger"),
        h("ul", [h("li", line) for line in spent.splitlines()]),
        h("h2", "The plan in full"),
        h("pre", h("code", await beside(agreement.page, plan, spent))),
    )
