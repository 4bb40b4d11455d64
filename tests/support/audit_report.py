"""docs/results/audit.md, from what a campaign measured."""

import datetime as dt
import platform
from dataclasses import dataclass, field

import numpy as np
import scipy

from auditing import DELTA, MANY_CLUSTERS, N_CLUSTERS, N_COMMON, Setting
from bounds import CONFIDENCE, N_TRIES, Audit
from campaign_page import table
from checks import EPSILON, Verdict
from event_search import N_DIRECTIONS, N_PICKED, Separation
from fastlloyd import __version__
from mutants import Mutant

PAGE = """\
# Privacy audit

Measured on {date} with fastlloyd {version} (Python {python}, NumPy {numpy}, SciPy {scipy}) in {minutes:.0f} minutes.
`make audit` writes this page from that run. Change nothing here by hand.

## What is attacked, and how

The target is the shipped path: client sessions with fresh keys, masks, the server session, noise from the system's random
source, messages as bytes. FastLloyd runs with a constant radius, two rounds, k = {k}, d = 1, three clients and
delta = {delta:g}; every cluster has {n_common:,} known records.

The attacker is a curious client that knows every record but one, the canary, which moves its sum by nearly the whole radius. It
opens the sum of every round and subtracts its own statistics and its own share of the noise. In `client-noise` one client is
absent, as the plan tolerates, so only one unknown share protects; with 3 of 3 present, the plan tolerates no absence and needs
two unknown shares. In `server-noise` any client has this view. The attacker says "present" where the log-likelihood ratio
of the planned Gaussian model, summed over rounds, is above 0: a threshold fixed before any run.

Each run has {k} clusters with a canary each, present in every second run, hence {k} trials: a record touches one row, and the
noise of the rows is independent (tested). {n:,} trials per side are {n_runs:,} runs. Both error rates get one-sided
{confidence} Clopper-Pearson bounds; mu >= Phi^-1(1 - false positive rate) - Phi^-1(false negative rate), and epsilon at
delta follows.

A sound path exceeds its epsilon in 1 % of audits, when both bounds fail at once. So such an audit is repeated, and
{n_tries} in a row refute the plan (below 1e-9 for a sound path). All bounds found are listed.

## Lower bounds on epsilon, {n:,} trials per side

{audits}

- *mu attained*: root mean square of what the canaries cost by the plan's scales (they keep a little within the radius).
- *bound in theory*: what this audit finds on a path that is exactly as private as planned, and its standard deviation.
- *event search*: the largest epsilon proven by any event, see below.
- *caught from*: noise too small by this factor exceeds epsilon {n_tries} times in a row with probability 99.9 %.

## Event search

The search assumes no model. It tries atoms (counts, residues of sums, equal counts in all rounds), halfspaces (scores, axes,
{n_directions} drawn directions) and bins of histograms in one and two dimensions, in both orders of the worlds.
The {n_picked} most promising on one
half of the trials are tested on the other half by ln((P - delta) / Q), at {confidence} over all of them (Bonferroni).
No event exceeded epsilon; the nearest proves {best.event.epsilon:.3f} of {best.setting.epsilon:g}
({best.setting.trust.value}, {best.event.name}).

Its power, in `client-noise` at epsilon {t.epsilon:g} with {t.n:,} trials per side: noise that is truncated instead of rounded
is proven to leak {t.truncated.epsilon:.2f} ({t.truncated.name}), genuine noise {t.genuine.epsilon:.2f}.
The likelihood attacker, which expects a Gaussian, proves {t.audit.epsilon:.2f} on the truncated noise: one needs both attacks.

## Mutants: {n_mutants} of {n_mutants} caught

{mutants}

Each is a patch of the real code, and its check is one function that the genuine code passes. Audits are as above, at epsilon
{mutant_epsilon:g}, where a wrong scale shows in the fewest runs, and with k = {mutant_k}. Where planning refuses the mutant,
the check ran without that guard.
"""
AUDIT_COLUMNS = (
    "noise",
    "present",
    "epsilon",
    "mu",
    "mu attained",
    "false alarms",
    "misses",
    "bound in theory",
    "audited lower bound",
    "event search",
    "caught from",
)
MUTANT_COLUMNS = (
    "mutant",
    "caught by",
    "at n",
    "missed with",
    "on the mutant",
    "on the genuine code",
    "refused by planning",
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting, audited. theory, spread : the typical bound and its standard deviation at what
    the canaries attained.
    """

    setting: Setting
    audits: list[Audit]
    attained_mu: float
    theory: float
    spread: float
    event: Separation
    detectable: float

    @property
    def bounds(self) -> str:
        """The lower bounds on epsilon found; more than one where the first exceeded the target."""
        return ", then ".join(f"{audit.epsilon:.3f}" for audit in self.audits)

    @property
    def summary(self) -> str:
        """One line."""
        return (
            f"epsilon {self.setting.epsilon:g}: at least {self.bounds} (theory {self.theory:.3f});"
            f" {self.event}"
        )

    @property
    def row(self) -> list[str]:
        """Its row of the table."""
        s, first = self.setting, self.audits[0]
        return [
            s.trust.value,
            f"{len(s.present)} of 3",
            f"{s.epsilon:g}",
            f"{s.mu:.4f}",
            f"{self.attained_mu:.4f}",
            f"{first.false_alarms:,}",
            f"{first.misses:,}",
            f"{self.theory:.3f} ± {self.spread:.3f}",
            f"**{self.bounds}**",
            f"{self.event.epsilon:.3f}",
            f"{self.detectable:.2f}",
        ]


@dataclass(frozen=True, kw_only=True)
class MutantRow:
    """One mutant, put to its check."""

    mutant: Mutant
    genuine: Verdict
    mutated: Verdict
    is_refused: bool

    @property
    def row(self) -> list[str]:
        """Its row of the table."""
        m, missed = self.mutant, 1 - self.mutant.power
        return [
            m.name,
            m.check.name,
            f"{m.n} {m.check.unit}",
            f"{missed:.0e}" if missed > 1e-12 else "< 1e-12",
            self.mutated.evidence,
            self.genuine.evidence,
            "yes" if self.is_refused else "no",
        ]


@dataclass(frozen=True, kw_only=True)
class Truncation:
    """The event search on genuine and on truncated noise, n trials per side, and the audit of the
    latter.
    """

    n: int
    epsilon: float
    genuine: Separation
    truncated: Separation
    audit: Audit


@dataclass(kw_only=True)
class Report:
    """All that a campaign found."""

    started: dt.datetime
    n_per_side: int
    cells: list[Cell] = field(default_factory=list)
    truncation: Truncation | None = None
    mutants: list[MutantRow] = field(default_factory=list)

    def page(self) -> str:
        """The page in Markdown."""
        return PAGE.format(
            date=self.started.date().isoformat(),
            version=__version__,
            python=platform.python_version(),
            numpy=np.__version__,
            scipy=scipy.__version__,
            minutes=(dt.datetime.now(dt.UTC) - self.started).total_seconds() / 60,
            k=N_CLUSTERS,
            delta=DELTA,
            n_common=N_COMMON,
            n=self.n_per_side,
            n_runs=2 * self.n_per_side // N_CLUSTERS,
            confidence=f"{100 * CONFIDENCE:g} %",
            n_tries=N_TRIES,
            audits=table(AUDIT_COLUMNS, (cell.row for cell in self.cells)),
            n_directions=N_DIRECTIONS,
            n_picked=N_PICKED,
            best=max(self.cells, key=lambda cell: cell.event.epsilon / cell.setting.epsilon),
            t=self.truncation,
            n_mutants=len(self.mutants),
            mutants=table(MUTANT_COLUMNS, (row.row for row in self.mutants)),
            mutant_epsilon=EPSILON,
            mutant_k=MANY_CLUSTERS,
        )
