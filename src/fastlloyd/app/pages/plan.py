"""Step 3 of a study: the plan in plain words, how it differs from an earlier plan, and the data set
that the run would be charged to.
"""

import math
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from fastlloyd.app.answers import FieldFault, as_sentence
from fastlloyd.app.drafts import Answers
from fastlloyd.app.forms import Form
from fastlloyd.app.frame import BACK, STUDY, act, elsewhere, form, h, page
from fastlloyd.app.pages.identity import public_of
from fastlloyd.app.pages.protect import dataset_faults, dataset_fields, is_known
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
from fastlloyd.app.studies import plan_of, refusal_of, title_of
from fastlloyd.base.markup import Child, Markup
from fastlloyd.base.precision import delta_up, epsilon_up
from fastlloyd.federation.admission import DataSet
from fastlloyd.federation.ledger import known_datasets
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.plan.quorum import TrustMode
from fastlloyd.federation.traffic import traffic
from fastlloyd.jobs.account import BudgetAccount
from fastlloyd.jobs.client import ClientRequest
from fastlloyd.jobs.parties import place_of_store
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.reports.accounts import outlook
from fastlloyd.reports.certainty import Odds
from fastlloyd.reports.facts import said, sentences
from fastlloyd.reports.plan_facts import (
    attendance,
    expiring,
    left,
    persons,
    plan_cautions,
    totals,
    waiting,
)
from fastlloyd.reports.plan_table import differences
from fastlloyd.reports.recipe_facts import of_recipe

Rows = list[tuple[str, Child]]
_SHOWN = 20
_HEADS = ("setting", "before", "now")


async def show(site: Site, request: Request) -> Response:
    """Return the page of this step: the plan in words and the differences from an earlier plan."""
    name = id_of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "plan", STUDY):
        return go(f"/study/{name}/{before}")
    return await _page(site, name, answers, _shown(answers))


def _shown(answers: Answers) -> Answers:
    """Return the values of the fields when the page is opened."""
    given = {"dataset": answers.get("dataset", ""), "is_new": answers.get("new_dataset", False)}
    return shown_at(answers, "plan", given)


async def _page(
    site: Site,
    name: str,
    answers: Answers,
    given: dict[str, object],
    faults: tuple[FieldFault, ...] = (),
) -> Response:
    plan = plan_of(answers["plan"])
    known = await beside(lambda: known_datasets(site.history))
    unit = plan.mechanism.unit
    cautions = [
        h("p", text, class_="warn") for text in said([*plan_cautions(plan), *expiring(plan)], unit)
    ]
    return page(
        title_of(plan),
        h("ul", [h("li", text) for text in _about(plan)]) if plan.study else None,
        cautions,
        await beside(_changed, site, name, plan),
        h("h2", "In plain words"),
        bill(in_words(plan, answers_name(answers))),
        await beside(_recipe, plan),
        h("h2", "What your ledger says"),
        await beside(_balances, site, plan, known),
        form(
            f"/study/{name}/plan",
            dataset_fields(known, given, faults),
            label="Go on to the approval",
            keeps=True,
        ),
        act(
            f"/study/{name}/decline",
            h("button", "Decline: forget this plan", class_="second"),
            h("span", "Nothing was sent. Tell the person who invited you.", class_="soft"),
        ),
        elsewhere("fastlloyd plan explain plan.toml --dataset NAME"),
        faults=faults,
        steps=steps(name, answers, "plan", STUDY),
    )


def answers_name(answers: Answers) -> str:
    """Return the name of the client in a draft."""
    return str(public_of(answers["key"]).name)


def bill(rows: Rows) -> Markup:
    """Return an HTML list of the rows: each a term, and its text or content."""
    return h("dl", [[h("dt", term), h("dd", each)] for term, each in rows], class_="bill")


def _about(plan: Plan) -> list[str]:
    words = {} if plan.study is None else plan.study.texts
    return [f"{what.capitalize()}: {text}" for what, text in words.items() if what != "name"]


def in_words(plan: Plan, name: str) -> Rows:
    """Return the plan in plain words for the client with this name."""
    m, unit, moved = plan.mechanism, plan.mechanism.unit, traffic(plan, name)
    is_theirs = plan.trust is TrustMode.SERVER_NOISE
    found = (
        f"The centres of {m.n_clusters} groups, and about how many {unit.many} are near each."
        if isinstance(m, Mechanism)
        else "Bounds of the features."
    )
    cap = next(each.max_records for each in plan.clients if each.name == name)
    rows: Rows = [
        (
            "Your part",
            (
                f"You take part as {name}, with at most {cap:,} {unit.many}. A table with more is"
                " refused."
            ),
        ),
        ("What comes out", f"{found} Noise is added to all of it."),
        ("Who sees it", _seen_by(plan)),
        (
            "What leaves this machine",
            (
                f"Sums and counts under masks go to the server at {plan.server.address}, in"
                f" {m.n_rounds} rounds, {moved.sent:,} bytes in all. The records stay here."
                f" {moved.received:,} bytes come back."
            ),
        ),
        ("What one can find out", _odds(plan)),
        (
            "Who adds the noise",
            "The server, to the sum of all organisations."
            if is_theirs
            else "Each organisation adds a share to its sums, before it masks them.",
        ),
        ("If some organisations pool what they see", _pooled(plan)),
        ("Who is protected", sentences(persons(plan), unit)),
        (
            "What it costs",
            f"Epsilon {epsilon_up(m.epsilon)} at delta {delta_up(m.delta)}, on your data set.",
        ),
        ("Time", " ".join(said([attendance(plan), waiting(plan)], unit))),
    ]
    return rows


