"""The long campaign behind docs/results/audit-momentlloyd.md: part of `make audit`. Plain `pytest`
does not collect it.

A sound path fails a cell with a probability of about 1e-4 (a bound four deviations below the
typical one), and is called leaky with less than 1e-9. What is written was measured by this very
run; a failure writes nothing.
"""

import datetime as dt
import multiprocessing
import platform
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy

from auditing import DELTA
from bounds import CONFIDENCE, N_TRIES, Audit, detectable_factor, typical_epsilon
from campaign_page import table
from fastlloyd import __version__
from fastlloyd.federation.plan.plan import TrustMode
from moment_auditing import MomentSetting, MomentTrials

pytestmark = pytest.mark.audit

N = 2_000
N_BATCHES = 10
N_PROCESSES = 2
PAGE = Path(__file__).parents[2] / "docs" / "results" / "audit-momentlloyd.md"
SETTINGS = [
    MomentSetting(trust=trust, n_features=d, epsilon=epsilon)
    for epsilon, features in ((1.0, (5,)), (3.0, (2, 5, 40)))
    for d in features
    for trust in TrustMode
]
COLUMNS = (
    "noise",
    "features",
    "rounds",
    "epsilon",
    "mu",
    "mu attained",
    "false alarms",
    "misses",
    "bound in theory",
    "audited lower bound",
    "caught from",
)
TEXT = """\
# Privacy audit of MomentLloyd

Measured on {date} with fastlloyd {version} (Python {python}, NumPy {numpy}, SciPy {scipy}) in {minutes:.0f} minutes.
`make audit` writes this page from that run. Change nothing here by hand.

The attacker and the bounds are those of [the audit of FastLloyd](audit.md). A curious client of three knows every record but
one, the canary. It opens the sum of every round, subtracts the exact answers of all records that it knows and its own share of
the noise, and says "present" where the log-likelihood ratio of the planned Gaussian model, summed over all rounds, is above 0.
The target is the shipped path: sessions, masks, sealed parameters, noise from the system's random source. One client is absent,
as the plan tolerates; in `client-noise` only one unknown share of the noise then protects.

Here the rounds ask different questions, which follow from noisy answers. So the attacker weighs the canary's part of each
question by the noise of that question. The canary sits alone in a corner of the box and attains the sensitivity of
nearly every round. It touches all rounds, so a run is one trial, and {n:,} trials per side are {n_runs:,} runs:
bounds are wider than FastLloyd's of 100,000. k = {k}, {n_records} known records, delta = {delta:g}. With
2 features a run asks for mean, squares, votes and steps; with 5 for mean, lengths, second moment, votes and steps; with 40 for
the same, its steps along leading directions.

## Lower bounds on epsilon, {n:,} trials per side

{rows}

- *mu attained*: root mean square of what the canary cost by the plan's scales; 1 - attained/mu is what it left unused.
- *bound in theory*: what this audit finds on a path that is exactly as private as planned, and its standard deviation.
- *audited lower bound*: at {confidence} a side. A sound path exceeds its epsilon in 1 % of audits; one that does is repeated,
  and {n_tries} in a row refute the plan. All bounds found are listed.
- *caught from*: noise too small by this factor exceeds epsilon {n_tries} times in a row with probability 99.9 %.

Other tests check the sensitivities against random and constructed neighbours. The noise's law, the masks and the random sources
are common to both algorithms; the mutants of the other page check them.
"""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting, audited."""

    setting: MomentSetting
    audits: list[Audit]
    attained_mu: float
    n_rounds: int

    @property
    def row(self) -> list[str]:
        """Its row of the table."""
        s, first = self.setting, self.audits[0]
        spread = (
            typical_epsilon(self.attained_mu, N, -1) - typical_epsilon(self.attained_mu, N, 1)
        ) / 2
        return [
            s.trust.value,
            f"{s.n_features}",
            f"{self.n_rounds}",
            f"{s.epsilon:g}",
            f"{s.mu:.4f}",
            f"{self.attained_mu:.4f}",
            f"{first.false_alarms:,}",
            f"{first.misses:,}",
            f"{typical_epsilon(self.attained_mu, N, 0):.2f} ± {spread:.2f}",
            f"**{', then '.join(f'{audit.epsilon:.2f}' for audit in self.audits)}**",
            f"{detectable_factor(self.attained_mu, s.mu, N):.2f}",
        ]


def observed(setting: MomentSetting) -> MomentTrials:
    """N trials per side, in N_PROCESSES processes: the noise of the system has no seed that they
    could share.
    """
    with ProcessPoolExecutor(N_PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        return MomentTrials.join(
            list(
                pool.map(MomentTrials.observe, [setting] * N_BATCHES, [N // N_BATCHES] * N_BATCHES)
            )
        )


@pytest.fixture(scope="module")
def started() -> dt.datetime:
    """When the campaign began."""
    return dt.datetime.now(dt.UTC)


@pytest.fixture(scope="module")
def cells(started: dt.datetime) -> list[Cell]:
    """What the tests of this file found so far."""
    return []


@pytest.mark.parametrize(
    "setting",
    SETTINGS,
    ids=lambda s: f"{s.trust.value}, {s.n_features} features, epsilon {s.epsilon:g}",
)
def test_the_audit_comes_near_the_planned_epsilon_and_nothing_exceeds_it(
    setting: MomentSetting, cells: list[Cell]
) -> None:
    audits: list[Audit] = []
    trials = observed(setting)
    attained = trials.attained_mu
    audits.append(trials.audit)
    while audits[-1].epsilon > setting.epsilon and len(audits) < N_TRIES:
        audits.append(observed(setting).audit)
    assert 0.9 * setting.mu < attained <= setting.mu * (1 + 1e-9)
    assert audits[-1].epsilon <= setting.epsilon
    assert audits[0].epsilon >= typical_epsilon(attained, N, 4)
    cells.append(
        Cell(setting=setting, audits=audits, attained_mu=attained, n_rounds=setting.n_rounds)
    )


def test_everything_was_measured_and_is_written_to_the_page(
    cells: list[Cell], started: dt.datetime
) -> None:
    assert len(cells) == len(SETTINGS)
    first = SETTINGS[0]
    page = TEXT.format(
        date=started.date().isoformat(),
        version=__version__,
        python=platform.python_version(),
        numpy=np.__version__,
        scipy=scipy.__version__,
        minutes=(dt.datetime.now(dt.UTC) - started).total_seconds() / 60,
        n=N,
        n_runs=2 * N,
        k=first.n_clusters,
        n_records=first.n_records,
        delta=DELTA,
        confidence=f"{100 * CONFIDENCE:g} %",
        n_tries=N_TRIES,
        rows=table(COLUMNS, (cell.row for cell in cells)),
    )
    PAGE.write_text(page, encoding="utf-8")
