"""Short page of a run that found bounds."""

import tomllib
from collections.abc import Sequence

import msgspec

from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.base.names import listing
from fastlloyd.base.sealed_toml import from_toml
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.mechanisms.bounds.mechanism import BoundsMechanism
from fastlloyd.reports.page.document import document, footer, warnings
from fastlloyd.reports.page.parties import parties
from fastlloyd.reports.page.privacy import privacy
from fastlloyd.reports.page.run_view import RunView
from fastlloyd.reports.page.words import breakable, spaced
from fastlloyd.reports.run_result import BOUNDS, MECHANISM, PLAN
from fastlloyd.reports.stored_files import StoredFiles


def page_of_bounds(files: StoredFiles, kept: Sequence[str] = ()) -> bytes:
    """Return the page of the bounds in these files.

    kept : names of the files in the result's folder, if they differ from those in `files`.

    Raises PlanError or DataError if a file is missing or not valid.
    """
    plan = Plan.from_toml(files.document(PLAN), PLAN) if PLAN in files.contents else None
    m = plan.mechanism if plan is not None else _mechanism(files)
    run = RunView.of(files, m, plan)
    if kept:
        run = msgspec.structs.replace(run, files=tuple(kept))
    title = run.text("page_title_bounds", n_features=m.n_features)
    name = run.study.get("name")
    bounds = tomllib.loads(files.content(BOUNDS).decode())["bounds"]
    content = [
        *warnings(run),
        element("p", run.said("page_kicker"), class_="kicker"),
        element("h1", breakable(name or title)),
        element("p", title, class_="soft") if name else None,
        element(
            "ul",
            element("li", run.words(run.guarantee)),
            element("li", run.said("page_unit")),
            class_="badges",
        ),
        element("p", spaced(_lead(run)), class_="lead"),
        element("h2", run.said("heading_bounds")),
        _table(run, bounds),
        *privacy(run),
        *parties(run),
        footer(run),
    ]
    return document(name or title, content)


def _mechanism(files: StoredFiles) -> BoundsMechanism:
    return from_toml(files.document(MECHANISM), BoundsMechanism, MECHANISM)


def _lead(run: RunView) -> list[Markup]:
    words = [run.said("lead_bounds"), run.words(run.lead)]
    if missing := run.privacy["not_found"]:
        words.append(run.said("bounds_not_found", features=listing(missing)))
    return words


def _end(bound: float | str) -> str:
    """Return a bound as the page shows it. The bound of a date is already a text."""
    return bound if isinstance(bound, str) else f"{bound:,.6g}"


def _table(run: RunView, bounds: dict[str, list[float | str]]) -> Child:
    names = "column_feature", "column_lower", "column_upper"
    head = [element("th", run.said(name), scope="col") for name in names]
    rows = [
        element(
            "tr",
            element("td", breakable(name), class_="l wide"),
            [element("td", _end(end)) for end in ends],
        )
        for name, ends in bounds.items()
    ]
    return element(
        "table", element("thead", element("tr", head)), element("tbody", rows), class_="t"
    )
