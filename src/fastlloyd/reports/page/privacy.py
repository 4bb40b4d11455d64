"""Section of the page about privacy: the odds first, then the things that are protected and those
that are not.
"""

from collections.abc import Iterable
from typing import Final

from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.reports.page.run_view import RunView
from fastlloyd.reports.page.words import spaced

_COIN: Final = 50
# codes of what is outside the guarantee, by what can be done about it
_GROUPS: Final = {
    "outside_ensure": (
        "everything", "taken_from_the_data", "several_records", "wrong_ids", "more_organisations",
        "more_runs", "settings", "choices", "earlier_steps", "layout", "machines",
        "dishonest_parties", "dropped_clients", "totals",
    ),
    "outside_keep": ("exact_outputs", "owner_counts"),
    "outside_not_prevented": ("people_in_general", "refusals", "timing", "attendance"),
}  # fmt: skip


def privacy(run: RunView) -> list[Child]:
    """Return the section about privacy. When the page is printed, this section begins on a new
    sheet.
    """
    heading = element("h2", run.said("heading_privacy"), id="privacy")
    if not run.has_noise:
        return [heading, element("p", run.said("nothing_protected"), class_="warn")]
    said, federated = run.privacy, run.privacy.get("federated")
    against: list[Child] = []
    if federated:
        who = federated["holds_against"]
        against = [
            element("h3", run.said("heading_against")),
            element("p", run.said("holds_against", who=who)),
        ]
    unit = str(said["unit_of_protection"])
    return [
        heading,
        *_odds(run),
        element(
            "p",
            run.said("odds_in_numbers", guarantee=run.guarantee, n=said["n_rounds"]),
            " ",
            run.said("protects_unit", unit=unit[0].lower() + unit[1:]),
            " ",
            run.said("odds_of_this_run"),
        ),
        element("p", run.said("concluded")),
        element(
            "div",
            element(
                "div",
                element("h3", run.said("heading_protected")) if said["protected"] else None,
                listed(said["protected"]) if said["protected"] else None,
                against,
            ),
            element(
                "div",
                element("h3", run.said("heading_outside")),
                _outside(run),
            ),
            class_="two",
        ),
        _cautions(run),
    ]


def _outside(run: RunView) -> list[Child]:
    """Return the list of things outside the guarantee, grouped by what can be done about them."""
    found: list[Child] = []
    entries = run.privacy["outside_the_guarantee"]
    for heading in _GROUPS:
        of = [each["sentence"] for each in entries if _group(each["code"]) == heading]
        if of:
            found += [element("p", run.said(heading), class_="small soft"), listed(of)]
    return found


def _group(code: str) -> str:
    return next((name for name, codes in _GROUPS.items() if code in codes), "outside_ensure")


def _odds(run: RunView) -> list[Child]:
    n = run.right_on_average
    before = run.said("odds_before"), run.said("odds_before_means")
    after = run.said("odds_after", n=n), run.said("odds_after_means")
    worst = run.said("odds_after", n=run.right_at_worst), run.said("odds_worst_means")
    sentences = [run.said("odds_average")]
    if run.delta:
        sentences.append(run.said("odds_worst_but", delta=run.delta))
    if run.right_about_values is not None:
        sentences.append(
            run.said("odds_of_values", question=run.of_values, n=run.right_about_values)
        )
    return [
        element("p", run.said("odds_question", question=run.question)),
        element(
            "div",
            _dots(_COIN, *before),
            _dots(n, *after),
            _dots(run.right_at_worst, *worst) if run.right_at_worst > n else None,
            class_="odds",
        ),
        element("p", spaced(sentences)),
        None if run.privacy["private"] else element("p", run.said("odds_if_public")),
    ]


def _dots(n: int, figure: Markup, means: Markup) -> Markup:
    """Return a picture of 100 dots. The first n dots are filled. Filled dots beyond the 50th have
    another colour.

    figure : number in the caption.
    means : explanation in the caption.
    """
    dots = [
        element(
            "circle",
            cx=5 + 10 * (i % 10),
            cy=95 - 10 * (i // 10),
            r=4,
            class_="off" if i >= n else "on" if i < _COIN else "more",
        )
        for i in range(100)
    ]
    return element(
        "figure",
        element("svg", dots, viewBox="0 0 100 100", aria_hidden="true"),
        element("figcaption", element("b", figure), means),
    )


def listed(sentences: Iterable[Child]) -> Markup:
    """Return a list of sentences."""
    return element("ul", [element("li", each) for each in sentences], class_="plain")


def _cautions(run: RunView) -> Markup | None:
    if not run.privacy["cautions"]:
        return None
    head = element("b", run.said("take_care"))
    return element("div", head, listed(run.privacy["cautions"]), class_="warn")
