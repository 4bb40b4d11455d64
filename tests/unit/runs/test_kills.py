"""Parties that die at a commit and are started again end with what an uninterrupted run ends with, bit for bit."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastlloyd.plan import TrustMode
from fastlloyd.protocol import SERVER, ClientResult
from fastlloyd.store import Role
from federation import Federation, make_federation, make_plan, same_clustering
from known_noise import KnownNoise
from mortal_parties import AFTER, BEFORE, Death, World, check_ledger

NAMES = ("c0", "c1", "c2")
# Commits of a run of two rounds and the loss: Hello (c0 also deals), three uploads, a confirmation, the others', the end; the
# server: whom it names dealer, the sealed keys, three sums, the confirmations, the end.
N_COMMITS = {"c0": 8, "c1": 7, "c2": 7, SERVER: 7}


def federation_of(trust: TrustMode) -> Federation:
    plan = make_plan(3, trust=trust, n_clusters=2, n_features=2, n_iterations=2, estimate_loss=True)
    return make_federation(plan, seed=4)


FEDERATIONS = {trust: federation_of(trust) for trust in TrustMode}


def expected(trust: TrustMode) -> ClientResult:
    """By plain integers: no masks, messages or stores."""
    federation = FEDERATIONS[trust]
    plan, everyone = federation.plan, [federation.plan.names] * len(federation.plan.mechanism.exchanges)
    clients = {name: [plan.draw_client_noise(e, KnownNoise(name)) for e in plan.mechanism.exchanges] for name in NAMES}
    server = [plan.draw_server_noise(e, KnownNoise(SERVER)) for e in plan.mechanism.exchanges]
    known = Federation(plan, federation.X, clients, server)
    return ClientResult(clustering=known.plain_result(everyone), included=tuple(everyone), unconfirmed=())


RESULTS = {trust: expected(trust) for trust in TrustMode}


def run_with(trust: TrustMode, folder: Path, deaths: dict[str, list[Death]]) -> World:
    """Run to the end, check everything that must hold, and return what happened."""
    federation = FEDERATIONS[trust]
    with World(federation.plan, federation.X, folder, deaths) as world:
        results = world.run()
        assert set(results) == set(NAMES)
        for result in results.values():
            assert same_clustering(result.clustering, RESULTS[trust].clustering)
            assert (result.included, result.unconfirmed) == (RESULTS[trust].included, ())
        for name, mortal in world.parties.items():
            assert not mortal.deaths
            assert mortal.store is not None
            if mortal.role is Role.CLIENT:
                check_ledger(mortal.store, federation.plan)
            run_id = bytes.fromhex(federation.plan.run_id)
            assert mortal.store.messages(run_id) == []
            assert mortal.store.secret(run_id, "ephemeral-key") is None
            ended = mortal.store.history.runs[run_id].ended
            assert ended is not None, name
            assert ended.released == ()
    return world


@pytest.mark.parametrize("trust", TrustMode)
def test_without_deaths_every_party_commits_once_a_step(trust: TrustMode, tmp_path: Path) -> None:
    world = run_with(trust, tmp_path, {})
    assert {name: mortal.n_appends for name, mortal in world.parties.items()} == N_COMMITS


@pytest.mark.parametrize("when", [BEFORE, AFTER])
@pytest.mark.parametrize(("name", "commit"), [(name, n) for name, n_commits in N_COMMITS.items() for n in range(n_commits)])
def test_whoever_dies_at_a_commit_is_started_again_and_nothing_is_lost(
    name: str, commit: int, when: str, tmp_path: Path
) -> None:
    trust = TrustMode.SERVER_NOISE if name == SERVER else TrustMode.CLIENT_NOISE
    world = run_with(trust, tmp_path, {name: [(commit, when)]})
    assert world.died == {name: 1}


@pytest.mark.parametrize("trust", TrustMode)
def test_everyone_may_die_before_and_after_every_commit(trust: TrustMode, tmp_path: Path) -> None:
    """A commit that is tried again has the next number: even ones die before they are made, odd ones after."""
    deaths = {
        name: [(n, BEFORE if n % 2 == 0 else AFTER) for n in range(2 * n_commits)] for name, n_commits in N_COMMITS.items()
    }
    world = run_with(trust, tmp_path, deaths)
    assert world.died == {name: 2 * n_commits for name, n_commits in N_COMMITS.items()}


DEATHS = st.dictionaries(st.integers(0, 6), st.sampled_from([BEFORE, AFTER]), max_size=4)


@settings(max_examples=12)
@given(deaths=st.fixed_dictionaries(dict.fromkeys(N_COMMITS, DEATHS)), trust=st.sampled_from(TrustMode))
def test_whoever_dies_whenever_nothing_is_lost(
    deaths: dict[str, dict[int, str]], trust: TrustMode, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_with(trust, tmp_path_factory.mktemp("world"), {name: list(chosen.items()) for name, chosen in deaths.items()})
