"""Study of whether the sentences of a result page are true.
Claims about synthetic groups are compared with the exact centres.

    python -m studies.sentences [--runs N] [--write]

With --write, the program writes the table of docs/results/sentences.md. Noise is repeatable, and
centres are exact: NOT PRIVATE.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.report import as_table, publish
from fastlloyd.mechanisms.uncertainty import settled
from fastlloyd.reports.profile import BoolArray, Centres, Profile
from studies.coverage import Run, run_of, s1
from studies.coverage_groups import CASES, FloatArray
from studies.coverage_skewed import skewed_cases

PAGE = Path(__file__).parents[2] / "docs" / "results" / "sentences.md"
RUNS, SKEWED_RUNS = 40, 20
HEADINGS = (
    "groups", "pages", "with a false sentence", "settled groups", "described", "claims", "false",
    "superlatives", "false",
)  # fmt: skip


class Page(NamedTuple):
    """Counts of one result page: settled and described groups, claims and superlatives, and the
    false ones among them.
    """

    settled: int
    described: int
    claims: int
    false: int
    superlatives: int
    false_superlatives: int


def page_of(run: Run) -> Page:
    """Count the claims that the page of a run makes, and those that are false for the exact
    centres.
    """
    domain, noise = run.domain, run.noise.counts
    values = domain.from_grid(run.clustering.centroids)
    is_settled: BoolArray = settled(run.accuracy.status) & np.isfinite(run.accuracy.errors).all(1)
    claims = Profile.of(
        Centres(
            values=values,
            errors=run.accuracy.errors,
            counts=run.clustering.noisy_counts(run.mechanism.number_bits),
            count_error=noise,
            settled=is_settled,
            half_widths=(np.array(domain.upper) - np.array(domain.lower)) / 2,
        )
    ).claims
    exact = values + run.centres * domain.units
    together = np.average(
        np.nan_to_num(exact[is_settled]), axis=0, weights=np.maximum(run.counts[is_settled], 1e-9)
    ) if is_settled.any() else np.zeros(len(domain.features))  # fmt: skip
    stated = [(i, claim) for i, some in enumerate(claims) for claim in some]
    sides = [claim.side * (exact[i] - together)[claim.feature] > 0 for i, claim in stated]
    extremes = [
        _is_extreme(claim.side * exact[:, claim.feature], i) for i, claim in stated
        if claim.is_extreme
    ]  # fmt: skip
    return Page(
        settled=int(is_settled.sum()),
        described=sum(map(bool, claims)),
        claims=len(stated),
        false=sides.count(False),
        superlatives=len(extremes),
        false_superlatives=extremes.count(False),
    )


def _is_extreme(values: FloatArray, i: int) -> bool:
    """Return whether the i-th value is above all others. Return False if one of them is unknown."""
    return bool(np.all(np.delete(values, i) < values[i]))


def _row(name: str, pages: Sequence[Page]) -> list[str]:
    settled_, described, claims, false, superlatives, wrong = np.sum(pages, axis=0).tolist()
    false_pages = sum(bool(page.false or page.false_superlatives) for page in pages)
    return [
        name, f"{len(pages):,}", f"{false_pages}", f"{settled_:,}",
        f"{described / settled_:.0%}" if settled_ else "-",
        f"{claims:,}", f"{false}", f"{superlatives:,}", f"{wrong}",
    ]  # fmt: skip


def main() -> None:
    """Do all runs, print each row at once, and print or write the table."""
    parser = argparse.ArgumentParser(prog="studies.sentences", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS, help="of each row of made-up groups")
    parser.add_argument("--skewed-runs", type=int, default=SKEWED_RUNS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    asked = [(case, options.runs) for case in (*CASES, *s1())]
    asked += [(case, options.skewed_runs) for case in skewed_cases()]
    sections: dict[str, list[Page]] = {}
    for case, runs in asked:
        if not runs:
            continue
        pages = [page_of(run_of(case, number, "sentences")) for number in range(runs)]
        sections.setdefault(case.section, []).extend(pages)
        print(*_row(case.name, pages), sep=" | ", file=sys.stderr, flush=True)
    rows = [_row(section, pages) for section, pages in sections.items()]
    rows.append(_row("**all**", [page for pages in sections.values() for page in pages]))
    text = as_table(HEADINGS, "l" + "r" * (len(HEADINGS) - 1), rows)
    publish("sentences", text, PAGE, write=options.write)


if __name__ == "__main__":
    main()
