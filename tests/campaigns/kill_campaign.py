"""Many kills of real processes: `make campaign`, 500 of them, or as many as KILLS says. Plain
`pytest` does not collect it.

What is killed where follows from a run's number. It is told in the end, and which rule a run broke.
"""

import datetime as dt
import os
import sys
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import campaign_page
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from network_processes import Death, Site, cleared, make_site

pytestmark = pytest.mark.campaign

FULL_SIZE = 500
N_KILLS = int(os.environ.get("KILLS", str(FULL_SIZE)))
ALGORITHMS: tuple[AnyAlgorithm, ...] = (FASTLLOYD, MOMENTLLOYD)
RUNS = {
    f"{algorithm.name}, {masks.value} masks": (algorithm, masks)
    for algorithm in ALGORITHMS
    for masks in Masks
}
WHEN = ("before", "after", "before key", "after key")
COLUMNS = ("run", "kills", "runs", "commits of a run without kills", "runs that broke a rule")
TEXT = """\
{measured}
A server and three clients run as separate processes, over gRPC and TLS on one machine. SIGKILL comes before or after about two
of three commits of every party, drawn from the run's number; a killed process starts again. No kill lost or changed anything.
Half of the kills at the first commit of a run and at its last come before or after the key of the run is written or destroyed.

{table}

- *kills*: processes killed just before or just after a transaction of their store, in *runs* whole runs.
- *rule*: every client ends with the same files, byte for byte, as in an uninterrupted run in one process, and no store of
  an ended run has a key left.

Not shown: kills at commits that only say where clients' stores stood (tests within one process kill there), or in the middle of
what SQLite or the operating system does; loss of power (a killed process loses nothing that was handed to the system); a full
or failing disk; several machines."""


def deaths(number: int, n_commits: Mapping[str, int]) -> dict[str, list[Death]]:
    """About two of three commits of every party, before or after; half of the deaths at the first
    and last, which draw and destroy a key, are before or after that.
    """
    rng = np.random.default_rng(number)
    return {
        name: [
            (at, WHEN[rng.integers(4 if at in (0, n - 1) else 2)])
            for at in range(n)
            if rng.random() < 2 / 3
        ]
        for name, n in n_commits.items()
    }


def test_no_kill_loses_or_changes_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = dt.datetime.now(dt.UTC)
    (tmp_path / "made").mkdir()
    make_site(tmp_path / "made")
    kills, runs, commits = Counter[str](), Counter[str](), Counter[str]()
    failures: list[str] = []
    while kills.total() < N_KILLS and len(failures) < 5:
        number = runs.total()
        name = min(RUNS, key=kills.__getitem__)
        runs[name] += 1
        algorithm, masks = RUNS[name]
        # the identities are those of the run before and their stores are new, which one ledger
        # would refuse
        monkeypatch.setenv("FASTLLOYD_LEDGER", str(tmp_path / f"{number}.ledger.store"))
        with cleared(
            Site.make(tmp_path / "made", tmp_path / str(number), algorithm=algorithm, masks=masks)
        ) as site:
            commits[name] = sum(site.n_commits.values())
            try:
                kills[name] += site.run_to_the_end(deaths(number, site.n_commits))
            except AssertionError as error:
                failures.append(f"run {number}, {name}: {str(error)[:2000]}")
    with capsys.disabled():
        sys.stdout.write(
            f"\n{dict(kills)} kills in {dict(runs)} runs, {len(failures)} of which broke a rule\n"
        )
    assert failures == []
    rows = [(name, str(kills[name]), str(runs[name]), str(commits[name]), "0") for name in runs]
    text = TEXT.format(
        measured=campaign_page.measured(started, grpcio=version("grpcio")),
        table=campaign_page.table(COLUMNS, rows),
    )
    campaign_page.write_section("Kills", text, is_full_size=N_KILLS >= FULL_SIZE)
