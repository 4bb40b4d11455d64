"""Many sets as one: run by run, the mean of each measure over all sets. NOT PRIVATE."""

from collections import defaultdict
from dataclasses import replace
from statistics import fmean

from fastlloyd.evaluation.experiments.reading import Results
from fastlloyd.evaluation.experiments.rows import Row


def over_sets(results: Results) -> Results:
    """The same results with one data set, "mean of N sets": for every method, options, epsilon and run the mean over all sets.

    A run that some set lacks, or that failed on one, is left out, and a note says how many were.
    """
    names = {row.dataset for row in results.rows}
    rows_of: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in results.rows:
        rows_of[row.method, row.options, row.clients, row.epsilon, row.run].append(row)
    whole = [rows for rows in rows_of.values() if len(rows) == len(names) and not any(row.error for row in rows)]
    lacking = len(rows_of) - len(whole)
    note = f"{lacking:,} of {len(rows_of):,} means over {len(names):,} sets lack a set, or a trial failed; they are left out"
    return replace(
        results,
        rows=tuple(_mean(rows, f"mean of {len(names):,} sets") for rows in whole),
        notes=(*results.notes, *([note] if lacking else [])),
    )


def _mean(rows: list[Row], name: str) -> Row:
    measures = {
        measure: fmean(row.measures[measure] for row in rows)
        for measure in rows[0].measures
        if all(measure in row.measures for row in rows)
    }
    return replace(rows[0], dataset=name, n_records=0, n_features=0, n_clusters=0, measures=measures)
