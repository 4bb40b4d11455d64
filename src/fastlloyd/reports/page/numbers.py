"""Section of the page with all numbers of the result, and with the rule that chooses the
sentences about each group.
"""

from fastlloyd.base.markup import Child, element
from fastlloyd.base.precision import as_whole, rounded
from fastlloyd.reports.page.cards import scrolling
from fastlloyd.reports.page.view import View
from fastlloyd.reports.page.words import breakable
from fastlloyd.reports.profile import KAPPA

SHOWN, OPEN = 2000, 60  # numbers in the table, and in one that is open from the start


def numbers(view: View) -> list[Child]:
    """Return the table of all numbers, and the rule by which sentences are chosen."""
    n = view.n_clusters * len(view.features)
    rule = element(
        "details",
        element("summary", view.said("rule_question")),
        element(
            "p",
            view.said("rule", z=view.profile.z, kappa=KAPPA, n=view.profile.n_intervals),
            class_="small",
        ),
    )
    return [
        _table(view, is_open=n <= OPEN)
        if n <= SHOWN
        else element("p", view.said("numbers_in_file", n=n), class_="soft"),
        rule if view.has_noise and view.compares else None,
    ]


def _table(view: View, *, is_open: bool) -> Child:
    head = element(
        "tr",
        element("th", view.said("column_group"), scope="col"),
        element("th", view.unit.many, scope="col"),
        [element("th", breakable(name), scope="col") for name in view.features],
    )
    error = view.stored.count_error
    rows = [
        element(
            "tr",
            element("th", str(cluster), scope="row"),
            element("td", f"{as_whole(rounded(float(view.counts[cluster]), error)):,}"),
            [
                element("td", units.measured(float(number), view.error(cluster, feature)))
                for feature, (units, number) in enumerate(
                    zip(view.units, view.centroids[cluster], strict=True)
                )
            ],
        )
        for cluster in range(view.n_clusters)
    ]
    return element(
        "details",
        element("summary", view.said("numbers_summary")),
        scrolling(view.text("numbers_summary"), head, rows),
        open=is_open,
    )