def _pooled(plan: Plan) -> list[Child]:
    """Return what protects a record against organisations that pool what they see, if anything
    does.
    """
    unit = plan.mechanism.unit
    protects = said(left(plan)[1], unit)
    if not protects:
        return []
    return [
        h("p", f"This epsilon still protects one {unit.one} of another organisation:"),
        h("ul", [h("li", text) for text in protects]),
        [h("p", as_sentence(text)) for text in said(totals(plan), unit)],
    ]


def _seen_by(plan: Plan) -> list[Markup]:
    who = f"All {plan.n_clients} organisations: {', '.join(plan.names)}."
    published = h("p", "It may be published.")
    if plan.trust is TrustMode.SERVER_NOISE:
        warning = h("b", "NOT FOR PUBLICATION: ")
        published = h("p", warning, "the server must never see the result.")
    return [h("p", who), published]


def _odds(plan: Plan) -> str:
    m = plan.mechanism
    odds, unit = Odds.of_run(m), m.unit
    average, at_most = (
        min(100, math.ceil(100 * share - 1e-9))
        for share in (odds.right_guesses(), odds.certainty(0.5))
    )
    is_replaced = m.neighboring_relation.value == "replace_one"
    asked = (
        f"which of two values one {unit.one} has"
        if is_replaced
        else f"whether one {unit.one} is in the data"
    )
    return (
        f"Suppose that somebody knows all other {unit.many} and guesses {asked}. Without the"
        f" result, 50 of 100 guesses are right. With it, at most {average} of 100 are right on"
        f" average. After any one result, at most {at_most} of 100 are right, except with"
        f" probability {delta_up(m.delta)}{_rarely(m.delta)}."
    )


def _rarely(delta: float) -> str:
    """Return the number of results with one failure of delta, in brackets, or "" for delta 0."""
    if delta == 0:
        return ""
    return f" (once in {math.floor(float(f'{1 / delta:.1e}')):,})"


def _recipe(plan: Plan) -> Markup:
    m = plan.mechanism
    texts = said(of_recipe(m.domain.recipe), m.unit) or [
        f"{name}: {low:g} to {high:g}"
        for name, low, high in zip(m.domain.features, m.domain.lower, m.domain.upper, strict=True)
    ]
    return h(
        "details",
        h("summary", "How the columns are read, and their bounds"),
        h("ul", [h("li", text) for text in texts]),
    )


def _balances(site: Site, plan: Plan, known: list[str]) -> Markup:
    if not known:
        return h("p", "Your ledger has no data set yet, so nothing was spent.", class_="soft")
    history = site.history
    return h(
        "ul",
        [
            h("li", [h("p", line) for line in outlook(history, each, plan).splitlines()])
            for each in known[:_SHOWN]
        ],
    )


def _changed(site: Site, name: str, plan: Plan) -> Markup | None:
    """Return a table of the differences to the plan of this study that was accepted last."""
    earlier = site.accepted(plan, name)
    if earlier is None:
        return None
    (before, when), unit = earlier, plan.mechanism.unit.one
    rows = [
        h(
            "tr",
            h("th", each.name, scope="row"),
            h("td", each.before, data_name="before", class_="lines"),
            h("td", each.now, data_name="now", class_="lines"),
        )
        for each in differences(before, plan)
    ]
    return h(
        "section",
        h("h2", f"What is different from the plan that you accepted on {when}"),
        h(
            "div",
            h(
                "table",
                h(
                    "thead",
                    h("tr", [h("th", t, scope="col") for t in ("setting", "before", "now")]),
                ),
                h("tbody", rows),
                class_="cards",
            ),
            class_="scroll",
        )
        if rows
        else h("p", "Nothing but the number of the run."),
        h(
            "p",
            f"Everything else is the same. A larger epsilon protects each {unit} less.",
        ),
    )


async def take(site: Site, request: Request) -> Response:
    """Store the data set in the draft, unless the ledger would refuse the run on it."""
    name, form_ = id_of(request), await Form.of(request)
    answers = site.studies.load(name)
    if before := missing_step(answers, "plan", STUDY):
        return go(f"/study/{name}/{before}")
    given = {"dataset": form_.text("dataset"), "is_new": bool(form_.text("is_new"))}
    if form_.text("go") == BACK:
        site.studies.save(name, gone_back(answers, "plan", given, _shown(answers)))
        return go(f"/study/{name}/{step_before('plan', STUDY)}")
    known = await beside(lambda: known_datasets(site.history))
    faults = dataset_faults(str(given["dataset"]), known, is_new=bool(given["is_new"]))
    found = {
        "dataset": given["dataset"],
        "new_dataset": not is_known(str(given["dataset"]), known),
    }
    if not faults:
        refusal = await beside(_refusal, site, answers | found)
        if refusal:
            faults.append(FieldFault("dataset", f"Your ledger would refuse this: {refusal}."))
    if faults:
        return await _page(site, name, answers, given, tuple(faults))
    site.studies.save(name, answered(answers | found, "plan", STUDY))
    return go(f"/study/{name}/approval")


async def decline(site: Site, request: Request) -> Response:
    """Remove the plan from the draft. The identity stays."""
    name = id_of(request)
    key = site.studies.load(name).get("key", "")
    site.studies.save(name, {"key": key, "done": ["identity"]})
    return go("/")


def _refusal(site: Site, answers: Answers) -> str:
    """Return the sentence with which the ledger would refuse the run, or "" if it allows the
    run.
    """
    key, plan = Path(answers["key"]), plan_of(answers["plan"])
    member = public_of(answers["key"])
    dataset = DataSet(name=answers["dataset"], is_new=answers["new_dataset"])
    request = ClientRequest(
        plan=plan,
        member=member,
        account=BudgetAccount(dataset, site.ledger, by="join"),
        store=place_of_store(member.name, key, None),
        data="",
    )
    return refusal_of(request)
