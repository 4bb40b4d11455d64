"""Report on a folder of results as one HTML file, with pictures inside and without scripts and
links. NOT PRIVATE.

Names come from users' specifications and code, so every text passes `escape`.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from fastlloyd.base.version import __version__
from fastlloyd_lab.pictures import tables
from fastlloyd_lab.pictures.sheet import Drawing, save
from fastlloyd_lab.pictures.summaries import CONFIDENCE, Summaries
from fastlloyd_lab.pictures.tables import Table

HEADING = "<!doctype html>\n<!-- a report of fastlloyd on an experiment: NOT PRIVATE -->\n"
_MANY = 5  # variants of a method: so many are counted instead of named
_LONG = 400  # letters of a sentence that says why a trial failed
_Section = tuple[str, str, str]  # name in links, heading, content


def page(summaries: Summaries, drawings: Sequence[Drawing], refused: Sequence[str] = ()) -> str:
    """Return the whole report.

    refused : a sentence for each requested figure that was not drawn.
    """
    sections = [section for section in _sections(summaries, drawings, refused) if section[2]]
    title = escape(summaries.results.title)
    content = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2>{body}</section>\n'
        for name, heading, body in sections
    )
    each_figure = "".join(
        f'<li><a href="#{escape(each.name)}">{escape(each.title)}</a></li>' for each in drawings
    )
    below = {"figures": f"<ul>{each_figure}</ul>"} if len(drawings) > 1 else {}
    links = "".join(
        f'<li><a href="#{name}">{escape(heading)}</a>{below.get(name, "")}</li>'
        for name, heading, _ in sections
    )
    return (
        f'{HEADING}<html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        ' content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; img-src data:; style-src"
        f" 'unsafe-inline'\"><title>{title}</title><style>{_STYLE}</style></head>\n"
        f"<body><header><h1>{title}</h1><p"
        " class=mark>Computed on raw data: NOT PRIVATE. For research on public"
        " records.</p></header>\n<nav"
        f" aria-label=Contents><ul>{links}</ul></nav>\n<main>{content}</main>\n<footer>fastlloyd"
        f" {escape(__version__)}</footer></body></html>\n"
    )


def _sections(
    summaries: Summaries, drawings: Sequence[Drawing], refused: Sequence[str]
) -> list[_Section]:
    results = summaries.results
    listed = tables.tables(summaries) if results.rows else []
    not_drawn = (f"<p class=mark>Not drawn: {escape(why)}.</p>\n" for why in refused)
    provenance = (
        json.dumps(results.provenance, indent=2, ensure_ascii=False) if results.provenance else ""
    )
    return [
        ("overview", "Overview", _overview(summaries)),
        ("figures", "Figures", "".join([*map(_figure, drawings), *not_drawn])),
        (
            "tables",
            "Tables",
            "".join(_table(each) for each in listed if each.title != tables.FAILED),
        ),
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


def _overview(summaries: Summaries) -> str:
    rows, failed = summaries.results.rows, len(summaries.results.failures)
    epsilons = summaries.epsilons()
    facts = [
        (
            "Trials",
            (
                f"{len(rows):,}, of which {failed:,} failed"
                if failed
                else f"{len(rows):,}, none failed"
            ),
        ),
        ("Data sets", f"{len(summaries.datasets):,}"),
        ("Methods", "; ".join(_methods(summaries))),
        ("Epsilon", ", ".join(f"{epsilon:g}" for epsilon in epsilons)),
        ("Runs", f"{len({row.run for row in rows}):,}"),
        ("Clients", ", ".join(str(number) for number in sorted({row.clients for row in rows}))),
    ]
    listed = "".join(
        f"<dt>{name}</dt><dd>{escape(fact)}</dd>" for name, fact in facts if fact and rows
    )
    notes = "".join(f"<p class=mark>{escape(note)}</p>" for note in summaries.results.notes)
    return (
        f"<dl>{listed}</dl>{notes}<p>Intervals are {CONFIDENCE:.0%} intervals of means over runs,"
        " by Student's t. Areas are those under a measure against epsilon, by the trapezoid rule,"
        " run by run. Ratios are of means; their intervals are by the delta method, in which runs"
        " of the same number, which start from the same centroids, belong together. Failed trials"
        " and infinite values are left out of means, on both sides of a ratio, and counted.</p>"
    )


def _figure(drawing: Drawing) -> str:
    """Return a picture as SVG in a data URI. Names inside it cannot collide with those of other
    pictures.
    """
    data = base64.b64encode(save(drawing, "svg")).decode("ascii")
    return (
        f'<figure id="{escape(drawing.name)}"><div class=scroll><img'
        f' src="data:image/svg+xml;base64,{data}" '
        f'alt="{escape(drawing.title)}"></div>'
        f"<figcaption>{escape(drawing.caption)}</figcaption></figure>\n"
    )


def _table(table: Table) -> str:
    kinds = ["" if column < table.text else " class=n" for column in range(len(table.headings))]
    head = "".join(
        f"<th scope=col{kind}>{escape(cell)}</th>"
        for kind, cell in zip(kinds, table.headings, strict=True)
    )
    rows = (
        "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        for row in table.rows
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return (
        f"<h3>{escape(table.title)}</h3><div class=scroll"
        f" tabindex=0><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{note}\n"
    )


def _failures(summaries: Summaries) -> str:
    failed = tables.failures(summaries.results.failures)
    if not failed.rows:
        return "<p>No trial failed.</p>" if summaries.results.rows else ""
    rows = (
        tuple(cell if len(cell) <= _LONG else cell[:_LONG] + "…" for cell in row)
        for row in failed.rows
    )
    return _table(replace(failed, rows=tuple(rows)))


def _text(text: str) -> str:
    return f"<div class=scroll tabindex=0><pre>{escape(text)}</pre></div>" if text else ""


_STYLE = """
:root{color-scheme:light dark;
--ink:#1b1b1b;--paper:#fff;--faint:#5c5c5c;--line:#d9d9d9;--band:#f4f5f7;
--link:#005a9c;--mark:#9b001c}
@media (prefers-color-scheme:dark){:root{
--ink:#e8e8e8;--paper:#16181b;--faint:#a9adb3;--line:#3a3e44;--band:#202429;--link:#7cc0f5;
--mark:#ff8f9c}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;
color:var(--ink);background:var(--paper);
overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0}
h2{font-size:1.3rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--line);padding-bottom:.2rem}
h3{font-size:1rem;margin:1.6rem 0 .4rem}
a{color:var(--link)}
.mark{color:var(--mark);font-weight:600}
nav{background:var(--band);padding:.6rem 1rem;border-radius:.4rem}
nav ul{margin:0;padding-left:1.2rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}
dt{color:var(--faint)}dd{margin:0}
figure{margin:1.5rem 0}
figure .scroll{background:#fff;border:1px solid var(--line);border-radius:.4rem}
img{display:block;width:100%;min-width:40rem;height:auto;padding:.4rem}
figcaption{color:var(--faint);font-size:.9rem;margin-top:.3rem}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .45rem;border-bottom:1px solid var(--line);
text-align:left;vertical-align:top;overflow-wrap:normal}
td.n,th.n{text-align:right;white-space:nowrap}
thead th{background:var(--band);white-space:nowrap}
tbody tr:hover{background:var(--band)}
pre{margin:0;padding:.8rem;background:var(--band);font-size:.85rem;overflow-wrap:normal}
footer{margin-top:3rem;color:var(--faint);font-size:.85rem}
@media (max-width:34rem){body{padding:.7rem}
dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}}
@media print{nav{display:none}img{min-width:0}
.scroll{overflow:visible}figure,tr{break-inside:avoid}}
"""
"""Style sheet of the report, for bright and dark screens, wide and narrow ones, and for paper."""
