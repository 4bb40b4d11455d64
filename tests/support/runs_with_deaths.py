"""Runs of three clients whose parties die at their commits, and what all must end with."""

from itertools import product
from pathlib import Path

from fastlloyd.federation.plan.plan import Masks, TrustMode
from fastlloyd.federation.protocol.actions import SERVER, ClientResult
from fastlloyd.federation.store import Role
from fastlloyd.federation.store.key_file import keys_path
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from federation import Federation, make_federation, make_plan, same_clustering
from known_noise import KnownNoise
from mortal_parties import Death, World, check_ledger

NAMES = ("c0", "c1", "c2")
# Commits of a run of two rounds and the loss: Hello, the Deal with the keys made for it, the keys of
# the others with the word that they fit, the word of all with the first upload, three sums, each
# before it is opened, two uploads and a confirmation, the others', the end; the server: two clients
# that joined, the Deal with the third, the keys of each client that makes any, that all are ready,
# in each round where the stores of two clients stood, and the sum with where the third stood, the
# confirmations, the end. Of a client that comes back it knows that before, and commits it with
# something else.
N_COMMITS = {
    masks: {"c0": 12, "c1": 12, "c2": 12, SERVER: 18 if masks is Masks.PAIRWISE else 16}
    for masks in Masks
}


def moments_of(masks: Masks) -> Federation:
    return make_federation(
        make_plan(3, algorithm=MOMENTLLOYD, n_clusters=1, n_features=1, epsilon=0.05, masks=masks),
        seed=4,
    )


MOMENTS = {masks: moments_of(masks) for masks in Masks}
# Parameters are settled in every round; the clients end with those that follow from the last. Only
# who works them out has something to say to a sum.
N_ROUNDS = len(MOMENTS[Masks.GROUP].plan.mechanism.all_rounds)
N_COMMITS_OF_MOMENTS = {
    masks: {
        "c0": 6 + 3 * N_ROUNDS,
        "c1": 6 + 2 * N_ROUNDS,
        "c2": 6 + 2 * N_ROUNDS,
        SERVER: (9 if masks is Masks.PAIRWISE else 7) + 4 * N_ROUNDS,
    }
    for masks in Masks
}


def federation_of(trust: TrustMode, masks: Masks) -> Federation:
    plan = make_plan(
        3, trust=trust, n_clusters=2, n_features=2, n_iterations=2, estimate_loss=True, masks=masks
    )
    return make_federation(plan, seed=4)


Kind = tuple[TrustMode, Masks]
KINDS: tuple[Kind, ...] = tuple(product(TrustMode, Masks))
FEDERATIONS = {kind: federation_of(*kind) for kind in KINDS}


def expected(federation: Federation) -> ClientResult:
    """By plain integers: no masks, messages or stores."""
    plan, everyone = federation.plan, [federation.plan.names] * federation.plan.mechanism.n_rounds
    clients = {
        name: [
            plan.draw_client_noise(e, KnownNoise(name), plan.n_clients)
            for e in plan.mechanism.all_rounds
        ]
        for name in NAMES
    }
    server = [plan.draw_server_noise(e, KnownNoise(SERVER)) for e in plan.mechanism.all_rounds]
    known = Federation(plan, federation.X, clients, server)
    return ClientResult(
        found=known.plain_result(everyone), included=tuple(everyone), unconfirmed=()
    )


RESULTS = {kind: expected(FEDERATIONS[kind]) for kind in KINDS}


def check_died_at_every_commit(world: World, n_commits: dict[str, int], times: int) -> None:
    """Everyone died so often at every commit; the server has two fewer in a step where it knew of
    two clients before.
    """
    n_died, n_rounds = world.died[SERVER], world.plan.mechanism.n_rounds
    assert {name: world.died[name] for name in NAMES} == {
        name: times * n_commits[name] for name in NAMES
    }
    assert n_died == world.parties[SERVER].n_appends
    assert times * (n_commits[SERVER] - 2 * (1 + n_rounds)) <= n_died <= times * n_commits[SERVER]


def run_with(kind: Kind, folder: Path, deaths: dict[str, list[Death]]) -> World:
    """Run to the end, check everything that must hold, and return what happened."""
    return run_to_the_end(FEDERATIONS[kind], RESULTS[kind], folder, deaths)


def run_to_the_end(
    federation: Federation,
    right: ClientResult,
    folder: Path,
    deaths: dict[str, list[Death]],
    kind: type[World] = World,
) -> World:
    with kind(federation.plan, federation.X, folder, deaths) as world:
        results = world.run()
        assert set(results) == set(NAMES)
        for result in results.values():
            assert same_clustering(result.clustering, right.clustering)
            assert (result.included, result.unconfirmed) == (right.included, ())
        for name, mortal in world.parties.items():
            assert all(commit >= mortal.n_appends for commit, _ in mortal.deaths)
            assert mortal.store is not None
            if mortal.role is Role.CLIENT:
                check_ledger(mortal.store, federation.plan)
            run_id = bytes.fromhex(federation.plan.run_id)
            assert mortal.store.messages(run_id) == []
            assert mortal.store.secrets(run_id) == {}
            assert not any(keys_path(mortal.path).read_bytes())
            ended = mortal.store.history.runs[run_id].ended
            assert ended is not None, name
            assert ended.released == ()
    return world
