"""Nobody waits for a client that has ended its run for good, at whatever message it does; and no
lie of one helps it.
"""

from collections import deque
from dataclasses import dataclass

import pytest

from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.protocol.actions import (
    SERVER,
    Action,
    ClientResult,
    Ended,
    Send,
    ServerResult,
)
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Message, Upload
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ServerState
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from federation import Federation, make_federation, make_plan, starts_cheaply

pytestmark = pytest.mark.usefixtures("repeatable_noise")


@dataclass
class Ending:
    """A run in which no deadline passed. state : the server's when the client left; uploads : by
    client, of which rounds.
    """

    server: ServerSession
    clients: dict[str, ClientSession]
    state: ServerState
    uploads: dict[str, list[int]]

    @property
    def result(self) -> ServerResult:
        """How the server ended; it did, though nobody's clock was asked."""
        assert self.server.outcome is not None
        return self.server.outcome


def leaving(federation: Federation, leaver: str, n_heard: int) -> Ending | None:
    """A run that `leaver` ends for itself instead of answering its message of that number; None if
    it is sent fewer.
    """
    server, clients = (
        federation.server(),
        {name: federation.client(name) for name in federation.plan.names},
    )
    uploads: dict[str, list[int]] = {name: [] for name in clients}
    pending, state = deque[tuple[str, str, Message]](), None

    def act(party: str, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                pending.append((party, action.to, action.message))
                if isinstance(action.message, Upload):
                    uploads[party].append(action.message.round)

    for name, client in clients.items():
        act(name, client.start())
    while pending:
        sender, to, message = pending.popleft()
        if to == SERVER:
            act(SERVER, server.receive(sender, message))
        elif isinstance(clients[to].outcome, Ended):
            continue
        elif to != leaver or n_heard > 0:
            n_heard -= to == leaver
            act(to, clients[to].receive(message))
        else:
            state = server.state
            clients[to].deadline()
            act(SERVER, server.left(to))
    return None if state is None else Ending(server, clients, state, uploads)


def subject(
    masks: Masks, algorithm: AnyAlgorithm = FASTLLOYD, *, max_dropouts: int = 1
) -> Federation:
    plan = make_plan(
        4, masks=masks, max_dropouts=max_dropouts, algorithm=algorithm, n_iterations=2, epsilon=1.0
    )
    return make_federation(plan, seed=4)


def endings(federation: Federation, leaver: str) -> list[Ending]:
    """A run for each message that it is sent before the last."""
    found: list[Ending] = []
    while (ending := leaving(federation, leaver, len(found))) is not None:
        found.append(ending)
    return found[:-1]


@pytest.mark.parametrize("leaver", ["c0", "c3"])
@pytest.mark.parametrize("algorithm", [FASTLLOYD, MOMENTLLOYD], ids=str)
@pytest.mark.parametrize("masks", Masks)
def test_the_others_go_on_or_end_at_once_whatever_the_client_was_about_to_answer(
    masks: Masks, algorithm: AnyAlgorithm, leaver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts_cheaply(monkeypatch)
    federation = subject(masks, algorithm)
    n_rounds, states = federation.plan.mechanism.n_rounds, set()
    for ending in endings(federation, leaver):
        states.add(ending.state)
        last = ending.uploads.pop(leaver)[-1:]
        outcomes = {name: ending.clients[name].outcome for name in ending.uploads}
        shares_keys = ending.state not in (ServerState.DEALING, ServerState.AGREEING)
        if masks is Masks.PAIRWISE and shares_keys and last != [n_rounds]:
            assert ending.result.reason is not None
            assert leaver in ending.result.reason
            assert all(
                isinstance(outcome, Ended) and leaver in outcome.reason
                for outcome in outcomes.values()
            )
            closed = len(ending.result.included)
            assert all(
                max(rounds) <= closed + 1 for rounds in ending.uploads.values()
            )  # nobody pays for a round more
        else:
            assert ending.result.reason is None
            for outcome in outcomes.values():
                assert isinstance(outcome, ClientResult)
                assert (leaver in outcome.unconfirmed) == (leaver in outcome.included[-1])
    assert states >= {ServerState.DEALING, ServerState.AGGREGATING, ServerState.CONFIRMING}
    assert (ServerState.SETTLING in states) == (algorithm is MOMENTLLOYD)


def test_what_was_led_to_is_kept_by_each_of_the_others() -> None:
    federation = subject(Masks.PAIRWISE)
    for ending in endings(federation, "c1"):
        n_closed = len(ending.result.included)
        for name in ("c0", "c2", "c3"):
            outcome = ending.clients[name].outcome
            if isinstance(outcome, Ended):
                assert (outcome.unfinished.round if outcome.unfinished else 0) == n_closed


def test_a_run_whose_end_too_few_can_confirm_closes_its_last_round_first() -> None:
    """Of three clients all must confirm: the others keep the centroids of every round, and are not
    made to wait.
    """
    federation = make_federation(make_plan(3, masks=Masks.PAIRWISE, n_iterations=2), seed=4)
    *_, last = endings(federation, "c1")
    assert len(last.result.included) == federation.plan.mechanism.n_rounds
    for name in ("c0", "c2"):
        outcome = last.clients[name].outcome
        assert isinstance(outcome, Ended)
        assert outcome.unfinished is not None
        assert outcome.unfinished.round == federation.plan.mechanism.n_rounds


@pytest.mark.parametrize("masks", Masks)
def test_a_run_that_cannot_begin_without_a_client_ends_before_the_others_join(masks: Masks) -> None:
    server = subject(masks, max_dropouts=0).server()
    server.left("c1")
    assert server.outcome is not None
    assert "c1" in str(server.outcome.reason)


def test_those_who_say_hello_need_not_wait_for_one_that_left_before() -> None:
    federation = subject(Masks.PAIRWISE)
    server = federation.server()
    assert server.left("c1") == []
    for name in ("c0", "c2", "c3"):
        assert server.state is ServerState.JOINING
        for action in federation.client(name).start():
            if isinstance(action, Send):
                server.receive(name, action.message)
    assert server.state is ServerState.DEALING
    assert server.awaited == ("c0", "c2", "c3")


def test_after_the_end_nothing_follows_from_who_leaves() -> None:
    federation = subject(Masks.GROUP)
    *_, ending = endings(federation, "c3")
    assert [ending.server.left(name) for name in federation.plan.names] == [[]] * 4
    aborted = federation.server()
    aborted.deadline()
    assert aborted.left("c0") == []
