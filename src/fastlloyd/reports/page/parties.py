"""Section of the page about the organisations that took part in a federated run."""

from collections.abc import Sequence
from typing import Final

from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.base.precision import epsilon_up
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.reports.page.drawing import percent
from fastlloyd.reports.page.run_view import RunView
from fastlloyd.reports.page.words import breakable

MOST_NAMED: Final = 60


def parties(run: RunView) -> list[Child]:
    """Return the section about the organisations of a run, or nothing for one organisation."""
    plan, said = run.plan, run.said
    if plan is None:
        return []
    names, included = plan.names, [each["included"] for each in run.rounds]
    how = "parties_shares" if plan.trust is TrustMode.CLIENT_NOISE else "parties_server"
    if plan.simulated:
        how = "parties_simulated"
    federated = run.privacy["federated"]
    unconfirmed = ", ".join(federated["unconfirmed"])
    terms: list[tuple[str, Child]] = [
        ("term_run", federated["run_id"]),
        ("term_plan", in_groups(federated["plan_digest"])),
        ("term_masks", federated["masks"]),
        ("term_unconfirmed", unconfirmed)
        if unconfirmed
        else ("term_confirmed", said("all_confirmed")),
    ]
    coalitions = [
        element(
            "tr",
            element("td", each["who"], class_="l wide"),
            element(
                "td",
                said("no_protection") if each["epsilon"] is None else epsilon_up(each["epsilon"]),
            ),
        )
        for each in federated["coalitions"]
    ]
    head = element(
        "tr",
        element("th", said("column_who"), scope="col"),
        element("th", "epsilon", scope="col"),
    )
    table = element("table", element("thead", head), element("tbody", coalitions), class_="t")
    is_named = len(names) <= MOST_NAMED
    return [
        element("h2", said("heading_parties"), id="parties"),
        element("p", said(how, n=len(names), rounds=len(run.rounds))),
        element("p", said("parties_boxes"), class_="small soft") if is_named else None,
        element("div", [_row(run, name, included) for name in names], class_="who")
        if is_named
        else None,
        element("dl", [[element("dt", said(term)), element("dd", text)] for term, text in terms]),
        None
        if plan.simulated
        else element("details", element("summary", said("coalitions_summary")), table, open=True),
    ]


def _row(run: RunView, name: str, included: Sequence[Sequence[str]]) -> Markup:
    """Return an organisation's name, with a box for each round."""
    n = len(included)
    there = [name in each for each in included]
    label = (
        run.said("in_all_rounds")
        if all(there)
        else run.said("in_some_rounds", n=sum(there), rounds=n)
    )
    boxes = [
        element(
            "rect",
            x=percent(number / n),
            y=1,
            width=percent(min(0.8 / n, 0.09)),
            height="85%",
            rx=2,
            class_="in" if is_there else "out",
        )
        for number, is_there in enumerate(there)
    ]
    return element(
        "div",
        element("span", breakable(name)),
        element("svg", boxes, aria_hidden="true"),
        element("span", label, class_="small soft"),
    )
