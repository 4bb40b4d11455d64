"""Many records and how far they move histograms: `make campaign`, 1,000,000 changes, or as many as
RECORDS says.

Plain `pytest` does not collect it. Each pair of data sets follows from its number.
"""

import datetime as dt
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import campaign_page
from histogram_pairs import DOMAINS, hold

pytestmark = pytest.mark.campaign

FULL_SIZE = 1_000_000
N_CHANGES = int(os.environ.get("RECORDS", str(FULL_SIZE)))
PART = 100  # draws of leaves
COLUMNS = ("features", "changes")

TEXT = """\
{measured}
{n:,} changes of exact histograms by one record, added or removed or replaced, over 1 to 4 levels of intervals that lie anywhere
in the outer range and beyond, with records at their edges and one unit below. None lay outside the stated corners, and every
record added lay on them ([proof](../proofs/private-bounds.md)).

{table}

Not shown: mechanisms and their noise."""


def changes(domain: int, numbers: range) -> int:
    """What a worker process looks at in the draws of these numbers."""
    return sum(hold(DOMAINS[domain], number) for number in numbers)


def test_no_record_moves_a_histogram_by_more_than_stated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    started, found, first = dt.datetime.now(dt.UTC), [0] * len(DOMAINS), 0
    with ProcessPoolExecutor(
        int(os.environ.get("PROCESSES", os.cpu_count() or 1)), mp_context=get_context("spawn")
    ) as pool:
        while sum(found) < N_CHANGES:
            parts = [(domain, range(first, first + PART)) for domain in range(len(DOMAINS))]
            for (domain, _), n in zip(
                parts, pool.map(changes, *zip(*parts, strict=True)), strict=True
            ):
                found[domain] += n
            first += PART
    rows = [(str(domain.n_features), f"{n:,}") for domain, n in zip(DOMAINS, found, strict=True)]
    with capsys.disabled():
        sys.stdout.write(f"\n{campaign_page.aligned([COLUMNS, *rows])}\n")
    text = TEXT.format(
        measured=campaign_page.measured(started, NumPy=np.__version__),
        n=sum(found),
        table=campaign_page.table(COLUMNS, rows),
    )
    campaign_page.write_section("Bounds", text, is_full_size=N_CHANGES >= FULL_SIZE)
