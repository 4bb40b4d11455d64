"""Many persons and how far they move answers: `make campaign`, 1,000,000 changes, or as many as
PERSONS says.

Plain `pytest` does not collect it. Each situation follows from its number.
"""

import datetime as dt
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import campaign_page
import moment_situations as situations
from people import Situation

pytestmark = pytest.mark.campaign

FULL_SIZE = 1_000_000
N_CHANGES = int(os.environ.get("PERSONS", str(FULL_SIZE)))
PART = 200  # situations
COLUMNS = ("features", "clients of a person", "situations", "changes")

TEXT = """\
{measured}
{n:,} changes of exact answers by one person: added or removed, replaced by another, and one row of a person who stays; by
every kind of question, with parameters at the ends of their ranges and anywhere within. None lay outside the stated corners
([proof](../proofs/persons.md)).

{table}

Persons have no row, one, a few, as many as shares, or more, often equal ones, at one client or at several, and as many as they
may be at or fewer. Not shown: mechanisms and their noise."""


def changes(domain: int, numbers: range) -> Counter[tuple[int, str]]:
    """What a worker process finds in the situations of these numbers."""
    found = Counter[tuple[int, str]]()
    for number in numbers:
        drawn = Situation.draw(situations.DOMAINS[domain], np.random.default_rng([number, domain]))
        assert drawn.all_hold(), f"situation {number} of domain {domain}"
        found[drawn.persons.max_clients, "situations"] += 1
        found[drawn.persons.max_clients, "changes"] += drawn.n_changes
    return found


def test_no_person_moves_an_answer_by_more_than_stated(capsys: pytest.CaptureFixture[str]) -> None:
    started, n = dt.datetime.now(dt.UTC), 0
    found = [Counter[tuple[int, str]]() for _ in situations.DOMAINS]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        first = 0
        while n < N_CHANGES:
            parts = [(domain, range(first, first + PART)) for domain in range(len(found))]
            for (domain, _), counts in zip(
                parts, pool.map(changes, *zip(*parts, strict=True)), strict=True
            ):
                found[domain] += counts
            first, n = (
                first + PART,
                sum(
                    sum(k for (_, what), k in counts.items() if what == "changes")
                    for counts in found
                ),
            )
    rows = [
        (
            f"{domain.n_features}, {domain.fraction_bits} bits",
            f"at most {c}",
            *(f"{counts[c, what]:,}" for what in COLUMNS[2:]),
        )
        for domain, counts in zip(situations.DOMAINS, found, strict=True)
        for c in (1, 2, 3)
    ]
    with capsys.disabled():
        sys.stdout.write(f"\n{campaign_page.aligned([COLUMNS, *rows])}\n")
    text = TEXT.format(
        measured=campaign_page.measured(started, NumPy=np.__version__),
        n=n,
        table=campaign_page.table(COLUMNS, rows),
    )
    campaign_page.write_section("Persons", text, is_full_size=N_CHANGES >= FULL_SIZE)
