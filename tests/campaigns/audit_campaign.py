"""The long campaign behind docs/results/audit.md, part of `make audit`. Plain `pytest` does not
collect it.

A sound path fails a cell with a probability of about 1e-3 (a bound below the floor that is
demanded), and is called leaky with less than 1e-9. What is written was measured by this very run; a
failure writes nothing.
"""

import datetime as dt
import multiprocessing
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path

import pytest

import mutants
from audit_report import Cell, MutantRow, Report, Truncation
from auditing import Observations, Setting, observe
from bounds import Audit, audits_until_one_holds, detectable_factor, refute, typical_epsilon
from checks import Verdict
from event_search import Separation, search
from fastlloyd.federation.plan.plan import TrustMode
from mutants import MUTANTS, Mutant

pytestmark = pytest.mark.audit

N = 100_000
N_TRUNCATED = 80_000
N_BATCHES = 20
N_PROCESSES = 2
PAGE = Path(__file__).parents[2] / "docs" / "results" / "audit.md"

SETTINGS = [
    *(Setting(trust=trust, epsilon=epsilon) for epsilon in (0.5, 1.0, 3.0) for trust in TrustMode),
    Setting(trust=TrustMode.CLIENT_NOISE, epsilon=1.0, all_present=True),
]
TRUNCATED = Setting(trust=TrustMode.CLIENT_NOISE, epsilon=0.1)

Say = Callable[[str], None]


@pytest.fixture(scope="module")
def report() -> Report:
    """What the tests of this file found so far."""
    return Report(started=dt.datetime.now(dt.UTC), n_per_side=N)


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    """Print a line of progress, past pytest's capture."""
    start = time.monotonic()

    def write(line: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n  {time.monotonic() - start:5.0f} s  {line}")
            sys.stdout.flush()

    return write


def observe_under(mutation: str | None, setting: Setting, n_per_side: int) -> Observations:
    """`observe`, under the mutation of that name: what a worker process runs."""
    with getattr(mutants, mutation)() if mutation else nullcontext():
        return observe(setting, n_per_side)


def observe_in_parallel(
    say: Say, mutation: str | None, setting: Setting, n_per_side: int
) -> Observations:
    """`observe_under` in N_PROCESSES processes: the noise of the system has no seed that they could
    share.
    """
    with ProcessPoolExecutor(N_PROCESSES, mp_context=multiprocessing.get_context("spawn")) as pool:
        batches = [
            pool.submit(observe_under, mutation, setting, n_per_side // N_BATCHES)
            for _ in range(N_BATCHES)
        ]
        for n_done, _ in enumerate(as_completed(batches), 1):
            if n_done % (N_BATCHES // 4) == 0:
                say(f"{n_done * n_per_side // N_BATCHES} of {n_per_side} trials per side")
        return Observations.join([batch.result() for batch in batches])


@pytest.mark.parametrize(
    "setting",
    SETTINGS,
    ids=lambda s: (
        f"{s.trust.value}, epsilon {s.epsilon:g}{', all present' if s.all_present else ''}"
    ),
)
def test_the_audit_comes_near_the_planned_epsilon_and_nothing_exceeds_it(
    setting: Setting, report: Report, say: Say
) -> None:
    seen: list[Observations] = []

    def observe_and_keep(setting: Setting, n_per_side: int) -> Observations:
        seen.append(observe_in_parallel(say, None, setting, n_per_side))
        return seen[-1]

    audits = audits_until_one_holds(setting, N, observe=observe_and_keep)
    attained = seen[0].attained_mu
    cell = Cell(
        setting=setting,
        audits=audits,
        attained_mu=attained,
        theory=typical_epsilon(attained, N, 0),
        spread=(typical_epsilon(attained, N, -1) - typical_epsilon(attained, N, 1)) / 2,
        event=search(seen[0]),
        detectable=detectable_factor(attained, setting.mu, N),
    )
    say(cell.summary)
    assert not refute(audits, setting)
    assert audits[0].epsilon >= (
        0.85 if setting.epsilon == 1.0 else typical_epsilon(attained, N, 4)
    )
    assert cell.event.epsilon <= setting.epsilon
    report.cells.append(cell)


def test_the_event_search_catches_truncated_noise_through_the_whole_path(
    report: Report, say: Say
) -> None:
    # 80,000 trials per side: one atom of the count in four has twice its probability; missed with a
    # probability below 0.01
    def find(mutation: str | None) -> tuple[Separation, Audit]:
        observations = observe_in_parallel(say, mutation, TRUNCATED, N_TRUNCATED)
        return search(observations), Audit.of(observations)

    genuine, _ = find(None)
    truncated, audit = find("truncation")
    say(f"genuine {genuine}, truncated {truncated}, its audit {audit.epsilon:.3f}")
    assert genuine.epsilon <= TRUNCATED.epsilon < truncated.epsilon
    report.truncation = Truncation(
        n=N_TRUNCATED, epsilon=TRUNCATED.epsilon, genuine=genuine, truncated=truncated, audit=audit
    )


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_mutant_is_caught(mutant: Mutant, report: Report, say: Say) -> None:
    genuine = mutant.check(mutant.n)
    with mutant.applied():
        mutated: Verdict = mutant.check(mutant.n)
    refused = mutant.is_refused_by_planning()
    say(f"{mutated.evidence} (genuine: {genuine.evidence})")
    assert genuine.holds
    assert not mutated.holds
    assert refused == mutant.guarded
    report.mutants.append(
        MutantRow(mutant=mutant, genuine=genuine, mutated=mutated, is_refused=refused)
    )


def test_everything_was_measured_and_is_written_to_the_page(report: Report) -> None:
    assert len(report.cells) == len(SETTINGS)
    assert report.truncation is not None
    assert len(report.mutants) == len(MUTANTS)
    PAGE.write_text(report.page(), encoding="utf-8")
