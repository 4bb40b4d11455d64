"""Section of the page with the settings of a result, and with the way to cite it."""

from typing import Final

from fastlloyd.base.markup import Child, element
from fastlloyd.base.sealed_toml import in_groups
from fastlloyd.reports.page.view import View
from fastlloyd.reports.page.words import breakable
from fastlloyd.reports.recipe_facts import of_recipe

OPEN: Final = 12  # features up to which the table of bounds is open
_CITATION: Final = """\
@inproceedings{diaa2025fastlloyd,
  title     = {FastLloyd: Federated, Accurate, Secure, and Tunable k-Means Clustering with
               Differential Privacy},
  author    = {Diaa, Abdulrahman and Humphries, Thomas and Kerschbaum, Florian},
  booktitle = {34th USENIX Security Symposium},
  pages     = {2733--2752},
  year      = {2025}
}"""


def settings(view: View) -> list[Child]:
    """Return the section about the settings."""
    m, privacy = view.mechanism, view.run.privacy
    terms: list[tuple[str, Child]] = [
        ("term_algorithm", f"{m.name}, fastlloyd {privacy['fastlloyd_version']}"),
        ("term_clusters", str(m.n_clusters)),
        ("term_cap", view.said("cap_of", n=m.n_records)),
        ("term_noise", str(privacy["noise"])),
        (
            "term_rounds",
            view.said("rounds_of", n=privacy["n_rounds"], n_iterations=m.n_iterations),
        ),
        ("term_relation", m.neighboring_relation.value),
        ("term_digest", in_groups(privacy["mechanism_digest"])),
    ]
    if day := privacy.get("day"):
        terms.insert(0, ("term_day", str(day)))
    return [
        element("h2", view.said("heading_settings"), id="settings"),
        element(
            "dl", [[element("dt", view.said(term)), element("dd", text)] for term, text in terms]
        ),
        _bounds(view),
        _recipe(view),
    ]


def _recipe(view: View) -> Child:
    """Return a list that describes how the recipe reads each column (for example, the text m as the
    number 0). Return None without a recipe.
    """
    if view.mechanism.domain.recipe is None:
        return None
    read = [
        element("li", [[" ", view.run.words(fact)] for fact in facts])
        for facts in of_recipe(view.mechanism.domain.recipe)
    ]
    return element(
        "details",
        element("summary", view.said("recipe_summary")),
        element("ul", read, class_="plain"),
        open=len(read) <= OPEN,
    )


def _bounds(view: View) -> Child:
    domain, d = view.mechanism.domain, len(view.features)
    taken = "bounds" in " ".join(view.mechanism.taken_from_the_data or ())
    rows = [
        element(
            "tr",
            element("td", breakable(name), class_="l wide"),
            element("td", units.text(low)),
            element("td", units.text(high)),
        )
        for name, units, low, high in zip(
            view.labels, view.units, domain.lower, domain.upper, strict=True
        )
    ]
    head = [
        element("th", view.said(name), scope="col")
        for name in ("column_feature", "column_lowest", "column_highest")
    ]
    return element(
        "details",
        element("summary", view.said("bounds_taken" if taken else "bounds_summary", n=d)),
        element(
            "table",
            element("thead", element("tr", head)),
            element("tbody", rows),
            class_="t",
        ),
        open=d <= OPEN,
    )


def citation(view: View) -> list[Child]:
    """Return the section about how to cite the result."""
    privacy = view.run.privacy
    return [
        element("h2", view.said("heading_citation"), id="citation"),
        element(
            "p",
            view.said(
                "cite_private" if privacy["private"] else "cite_not_private",
                version=privacy["fastlloyd_version"],
                name=view.mechanism.name,
                n_clusters=view.n_clusters,
                guarantee=view.run.guarantee,
                digest=privacy["mechanism_digest"][:16],
            ),
        ),
        element("pre", _CITATION),
    ]
