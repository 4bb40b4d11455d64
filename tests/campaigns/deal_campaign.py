"""Many pairs of neighbours that a simulation deals to clients: `make campaign`, 100,000 pairs, or as
many as PAIRS says.

Plain `pytest` does not collect it. Each pair follows from its number.
"""

import datetime as dt
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import campaign_page
from dealt import Situation

pytestmark = pytest.mark.campaign

FULL_SIZE = 100_000
N_PAIRS = int(os.environ.get("PAIRS", str(FULL_SIZE)))
PART = 500  # pairs
COLUMNS = ("what is protected", "neighbours", "noise", "pairs", "most of the planned mu")

TEXT = """\
{measured}
{n:,} pairs of neighbouring data sets of up to 61 records, or 12 persons, were dealt to 3 to 6 clients as `simulate --drop`
deals them. In every round other clients were missing, or the same, or every second. Records that both data sets have got the
same words, as in the [proof](../proofs/deal.md). For each pair mu of all exact answers together, over the noise of the clients
that were there, stayed at or below the planned mu.

{table}

A third of the data sets have 95 % equal records. The other record is the first, the last or in the middle; rows of persons
stand in any order. Queries have parameters at the ends of their ranges and anywhere within. With noise of the clients nobody
attains the planned mu, as one share belongs to a client that may know it. Not shown: that words are as good as independent."""

Found = dict[tuple[str, str, str], tuple[int, float]]


def attained(numbers: range) -> Found:
    """What a worker process finds in the pairs of these numbers: how many, and the most."""
    found: Found = {}
    for number in numbers:
        pair = Situation.draw(np.random.default_rng([number, 2]))
        part = pair.attained()
        assert part <= 1 + 1e-12, f"pair {number} attains {part} of the planned mu"
        found = merged(found, {_kind(pair): (1, part)})
    return found


def _kind(pair: Situation) -> tuple[str, str, str]:
    m = pair.plan.mechanism
    who = "a record" if m.persons is None else f"a person at up to {m.persons.max_clients}"
    return who, m.neighboring_relation.value, pair.plan.trust.value


def merged(one: Found, other: Found) -> Found:
    """Both together."""
    nothing = (0, 0.0)
    return {
        kind: (
            one.get(kind, nothing)[0] + other.get(kind, nothing)[0],
            max(one.get(kind, nothing)[1], other.get(kind, nothing)[1]),
        )
        for kind in one | other
    }


def _read(rows: list[tuple[str, str, str, int, float]]) -> Found:
    """What was kept of a part."""
    return {(who, relation, trust): (n, most) for who, relation, trust, n, most in rows}


def test_no_pair_of_neighbours_attains_more_than_planned(
    capsys: pytest.CaptureFixture[str],
) -> None:
    started = dt.datetime.now(dt.UTC)
    parts = [range(first, min(first + PART, N_PAIRS)) for first in range(0, N_PAIRS, PART)]
    kept, found = campaign_page.kept(), Found()
    left = [part for part in parts if (part[0], part[-1]) not in kept]
    for part in parts:
        found = merged(found, _read(kept.get((part[0], part[-1]), [])))
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for part, more in zip(left, pool.map(attained, left), strict=True):
            campaign_page.keep((part[0], part[-1]), [[*kind, *of] for kind, of in more.items()])
            found = merged(found, more)
    rows = [(*kind, f"{n:,}", f"{100 * most:.1f} %") for kind, (n, most) in sorted(found.items())]
    with capsys.disabled():
        sys.stdout.write(f"\n{campaign_page.aligned([COLUMNS, *rows])}\n")
    text = TEXT.format(
        measured=campaign_page.measured(started, NumPy=np.__version__),
        n=N_PAIRS,
        table=campaign_page.table(COLUMNS, rows),
    )
    campaign_page.write_section("Dealt records", text, is_full_size=N_PAIRS >= FULL_SIZE)
