"""Of which version of the protocol a kept run may be is asked where it would go on, and nowhere
else.

What can be looked at of version 3 is recorded in `kept.json.gz`, as of version 4.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command_vectors import said
from kept_vectors import OF_VERSION_4
from recorded import KEPT, copy_kept

from fastlloyd import Plan
from fastlloyd.errors import PlanError
from fastlloyd.federation.plan.plan import PROTOCOL_VERSION, Masks
from fastlloyd.federation.secagg.keys import Identity
from fastlloyd.federation.simulation import simulate
from fastlloyd.federation.store import read
from fastlloyd.federation.store.events import ExchangeCharged
from fastlloyd.mechanisms.answering import LocalRecords
from network_processes import HANG, NAMES, SERVER, Site, cleared
from network_site import FAST, refused
from ports import free_address

OLD = [
    "finished/plan.toml",
    "interrupted/plan.toml",
    *(f"plans/{path.name}" for path in (KEPT / "plans").glob("*-*.toml")),
]
"""Plans of version 3."""


@pytest.fixture
def interrupted(tmp_path: Path) -> Iterator[Path]:
    """What a server and clients have of a run of version 3 that they all left in its midst."""
    for name in ("interrupted", "identities"):
        copy_kept(name, tmp_path)
    with contextlib.chdir(tmp_path):
        yield tmp_path


def test_a_run_of_version_3_goes_on_nowhere_and_nothing_of_it_is_spent_or_lost(
    interrupted: Path,
) -> None:
    site = Site(interrupted, Plan.from_toml((interrupted / "plan.toml").read_text()))
    before = {path: path.read_bytes() for path in interrupted.rglob("*")}
    for arguments in (site.join("b"), site.join("b", "--dry-run"), site.serve()):
        refused(site, arguments, "protocol_version is 3", "plan renew", "ledger release")
    assert {path: path.read_bytes() for path in interrupted.rglob("*")} == before


def test_a_run_of_version_3_is_given_up_and_its_plan_made_anew_as_the_sentence_says(
    interrupted: Path,
) -> None:
    plan = Plan.from_toml((interrupted / "plan.toml").read_text())
    assert said(["ledger", "release", "b.store", "--run", plan.run_id])[0] == 0
    run = read(interrupted / "b.store")[0].history.runs[bytes.fromhex(plan.run_id)]
    assert run.ended is not None
    assert sorted(run.charged + run.ended.released) == list(range(1, plan.mechanism.n_rounds + 1))
    assert len(run.charged) > 0
    assert said(["plan", "renew", "plan.toml", "--out", "next.toml"])[0] == 0
    following = Plan.from_toml((interrupted / "next.toml").read_text())
    assert (following.protocol_version, following.masks) == (PROTOCOL_VERSION, Masks.GROUP)
    assert following.mechanism == plan.mechanism
    assert said(["plan", "digest", "next.toml"])[0] == 0


@pytest.mark.parametrize("name", OLD)
def test_a_plan_of_version_3_is_simulated_by_nobody(name: str) -> None:
    plan = Plan.from_toml((KEPT / name).read_text())
    assert (plan.protocol_version, plan.masks, plan.masks_kind) == (3, None, Masks.GROUP)
    domain = plan.mechanism.domain
    records = LocalRecords(domain, np.zeros((1, domain.n_features), dtype=np.int64))
    with pytest.raises(PlanError, match=r"protocol_version is 3; .*plan renew"):
        simulate(plan, dict.fromkeys(plan.names, Identity.generate()), [records] * plan.n_clients)


@pytest.mark.parametrize("kind", OF_VERSION_4)
def test_a_kept_run_of_version_4_is_taken_up_and_ends(kind: str, tmp_path: Path) -> None:
    for name in (f"{kind}/interrupted", "identities"):
        copy_kept(name, tmp_path)
    with cleared(Site(tmp_path, Plan.from_toml((tmp_path / "plan.toml").read_text()))) as site:
        parties, address = (*NAMES, SERVER), free_address()
        before = {name: read(tmp_path / f"{name}.store")[1] for name in parties}
        server = site.start(SERVER, site.serve("--listen", address))
        clients = [site.start(name, site.join(name, "--server", address), FAST) for name in NAMES]
        assert [process.wait(HANG) for process in (*clients, server)] == [0] * 4, site.said("b")
        for name in parties:
            after = read(tmp_path / f"{name}.store")[1]
            assert after[: len(before[name])] == before[name]
            charged = [event.number for event in after if isinstance(event, ExchangeCharged)]
            assert charged == (
                [] if name == SERVER else list(range(1, site.plan.mechanism.n_rounds + 1))
            )
        assert len(site.centroids()) == 3
        assert len(set(site.centroids().values())) == 1
