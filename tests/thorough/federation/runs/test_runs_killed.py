"""Parties that die at a commit and are started again end with what an uninterrupted run ends with,
bit for bit.
"""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import SERVER
from federation import starts_cheaply
from mortal_parties import AFTER, AFTER_KEY, BEFORE, BEFORE_KEY
from runs_with_deaths import (
    KINDS,
    MOMENTS,
    N_COMMITS,
    N_COMMITS_OF_MOMENTS,
    NAMES,
    Kind,
    check_died_at_every_commit,
    expected,
    run_to_the_end,
    run_with,
)

EITHER_MASKS = pytest.mark.parametrize("masks", Masks)
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


@EVERY_KIND
def test_without_deaths_every_party_commits_once_a_step(kind: Kind, tmp_path: Path) -> None:
    world = run_with(kind, tmp_path, {})
    assert {name: mortal.n_appends for name, mortal in world.parties.items()} == N_COMMITS[kind[1]]


# The first client and the server with either masks; of the two others, which do the same as each
# other, one with each.
DYING = [*product(["c0", SERVER], Masks), ("c1", Masks.GROUP), ("c2", Masks.PAIRWISE)]


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize(
    ("name", "masks", "commit"),
    [(name, masks, n) for name, masks in DYING for n in range(N_COMMITS[masks][name])],
)
def test_whoever_dies_at_a_commit_is_started_again_and_nothing_is_lost(
    name: str, masks: Masks, commit: int, when: str, tmp_path: Path
) -> None:
    """No client may be missing (D = 0), so a run that lost one of them, or something of it, would
    not end.
    """
    trust = TrustMode.SERVER_NOISE if name == SERVER else TrustMode.CLIENT_NOISE
    world = run_with((trust, masks), tmp_path, {name: [(commit, when)]})
    assert world.died == {name: 1}


FIRST_KEPT = {"c0": 0, "c1": 0, "c2": 0, SERVER: 2}  # commits; a server keeps nothing of a Hello


@pytest.mark.parametrize("when", [BEFORE_KEY, AFTER_KEY])
@pytest.mark.parametrize(("name", "masks"), DYING)
def test_whoever_dies_when_a_key_is_drawn_or_destroyed_is_started_again_and_no_key_is_left(
    name: str, masks: Masks, when: str, tmp_path: Path
) -> None:
    first, last = FIRST_KEPT[name], N_COMMITS[masks][name]  # one more, for the first is made twice
    world = run_with((TrustMode.CLIENT_NOISE, masks), tmp_path, {name: [(first, when)]})
    assert world.died == {name: 1}
    assert world.parties[name].n_appends == last + 1
    there = tmp_path / "both"
    deaths = [(first, when), (world.parties[name].n_appends - 1, when)]
    world = run_with((TrustMode.CLIENT_NOISE, masks), there, {name: deaths})
    assert world.died == {name: 2}


@EVERY_KIND
def test_everyone_may_die_before_and_after_every_commit(kind: Kind, tmp_path: Path) -> None:
    """A commit that is tried again has the next number: even ones die before they are made, odd
    ones after.
    """
    deaths = {
        name: [(n, BEFORE if n % 2 == 0 else AFTER) for n in range(2 * n_commits)]
        for name, n_commits in N_COMMITS[kind[1]].items()
    }
    world = run_with(kind, tmp_path, deaths)
    check_died_at_every_commit(world, N_COMMITS[kind[1]], 2)


@EITHER_MASKS
def test_the_same_holds_where_parameters_travel(
    masks: Masks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader comes back with the very box that it had sealed; boxes cost nothing in the
    ledger.
    """
    starts_cheaply(monkeypatch)
    moments, right = MOMENTS[masks], expected(MOMENTS[masks])
    world = run_to_the_end(moments, right, tmp_path / "without", {})
    assert {
        name: mortal.n_appends for name, mortal in world.parties.items()
    } == N_COMMITS_OF_MOMENTS[masks]
    deaths = {
        name: [(n, BEFORE if n % 2 == 0 else AFTER) for n in range(2 * n_commits)]
        for name, n_commits in N_COMMITS_OF_MOMENTS[masks].items()
    }
    world = run_to_the_end(moments, right, tmp_path / "with", deaths)
    check_died_at_every_commit(world, N_COMMITS_OF_MOMENTS[masks], 2)


DEATHS = st.dictionaries(st.integers(0, 6), st.sampled_from([BEFORE, AFTER]), max_size=4)


@settings(max_examples=12)
@given(
    deaths=st.fixed_dictionaries(dict.fromkeys([*NAMES, SERVER], DEATHS)),
    kind=st.sampled_from(KINDS),
)
def test_whoever_dies_whenever_nothing_is_lost(
    deaths: dict[str, dict[int, str]], kind: Kind, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_with(
        kind,
        tmp_path_factory.mktemp("world"),
        {name: list(chosen.items()) for name, chosen in deaths.items()},
    )
