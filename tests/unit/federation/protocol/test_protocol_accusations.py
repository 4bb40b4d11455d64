"""Clients that say of keys that others signed that they do not fit: the server leaves out both."""

from collections.abc import Iterator
from functools import cache
from itertools import chain, combinations

import pytest

from fastlloyd.federation.plan.plan import Masks, Plan
from fastlloyd.federation.protocol.actions import Send
from fastlloyd.federation.protocol.messages import BadKeys, Deal, Hello, SealedKeys, encode
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ServerState
from federation import BEGINNING, BrokenNoise, make_federation, make_plan

pytestmark = pytest.mark.usefixtures("repeatable_noise")
Names = tuple[str, ...]
ALL_BUT_THREE = {
    n: make_plan(n, max_dropouts=n - 3, max_colluding=1, masks=Masks.PAIRWISE) for n in (5, 6, 7)
}


@cache
def hellos(n_clients: int) -> dict[str, Hello]:
    clients = make_federation(ALL_BUT_THREE[n_clients]).clients()
    said = [action.message for c in clients for action in c.start() if isinstance(action, Send)]
    return {hello.name: hello for hello in said if isinstance(hello, Hello)}


def agreeing(plan: Plan, present: Names) -> ServerSession:
    """A server of these clients that waits for their words, without the keys they made: what it
    answers to an accusation does not depend on them.
    """
    server = ServerSession(plan, BrokenNoise())
    said = hellos(plan.n_clients)
    server.restore([encode(Deal(BEGINNING, 1, tuple(said[name] for name in present)))])
    make_all_keys(server)
    return server


def make_all_keys(server: ServerSession) -> None:
    """Have the server believe that all keys were made, whatever they are."""
    server.state = ServerState.AGREEING
    made = SealedKeys(server._agreed.key_set.digest, None, (), ())
    server._agreed.sealed = dict.fromkeys(server.plan.masks.speakers(server._present), made)


@cache
def after(n_clients: int, present: Names, accuser: str, makers: Names) -> Names:
    """Those who are left; none if the run ended."""
    server = agreeing(ALL_BUT_THREE[n_clients], present)
    said = server.receive(accuser, BadKeys(server._agreed.key_set.digest, makers))
    if server.outcome is not None:
        return ()
    left = server._present
    told = {action.to for action in said if isinstance(action, Send)}
    assert told == set(present)
    assert all(isinstance(a.message, Deal) == (a.to in left) for a in said if isinstance(a, Send))
    return left


def accusations(present: Names, liars: Names) -> Iterator[tuple[str, Names]]:
    """All that can be said: an honest client says of no honest one that its keys do not fit."""
    for at, accuser in enumerate(present):
        makers = [name for name in present[:at] if accuser in liars or name in liars]
        for n in (1, 2):
            for named in combinations(makers, n):
                yield accuser, named


def most_lost(n_clients: int, liars: Names) -> int:
    """Honest clients that these liars can have left out of a run that goes on, at most."""

    @cache
    def among(present: Names) -> int:
        worst = 0
        for accuser, makers in accusations(present, liars):
            left = after(n_clients, present, accuser, makers)
            lost = set(present).difference(left)
            if left:
                assert lost == {accuser, makers[0]}
                assert lost & set(liars)
                worst = max(worst, len(lost.difference(liars)) + among(left))
        return worst

    return among(ALL_BUT_THREE[n_clients].names)


@pytest.mark.parametrize("n_clients", ALL_BUT_THREE)
def test_liars_about_keys_take_as_many_honest_clients_with_them_as_they_are(
    n_clients: int,
) -> None:
    """Every set of liars, every order of accusations, with up to two makers named in each."""
    names = ALL_BUT_THREE[n_clients].names
    sets = chain.from_iterable(combinations(names, t) for t in range(n_clients))
    lost = {liars: most_lost(n_clients, liars) for liars in sets}
    assert all(n <= len(liars) for liars, n in lost.items())
    assert lost[()] == 0
    assert {lost[(name,)] for name in names} == {1}
    two = {liars: n for liars, n in lost.items() if len(liars) == 2}
    assert max(two.values()) == (2 if n_clients == 7 else 1)


def test_both_are_told_why_and_a_run_of_too_few_ends() -> None:
    names = ALL_BUT_THREE[6].names
    server = agreeing(ALL_BUT_THREE[6], names)
    said = server.receive("c3", BadKeys(server._agreed.key_set.digest, ("c1", "c2")))
    why = "the key of client c1 for client c3 is not valid"
    told = {a.to: a.message for a in said if isinstance(a, Send) and a.to in ("c1", "c3")}
    assert [getattr(told[name], "reason", "") for name in ("c1", "c3")] == [
        f"the run goes on without client {name}: {why}" for name in ("c1", "c3")
    ]
    assert server._present == ("c0", "c2", "c4", "c5")
    assert server._agreed.key_set.deal.attempt == 2
    make_all_keys(server)
    server.receive("c5", BadKeys(server._agreed.key_set.digest, ("c0",)))
    assert server.state is ServerState.ABORTED
    assert server.outcome is not None
    assert "the key of client c0 for client c5 is not valid" in (server.outcome.reason or "")
    assert "at least 3 are needed" in (server.outcome.reason or "")
