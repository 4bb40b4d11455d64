"""Section of the page about the groups: a card for each, or a table if there are many."""

from collections.abc import Iterator
from typing import Final

from fastlloyd.base.markup import Child, Markup, element
from fastlloyd.base.precision import brief_count
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms.facts import Fact
from fastlloyd.reports.page.drawing import Axis, size_bar, strip
from fastlloyd.reports.page.view import EXACT_COUNTS, LISTED, View
from fastlloyd.reports.page.words import breakable
from fastlloyd.reports.telling import readings
from fastlloyd.reports.units import SIDES

FULL, COMPACT = 12, 40  # groups with a full card, with a short card; a table has more
ROWS, FEW_ROWS = 8, 3  # features of a full card, and of a short one
MAY_MISS: Final = 10  # one bar of this number may miss


def groups(view: View) -> list[Child]:
    """Return the section about the groups."""
    return [
        element("h2", view.said("heading_groups"), id="groups"),
        element("p", _how_many_settled(view), class_="soft"),
        element("ul", [element("li", each) for each in _legend(view)], class_="plain soft legend"),
        _cards(view) if view.n_clusters <= COMPACT else _table(view),
    ]


def _how_many_settled(view: View) -> Child:
    settled, k = int(view.settled.sum()), view.n_clusters
    if settled < k:
        return view.said("some_settled", n=settled, n_clusters=k)
    return view.said("all_settled") if k > 1 and view.has_noise else None


def _legend(view: View) -> Iterator[Markup]:
    if view.n_clusters <= COMPACT:
        n_bars = int(view.settled.sum()) * min(_rows(view), len(view.features))
        if not view.has_noise:
            yield view.said("how_to_read_without_noise")
        elif n_bars:
            yield view.said("how_to_read", n=n_bars, misses=-(-n_bars // MAY_MISS))
        if view.compares:
            yield view.said("how_to_read_together")
            if view.has_noise:
                yield view.said("how_to_read_colours")
    if view.has_noise:
        yield view.said("bars_cover", readings=readings(view.mechanism))


def _rows(view: View) -> int:
    return ROWS if view.n_clusters <= FULL else FEW_ROWS


def _cards(view: View) -> Markup:
    axes = [Axis.of(view, feature) for feature in range(len(view.features))]
    return element(
        "div", [_card(view, axes, cluster) for cluster in range(view.n_clusters)], class_="cards"
    )


def _card(view: View, axes: list[Axis], cluster: int) -> Markup:
    claims = view.profile.claims[cluster]
    named = [claim.feature for claim in claims]
    others = [j for j in view.profile.by_importance.tolist() if j not in named]
    shown = (named + others)[: _rows(view)]
    if len(shown) == len(view.features):
        shown.sort()  # the same order on all cards
    hidden, label = len(view.features) - len(shown), f"group-{cluster}"
    return element(
        "article",
        element(
            "header",
            element("h3", view.run.words(view.group(cluster)), id=label),
            element("span", size(view, cluster), class_="n"),
        ),
        size_bar(view, cluster),
        element("p", _between(view, cluster), class_="small soft between"),
        tells(view, cluster),
        _cut_off(view, cluster),
        element(
            "table",
            element("tbody", [_row(view, axes[j], cluster, j) for j in shown]),
            class_="rows",
            aria_labelledby=label,
        ),
        element("p", view.said("more_on_group", n=hidden), class_="small soft") if hidden else None,
        element("p", view.said("bars_cover_briefly"), class_="small soft")
        if view.has_noise
        else None,
        class_="card",
        aria_labelledby=label,
    )


def _row(view: View, axis: Axis, cluster: int, feature: int) -> Markup:
    return element(
        "tr",
        element("th", breakable(view.labels[feature]), scope="row"),
        element(
            "td",
            element("span", view.value(cluster, feature)),
            element("small", _span(view, cluster, feature)),
            class_="v",
        ),
        element("td", strip(view, axis, cluster, feature), class_="s"),
    )


def _span(view: View, cluster: int, feature: int) -> Child:
    error = view.error(cluster, feature)
    if not view.settled[cluster]:
        return view.said("not_settled")
    if not error > 0:
        return None
    number, ends = float(view.centroids[cluster, feature]), view.ends(cluster, feature)
    low, high = view.units[feature].span(ends, number, error)
    return view.said("span", low=low, high=high)


def size(view: View, cluster: int) -> Markup:
    """Return the size of a group in words."""
    error, share = view.stored.count_error, view.share(cluster)
    n = brief_count(float(view.counts[cluster]), error)
    if view.has_rows:
        return view.said("size_of_rows", n=n, share=share)
    return view.said("size_exact" if error < EXACT_COUNTS else "size_of_records", n=n, share=share)


def _between(view: View, cluster: int) -> Child:
    error, count = view.stored.count_error, float(view.counts[cluster])
    if error < EXACT_COUNTS:
        return None
    low, high = max(0.0, count - SIDES * error), max(0.0, count + SIDES * error)
    is_gaussian = view.mechanism.noise is Noise.GAUSSIAN
    name = "size_between_mostly" if is_gaussian else "size_between"
    return view.said(name, low=f"{low:,.0f}", high=f"{high:,.0f}")


def _cut_off(view: View, cluster: int) -> Child:
    """Return a sentence about the features whose bounds may have cut off values of a group."""
    features = view.at_bounds(cluster)
    if not features or not view.has_noise:
        return None
    names = [Fact.of("feature", feature=view.labels[j]) for j in features[:LISTED]]
    if len(features) > LISTED:
        names.append(Fact.of("more_features", n=len(features) - LISTED))
    return element("p", view.said("at_bounds", features=names), class_="small")


def tells(view: View, cluster: int, n_sentences: int | None = None) -> Markup:
    """Return at most `n_sentences` sentences about the features that distinguish a group."""
    first, *others = view.told(cluster)[:n_sentences]
    more: list[Child] = [
        [" ", element("span", view.run.words(fact), class_="soft")] for fact in others
    ]
    is_soft = not view.profile.claims[cluster]
    return element("p", view.run.words(first), more, class_="tells soft" if is_soft else "tells")


def _table(view: View) -> Markup:
    head = element(
        "tr",
        element("th", view.said("column_group"), scope="col"),
        element("th", view.unit.many, scope="col"),
        element("th", view.said("column_differs"), scope="col", class_="l"),
    )
    rows = [
        element(
            "tr",
            element("th", view.run.words(view.group(cluster)), scope="row"),
            element("td", brief_count(float(view.counts[cluster]), view.stored.count_error)),
            element("td", tells(view, cluster, 1), class_="l wide"),
        )
        for cluster in range(view.n_clusters)
    ]
    return scrolling(view.text("heading_groups"), head, rows)


def scrolling(label: str, head: Markup, rows: list[Markup]) -> Markup:
    """Return a table inside a box that scrolls sideways.

    label : name of the box for screen readers.
    """
    table = element("table", element("thead", head), element("tbody", rows), class_="t")
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)
