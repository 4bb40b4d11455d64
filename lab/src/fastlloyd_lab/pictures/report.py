"""Report on a folder of results as one HTML file, with pictures inside and without scripts and
links. NOT PRIVATE.

Names come from users' specifications and code, so every text is escaped.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from fastlloyd.base.markup import Child, Markup, element, together
from fastlloyd.base.version import __version__
from fastlloyd.reports.page import document as pages
from fastlloyd_lab.pictures import tables
from fastlloyd_lab.pictures.sheet import Drawing, save
from fastlloyd_lab.pictures.summaries import CONFIDENCE, Summaries
from fastlloyd_lab.pictures.tables import Table

HEADING = f"{pages.HEADING}<!-- a report of fastlloyd on an experiment: NOT PRIVATE -->\n"
_MANY = 5  # variants of a method: so many are counted instead of named
_LONG = 400  # letters of a sentence that says why a trial failed
_WIDTH = 1100  # of a picture, in pixels; it scrolls on a narrower screen
_Section = tuple[str, str, list[Child]]  # name in links, heading, content


def page(summaries: Summaries, drawings: Sequence[Drawing], refused: Sequence[str] = ()) -> str:
    """Return the whole report.

    refused : a sentence for each requested figure that was not drawn.
    """
    sections = [section for section in _sections(summaries, drawings, refused) if section[2]]
    links = [(name, heading) for name, heading, _ in sections]
    if len(drawings) > 1:
        links += [(each.name, each.title) for each in drawings]
    mark = element("b", "Computed on raw data: NOT PRIVATE.")
    content: list[Child] = [
        element("h1", summaries.results.title),
        element("p", mark, " For research on public records.", class_="warn"),
        element(
            "nav",
            [element("a", text, href=f"#{name}") for name, text in links],
            aria_label="Contents",
        ),
        *(
            element("section", element("h2", heading), body, id=name)
            for name, heading, body in sections
        ),
        element("footer", element("p", f"fastlloyd {__version__}")),
    ]
    made = pages.document(summaries.results.title, content, with_images=True).decode()
    return HEADING + made.removeprefix(pages.HEADING)


def _sections(
    summaries: Summaries, drawings: Sequence[Drawing], refused: Sequence[str]
) -> list[_Section]:
    results = summaries.results
    listed = tables.tables(summaries) if results.rows else []
    not_drawn = (element("p", f"Not drawn: {why}.", class_="warn") for why in refused)
    provenance = (
        json.dumps(results.provenance, indent=2, ensure_ascii=False) if results.provenance else ""
    )
    of_trials = [_table(each) for each in listed if each.title != tables.FAILED]
    return [
        ("overview", "Overview", _overview(summaries)),
        ("figures", "Figures", [*map(_figure, drawings), *not_drawn]),
        ("tables", "Tables", [*of_trials]),
        ("failures", "Failures", _failures(summaries)),
        ("specification", "Specification", _text(results.specification)),
        ("provenance", "Provenance", _text(provenance)),
    ]


def _methods(summaries: Summaries) -> list[str]:
    """Return the names of the methods and their variants, as figures show them. If a method has
    many variants, return its name with their number instead.
    """
    found: list[str] = []
    for method in dict.fromkeys(each.method for each in summaries.variants):
        names = list(
            dict.fromkeys(
                summaries.label(each) for each in summaries.variants if each.method == method
            )
        )
        found += (
            names
            if len(names) < _MANY
            else [f"{summaries.method_label(method)} in {len(names)} variants"]
        )
    return found


def _overview(summaries: Summaries) -> list[Child]:
    rows, failed = summaries.results.rows, len(summaries.results.failures)
    facts = {
        "Trials": f"{len(rows):,}, {f'of which {failed:,}' if failed else 'none'} failed",
        "Data sets": f"{len(summaries.datasets):,}",
        "Methods": "; ".join(_methods(summaries)),
        "Epsilon": ", ".join(f"{epsilon:g}" for epsilon in summaries.epsilons()),
        "Runs": f"{len({row.run for row in rows}):,}",
        "Clients": ", ".join(str(number) for number in sorted({row.clients for row in rows})),
    }
    return [
        element(
            "dl",
            [
                [element("dt", name), element("dd", fact)]
                for name, fact in facts.items()
                if fact and rows
            ],
        ),
        [element("p", note, class_="warn") for note in summaries.results.notes],
        element(
            "p",
            f"Intervals are {CONFIDENCE:.0%} intervals of means over runs, by Student's t. Areas"
            " are those under a measure against epsilon, by the trapezoid rule, run by run. Ratios"
            " are of means; their intervals are by the delta method, in which runs of the same"
            " number, which start from the same centroids, belong together. Failed trials and"
            " infinite values are left out of means, on both sides of a ratio, and counted.",
        ),
    ]


def _figure(drawing: Drawing) -> Markup:
    """Return a picture as SVG in a data URI. Names inside it cannot collide with those of other
    pictures.
    """
    data, title = base64.b64encode(save(drawing, "svg")).decode("ascii"), escape(drawing.title)
    image = f'<img width="{_WIDTH}" src="data:image/svg+xml;base64,{data}" alt="{title}">'
    caption = element("figcaption", drawing.caption)
    return element("figure", _box(Markup(image)), caption, id=drawing.name)


def _table(table: Table) -> Markup:
    def row(cells: Sequence[str], tag: str = "td") -> Markup:
        kinds = [*("l", "l", "l wide")[: table.text], *[None] * (len(cells) - table.text)]
        return element(
            "tr",
            [element(tag, cell, class_=kind) for cell, kind in zip(cells, kinds, strict=True)],
        )

    head, body = row(table.headings, "th"), map(row, table.rows)
    shown = element("table", element("thead", head), element("tbody", body), class_="t")
    note = element("p", table.note) if table.note else None
    return together(element("h3", table.title), _box(shown), note)


def _failures(summaries: Summaries) -> list[Child]:
    failed = tables.failures(summaries.results.failures)
    if not failed.rows:
        return [element("p", "No trial failed.")] if summaries.results.rows else []
    rows = (
        tuple(cell if len(cell) <= _LONG else cell[:_LONG] + "…" for cell in row)
        for row in failed.rows
    )
    return [_table(replace(failed, rows=tuple(rows)))]


def _text(text: str) -> list[Child]:
    return [_box(element("pre", text))] if text else []


def _box(content: Markup) -> Markup:
    """Return the content in a box that scrolls."""
    return element("div", content, class_="scroll", tabindex=0)
