"""Page of a result, from the bytes of its other files."""

from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.base.precision import brief_count
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.reports.names import LONGEST
from fastlloyd.reports.page.bounds import page_of_bounds
from fastlloyd.reports.page.cards import groups
from fastlloyd.reports.page.centre_map import centre_map
from fastlloyd.reports.page.document import document, footer, warnings
from fastlloyd.reports.page.numbers import numbers
from fastlloyd.reports.page.parties import parties
from fastlloyd.reports.page.privacy import privacy
from fastlloyd.reports.page.settings import citation, settings
from fastlloyd.reports.page.side_by_side import side_by_side
from fastlloyd.reports.page.view import EXACT_COUNTS, LISTED, View
from fastlloyd.reports.page.words import breakable, spaced
from fastlloyd.reports.run_result import EXACT
from fastlloyd.reports.stored_files import StoredFiles
from fastlloyd.reports.telling import suggestions
from fastlloyd.reports.units import SIDES


def page_of(files: StoredFiles) -> bytes:
    """Return the page of a result. It depends on the files in `StoredFiles.sources` alone.

    Raises DataError or PlanError if the files are not those of one result.
    """
    return _of_clusters(View.of(files)) if EXACT in files.contents else page_of_bounds(files)


def _of_clusters(view: View) -> bytes:
    content = [
        *warnings(view.run),
        *_head(view),
        *centre_map(view),
        *groups(view),
        *side_by_side(view),
        *numbers(view),
        *privacy(view.run),
        *parties(view.run),
        *settings(view),
        *citation(view),
        footer(view.run),
    ]
    return document(_title(view), content)


def _title(view: View) -> str:
    """Return the title that people gave, or a title from what was computed."""
    return view.names.title or view.run.study.get("name") or _computed_title(view)


def _computed_title(view: View) -> str:
    k, names = view.n_clusters, view.features
    if len(names) <= LISTED and sum(map(len, names)) <= LONGEST:
        return view.text("page_title_by", n_clusters=k, features=list(names))
    return view.text("page_title", n_clusters=k, n_features=len(names))


def _head(view: View) -> list[Child]:
    study, title = view.run.study, _title(view)
    computed = _computed_title(view)
    badges: list[Child] = [
        None if view.run.is_private else [element("b", view.said("warn_not_private")), " "],
    ]
    kicker = "page_kicker" if view.has_noise else "page_kicker_without_noise"
    return [
        element("p", view.said(kicker), class_="kicker"),
        element("h1", breakable(title)),
        None if title == computed else element("p", computed, class_="soft"),
        element(
            "ul",
            element("li", badges, view.run.words(view.run.guarantee)),
            element("li", view.said("page_unit")),
            element("li", _total(view)),
            class_="badges",
        ),
        element("p", spaced(_lead(view)), class_="lead"),
        element("p", spaced(_notes(view)), class_="soft"),
        [
            element("p", view.said(f"study_{name}", text=text), class_="soft")
            for name, text in study.items()
            if name != "name" or view.names.title
        ],
        _links(view),
    ]


def _total(view: View) -> Markup:
    sum_of_counts, error = float(view.counts.sum()), view.stored.count_error * view.n_clusters**0.5
    total = Fact.of("page_total_exact", n=(n := brief_count(sum_of_counts, error)))
    if error >= EXACT_COUNTS:
        low, high = (max(0.0, sum_of_counts + side * error) for side in (-SIDES, SIDES))
        total = Fact.of("page_total", n=n, low=f"{low:,.0f}", high=f"{high:,.0f}")
    if view.run.plan is None or view.run.plan.simulated:
        return view.run.words(total)
    return view.said("page_total_of", total=total, n=view.run.plan.n_clients)


def _lead(view: View) -> list[Markup]:
    if view.n_clusters == 1:
        words = [view.said("lead_one_group")]
    else:
        name = "lead_rows" if view.has_rows else "lead_records"
        words = [view.said(name, n_clusters=view.n_clusters)]
    if view.has_noise:
        words += [view.said("lead_noise"), view.run.words(view.run.lead)]
    return words


def _notes(view: View) -> list[Markup]:
    facts = [Fact.of("lead_other_run"), *suggestions(view.stored.split)]
    if (split := view.stored.split) is not None:
        if split.clearest is None:
            facts.append(Fact.of("lead_no_split"))
        elif split.clearest != view.n_clusters:
            facts.append(Fact.of("lead_coarse_split", n=split.clearest, n_clusters=view.n_clusters))
    if view.names:
        facts.append(Fact.of("lead_given_names"))
    return [view.run.words(fact) for fact in facts]


def _links(view: View) -> Markup:
    places = [
        ("groups", "nav_groups"),
        *([("compare", "nav_compare")] if view.n_clusters > 1 else []),
        ("privacy", "nav_privacy"),
        *([("parties", "nav_parties")] if view.run.plan is not None else []),
        ("settings", "nav_settings"),
        ("citation", "nav_citation"),
    ]
    links = [element("a", view.said(name), href=f"#{place}") for place, name in places]
    return element("nav", links, aria_label=view.text("on_this_page"))
