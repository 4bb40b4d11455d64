"""Many kills of real processes: `make campaign`, 500 of them, or as many as KILLS says. Plain `pytest` does not collect it.

What is killed where follows from a run's number. It is told in the end, and which rule a run broke.
"""

import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from network_processes import N_COMMITS, Death, Site, cleared, make_site

pytestmark = pytest.mark.campaign

N_KILLS = int(os.environ.get("KILLS", "500"))


def deaths(number: int) -> dict[str, list[Death]]:
    """About two of three commits of every party, before or after."""
    rng = np.random.default_rng(number)
    return {
        name: [(n, ("before", "after")[rng.integers(2)]) for n in range(n_commits) if rng.random() < 2 / 3]
        for name, n_commits in N_COMMITS.items()
    }


def test_no_kill_loses_or_changes_anything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "made").mkdir()
    make_site(tmp_path / "made")
    counts: Counter[str] = Counter()
    failures: list[str] = []
    while counts["kills"] < N_KILLS:
        number = counts["runs"]
        counts["runs"] += 1
        with cleared(Site.make(tmp_path / "made", tmp_path / str(number))) as site:
            try:
                counts["kills"] += site.run_to_the_end(deaths(number))
            except AssertionError as error:
                failures.append(f"run {number}: {str(error)[:2000]}")
                if len(failures) == 5:
                    break
    with capsys.disabled():
        sys.stdout.write(f"\n{counts['kills']} kills in {counts['runs']} runs, {len(failures)} of which broke a rule\n")
    assert failures == []
