"""Tables of summaries: as text and Markdown for people, as CSV with all digits for programs."""

import csv
import io
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fastlloyd.base.names import unknown_name
from fastlloyd.errors import DataError
from fastlloyd_lab.experiments.measures import quantity
from fastlloyd_lab.experiments.reading import Row
from fastlloyd_lab.pictures.summaries import BASELINE, Summaries, Summary, Variant, relative

NOT_PRIVATE = "computed on raw data: NOT PRIVATE"
NOTHING = "-"
FAILED = "Failed trials"
ROUNDING = 1e-9  # a half width that is only rounding, beside its mean
CSV_COLUMNS = (
    "measure", "statistic", "dataset", "method", "options", "clients", "epsilon",
    "n_runs", "n_failed", "n_infinite", "value", "half_width", "median", "privacy",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Table of headings and rows of text.

    text : number of columns, from the left, that contain words instead of numbers.
    """

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: int
    note: str = ""


def chosen_measures(summaries: Summaries, names: Sequence[str]) -> list[str]:
    """Return the measures with the given names, or all measures if no names are given.

    Raises DataError if a name is unknown, or if there are no trials.
    """
    if not summaries.results.rows:
        raise DataError(
            f"there are no trials in {summaries.results.title}, so there is nothing to tabulate"
        )
    known = summaries.results.measures
    for name in names:
        if name not in known:
            raise DataError(f"measure {unknown_name(name, known)}")
    return list(dict.fromkeys(names)) or known


def tables(summaries: Summaries, measures: Sequence[str] = ()) -> list[Table]:
    """Return two tables for each measure, its means and its areas, and a table of failures if there
    are any.
    """
    found: list[Table] = []
    for measure in chosen_measures(summaries, measures):
        found.append(means(summaries, measure))
        areas = area_table(summaries, measure)
        found += [areas] if areas.rows else []
    failed = failures(summaries.results.failures)
    return found + ([failed] if failed.rows else [])


def means(summaries: Summaries, measure: str) -> Table:
    """Return the table of means ± half widths of 95% intervals, with a row per set and method, and
    a column per epsilon.

    A further column counts omitted values, if there are any.
    """
    epsilons = summaries.epsilons()
    rows = []
    for name in summaries.datasets:
        own = set(summaries.epsilons(name))
        for variant in summaries.variants_of(name):
            cells = {
                e: summaries.sample(name, variant, e, measure).summary()
                for e in epsilons or [math.inf]
            }
            shown = [interval(cell) if e in own or not own else "" for e, cell in cells.items()]
            # one value, shown at every epsilon
            counted = list(cells.values())[: None if summaries.is_private(variant) else 1]
            failed = sum(cell.n_failed for cell in counted)
            infinite = sum(cell.n_infinite for cell in counted)
            counts = {"f": failed, "i": infinite}
            left_out = " ".join(f"{n}{letter}" for letter, n in counts.items() if n)
            rows.append((name, summaries.label(variant), *shown, left_out))
    some_left_out = any(row[-1] for row in rows)
    kept = slice(None if some_left_out else -1)
    return Table(
        title=f"{quantity(measure).axis}: mean ± half width of the 95% interval over runs",
        headings=(
            "data set",
            "method",
            *([f"epsilon {e:g}" for e in epsilons] or ["mean"]),
            "left out",
        )[kept],
        rows=tuple(row[kept] for row in rows),
        text=2,
        note="left out: failed trials (f) and infinite values (i)" if some_left_out else "",
    )


def area_table(summaries: Summaries, measure: str) -> Table:
    """Return the table of areas under the curve of the measure by epsilon, with ratios to the
    baseline, and with the best private method.
    """
    rows = []
    for name in summaries.datasets:
        found = [
            (variant, summaries.areas(name, variant, measure))
            for variant in summaries.variants_of(name)
        ]
        best = _best(summaries, measure, [(variant, sample.summary()) for variant, sample in found])
        for variant, sample in found:
            if not sample.by_run and not summaries.epsilons(name):
                continue
            ratio = ratio_of_areas(summaries, name, variant, measure)
            cells = interval(sample.summary()), interval(ratio) if ratio else NOTHING, f"{sample.n}"
            rows.append((name, summaries.label(variant), *cells, "best" if variant == best else ""))
    if all(row[2] == NOTHING for row in rows):
        rows = []
    return Table(
        title=f"Area under {quantity(measure).title} against epsilon, by the trapezoid rule",
        headings=(
            "data set",
            "method",
            "area",
            f"relative to {summaries.method_label(BASELINE)}",
            "runs",
            "private methods",
        ),
        rows=tuple(rows),
        text=2,
    )


def _best(
    summaries: Summaries, measure: str, found: Sequence[tuple[Variant, Summary]]
) -> Variant | None:
    """Return the private method with the best mean. Return None if there is only one private
    method, or if it is not defined which values are better.

    Only methods with the most runs are compared. Otherwise a method could win because its failures
    are left out.
    """
    better = quantity(measure).better
    private = [(variant, summary) for variant, summary in found if summaries.is_private(variant)]
    most = max((summary.n for _, summary in private), default=0)
    private = [(variant, summary) for variant, summary in private if summary.n == most > 0]
    if len(private) < 2 or not better:
        return None
    return max(private, key=lambda each: better * each[1].mean)[0]


def ratio_of_areas(
    summaries: Summaries, dataset: str, variant: Variant, measure: str
) -> Summary | None:
    """Return a variant's area under the curve of a measure by epsilon, divided by the baseline's
    area on the same data set. Return None if there is no baseline, or if no run has both areas.
    """
    if (reference := summaries.reference(variant)) is None:
        return None
    ratio = relative(
        summaries.areas(dataset, variant, measure), summaries.areas(dataset, reference, measure)
    )
    return ratio if ratio.n else None


def failures(rows: Sequence[Row]) -> Table:
    """Return the table of failures: kind, number, and one trial of each kind."""
    counts = Counter((row.dataset, row.method, row.error) for row in rows)
    return Table(
        title=FAILED,
        headings=("data set", "method", "why", "trials"),
        rows=tuple(
            (dataset, method, error, f"{n:,}") for (dataset, method, error), n in counts.items()
        ),
        text=3,
    )


def interval(summary: Summary) -> str:
    """Return mean ± half width, with two significant digits of the half width: "0.2341 ± 0.0012".
    Without variation, return the mean alone.
    """
    if not summary.n or math.isnan(summary.mean):
        return NOTHING
    if math.isnan(summary.half_width) or summary.half_width <= ROUNDING * abs(summary.mean):
        return f"{summary.mean:.4g}"
    size = max(abs(summary.mean), summary.half_width)
    power = 0 if 1e-3 <= size < 1e6 else math.floor(math.log10(size))
    mean, half = summary.mean / 10.0**power, summary.half_width / 10.0**power
    digits = min(8, max(0, 1 - math.floor(math.log10(half))))
    text = f"{mean:.{digits}f} ± {half:.{digits}f}"
    return f"({text})e{power:+03d}" if power else text


def to_markdown(listed: Sequence[Table]) -> str:
    """Return the tables as Markdown, one below the other."""
    parts = []
    for table in listed:
        lines = [f"### {_plain(table.title)}", ""]
        lines += [
            _line(table.headings),
            _line(["---"] * table.text + ["---:"] * (len(table.headings) - table.text)),
        ]
        lines += [_line(row) for row in table.rows]
        parts.append("\n".join([*lines, *(["", table.note] if table.note else [])]))
    return "\n\n".join([*parts, f"These figures were {NOT_PRIVATE}."]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(cell: str) -> str:
    """Return the text with Markdown escaped, because names come from files."""
    escaped = "".join(f"\\{letter}" if letter in "\\|`*_[]<>#~" else letter for letter in cell)
    return " ".join(escaped.split())


def to_csv(summaries: Summaries, measures: Sequence[str] = ()) -> str:
    """Return one row per mean, area and relative area, with all digits of float64. A cell without a
    value is empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for measure in chosen_measures(summaries, measures):
        for name in summaries.datasets:
            for variant in summaries.variants_of(name):
                for statistic, epsilon, summary in _statistics(summaries, name, variant, measure):
                    writer.writerow(
                        [
                            measure, statistic, name, variant.method,
                            " ".join(f"{option}={value}" for option, value in variant.options),
                            variant.clients, epsilon,
                            summary.n, summary.n_failed, summary.n_infinite,
                            *("" if math.isnan(x) else repr(x)
                              for x in (summary.mean, summary.half_width, summary.median)),
                            "NOT PRIVATE",
                        ]
                    )  # fmt: skip
    return text.getvalue()


def _statistics(
    summaries: Summaries, dataset: str, variant: Variant, measure: str
) -> Iterator[tuple[str, str, Summary]]:
    epsilons = summaries.epsilons(dataset) if summaries.is_private(variant) else [math.inf]
    for epsilon in epsilons:
        yield "mean", repr(epsilon), summaries.sample(dataset, variant, epsilon, measure).summary()
    if len(summaries.epsilons(dataset)) > 1:
        yield "area", "", summaries.areas(dataset, variant, measure).summary()
        if ratio := ratio_of_areas(summaries, dataset, variant, measure):
            yield "area_relative", "", ratio
