"""The long campaign behind docs/results/audit-coalitions.md: part of `make audit`. Plain `pytest`
does not collect it.

A sound path fails a cell of pairwise masks with a probability of about 1e-4, and is called leaky
with less than 1e-9; group masks are told from it with a power of more than 99.9 %. What is written
was measured by this very run; a failure writes nothing.
"""

import datetime as dt
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from auditing import DELTA, N_COMMON, Observations
from bounds import CONFIDENCE, N_TRIES, Audit, audits_until_one_holds, refute, typical_epsilon
from campaign_page import measured, table
from coalition import Attack, Coalition, observe
from fastlloyd.dp.gdp import gdp_epsilon, gdp_mu
from fastlloyd.federation.plan.plan import Masks

pytestmark = pytest.mark.audit

N = {3: 100_000, 5: 50_000, 10: 25_000}
N_BATCHES, N_PROCESSES = 10, 2
PAGE = Path(__file__).parents[2] / "docs" / "results" / "audit-coalitions.md"
CELLS = [
    Coalition(masks=masks, n_clients=n_clients, max_colluding=t)
    for n_clients, t in ((3, 1), (5, 1), (5, 2), (10, 1))
    for masks in (Masks.PAIRWISE, Masks.GROUP)
    if masks is Masks.PAIRWISE or t == 1
]
COLUMNS = (
    "masks",
    "M",
    "t",
    "trials per side",
    "opened",
    "epsilon in theory",
    "false alarms",
    "misses",
    "audited lower bounds",
)
TEXT = """\
# Audit of coalitions with the server

{measured}
`make audit` writes this page from that run. Change nothing here by hand.

The server and t of M clients pool all they hold: keys, masks, transcripts. From each upload of an honest client they take off
every mask that they can derive, and try every set of honest clients; the checksum word tells them what opened. With group masks
each single upload opens, with pairwise masks only the sum over all honest clients (`tests/statistical/test_coalition.py`).
From what opens they subtract every record but one, the canary, which the first client has or has not, and say "present"
where the log-likelihood ratio of the planned Gaussian model, summed over both rounds, is above 0. The target is the shipped
path of FastLloyd in `client-noise` with a constant radius, two rounds, k = {k}, d = 1, D = 0, epsilon 1 at delta = {delta:g}
and {n_common:,} known records per cluster.

Both error rates get one-sided {confidence} Clopper-Pearson bounds; epsilon follows as on [the page of the audit](audit.md).
A claim is refuted by {n_tries} audits in a row above it. The claim, epsilon 1, is what a plan with pairwise masks states of the
server together with t clients. It is no claim of group masks: they show that the audit would notice.

{rows}

- *opened*: of how many honest clients the smallest sum is that opens with the first client in it; so many shares protect.
- *epsilon in theory*: the epsilon that these shares give by the plan's scales.
- *audited lower bounds*: up to the first that is not above 1.

Not shown: a server that breaks the protocol ([proof](../proofs/mask-secrecy.md)); server-noise, where the coalition has the
exact sum over the honest clients with either kind of masks, which a test shows.
"""
ROWS: list[tuple[str, ...]] = []
STARTED = dt.datetime.now(dt.UTC)


def observe_in_parallel(coalition: Coalition, n_per_side: int) -> Observations:
    """`observe` in N_PROCESSES processes: the noise of the system has no seed that they could
    share.
    """
    with ProcessPoolExecutor(N_PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        batches = [
            pool.submit(observe, coalition, n_per_side // N_BATCHES) for _ in range(N_BATCHES)
        ]
        return Observations.join([batch.result() for batch in batches])


@pytest.mark.parametrize(
    "cell", CELLS, ids=lambda cell: f"{cell.masks.value}, {cell.n_clients}, {cell.max_colluding}"
)
def test_pairwise_masks_hold_against_the_coalition_and_group_masks_do_not(cell: Coalition) -> None:
    n, seen = N[cell.n_clients], len(Attack.of(cell).seen)
    shares = 1 if cell.masks is Masks.GROUP else cell.n_clients - cell.max_colluding
    assert seen == shares
    audits = audits_until_one_holds(cell, n, observe=observe_in_parallel)
    mu = gdp_mu(cell.epsilon, DELTA) * ((cell.n_clients - cell.max_colluding) / shares) ** 0.5
    assert refute(audits, cell) == (cell.masks is Masks.GROUP)
    assert audits[0].epsilon >= typical_epsilon(0.98 * mu, n, 4)
    found = ", ".join(f"{audit.epsilon:.3f}" for audit in audits)
    first: Audit = audits[0]
    theory = f"{gdp_epsilon(mu, DELTA):.2f}"
    numbers = (f"{n:,}", str(seen), theory, f"{first.false_alarms:,}", f"{first.misses:,}", found)
    ROWS.append((cell.masks.value, str(cell.n_clients), str(cell.max_colluding), *numbers))


def test_everything_was_measured_and_is_written_to_the_page() -> None:
    assert len(ROWS) == len(CELLS)
    text = TEXT.format(
        measured=measured(STARTED),
        k=CELLS[0].n_clusters,
        delta=DELTA,
        n_common=N_COMMON,
        confidence=f"{CONFIDENCE:.0%}".replace("%", " %"),
        n_tries=N_TRIES,
        rows=table(COLUMNS, ROWS),
    )
    PAGE.write_text(text, encoding="utf-8")
