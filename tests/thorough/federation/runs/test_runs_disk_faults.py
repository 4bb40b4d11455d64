"""A disk that is full, read-only or failing at any commit of any party: nothing leaves, and the run
is taken up again, exact.

The faults are SQLite's, raised in its place at each statement at which they can come;
`test_network_kills.py` and `fault_campaign.py` have genuine ones.
"""

import errno
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from fastlloyd.errors import StateError
from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import SERVER
from fastlloyd.federation.protocol.messages import Broadcast, Limits, Upload, decode
from fastlloyd.federation.store import Store, key_file
from fastlloyd.federation.store.events import Outcome, RunEnded
from mortal_parties import DISK_FAULTS, READ_ONLY, FailingDisk, World
from runs_with_deaths import (
    FEDERATIONS,
    KINDS,
    N_COMMITS,
    Kind,
    check_died_at_every_commit,
    run_with,
)
from stores import new_store, reserved, run_id, upload

FAULTS = tuple(DISK_FAULTS)  # the last is the one that leaves the step on disk


def check_sent(world: World) -> None:
    """Of each round every client sent one ciphertext, under one nonce, and the server one sum, in
    all their lives.
    """
    uploads: defaultdict[tuple[str, int], set[bytes]] = defaultdict(set)
    sums: defaultdict[int, set[bytes]] = defaultdict(set)
    for sender, data in world.sent:
        match decode(data, Limits.of(world.plan)):
            case Upload(number):
                uploads[sender, number].add(data)
            case Broadcast(number):
                sums[number].add(data)
    n_exchanges = world.plan.mechanism.n_rounds
    assert len(uploads) == len(world.plan.names) * n_exchanges
    assert len(sums) == n_exchanges
    assert all(len(sent) == 1 for sent in (*uploads.values(), *sums.values()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_commit_of_everyone_meets_every_fault_of_a_disk_and_the_result_is_exact(
    kind: Kind, tmp_path: Path
) -> None:
    """A commit that failed is tried again by the next life; so each meets all kinds in turn."""
    faults = {
        name: [(n, FAULTS[n % len(FAULTS)]) for n in range(len(FAULTS) * n_commits)]
        for name, n_commits in N_COMMITS[kind[1]].items()
    }
    world = run_with(kind, tmp_path, faults)
    check_died_at_every_commit(world, N_COMMITS[kind[1]], len(FAULTS))
    check_sent(world)


@pytest.mark.parametrize("name", ["c1", SERVER])
def test_a_party_whose_commit_failed_answers_nobody_until_it_is_started_again(
    name: str, tmp_path: Path
) -> None:
    """Its session is ahead of its disk: to say again what it decided would be to say what was never
    durable.
    """
    federation = FEDERATIONS[TrustMode.CLIENT_NOISE, Masks.PAIRWISE]
    with World(federation.plan, federation.X, tmp_path) as world:
        world._revive()
        party: Any = world.parties[name].party
        store = world.parties[name].store
        assert store is not None
        # stands for one
        store._connection = FailingDisk(store._connection, READ_ONLY)  # type: ignore[assignment]
        with pytest.raises(StateError, match="disk is read-only"):
            world.run()
        if name == SERVER:
            for question in (
                party.deadline,
                lambda: party.receive("c0", party._store.position, object()),
            ):
                with pytest.raises(
                    StateError,
                    match="written to disk",
                ):
                    question()
        else:
            for question in (party.begin, party.deadline, lambda: party.receive(object())):
                with pytest.raises(
                    StateError,
                    match="written to disk",
                ):
                    question()


def test_an_end_whose_key_cannot_be_destroyed_stands_and_the_next_opening_destroys_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the run is on disk; its key is there a while longer, which is said, with the
    reason.
    """
    run, key = run_id(1), b"a key of thirty-two bytes, sharp"
    event, message = upload(run, 1)
    store = new_store(tmp_path)
    store.append([reserved(run), event], messages=[message], secrets={(run, "key"): key})

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "the disk failed")

    with monkeypatch.context() as patch:
        patch.setattr(key_file, "write_at", failing)
        store.append(
            [RunEnded(run_id=run, outcome=Outcome.ABORTED, reason="no result", released=(1, 2, 3))]
        )
        with pytest.raises(StateError, match=r"no further step.*\(EIO\)"):
            store.append([])
        with pytest.raises(StateError, match="holds the key"):
            store.close()
    keys = key_file.keys_path(store.path)
    assert any(keys.read_bytes())
    with Store.open(store.path) as opened:
        assert opened.history.runs[run].ended is not None
        assert not any(keys.read_bytes())
