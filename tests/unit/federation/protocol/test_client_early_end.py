"""What a client keeps of a run that ended early: the centroids of the rounds that were closed,
whoever ended it but itself.
"""

from typing import Any

import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Masks
from fastlloyd.federation.protocol.actions import Ended, Unfinished
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Abort, Broadcast, Message, Parameters, encode
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from federation import Federation, inboxes, make_federation, make_plan, starts_cheaply

pytestmark = pytest.mark.usefixtures("repeatable_noise")


def federation(algorithm: AnyAlgorithm, masks: Masks) -> Federation:
    return make_federation(
        make_plan(3, algorithm=algorithm, masks=masks, estimate_loss=True, epsilon=1.0), seed=4
    )


def after(
    subject: Federation, messages: list[Message]
) -> tuple[ClientSession, dict[str, bytes], list[bytes]]:
    """A client that was sent these, the secrets that it kept and the messages that it recorded."""
    client, kept, recorded = subject.client("c1"), dict[str, bytes](), list[bytes]()
    steps = [client.start()]
    for message in messages:
        steps += [client.accept(message), client.receive(message)]
    for action in (action for step in steps for action in step):
        match type(action).__name__:
            case "Keep":
                kept[action.name] = action.secret  # type: ignore[union-attr]
            case "Record":
                recorded.append(encode(action.message))  # type: ignore[union-attr]
    return client, kept, recorded


def unfinished(client: ClientSession) -> Unfinished | None:
    assert isinstance(client.outcome, Ended)
    return client.outcome.unfinished


@pytest.mark.parametrize("masks", Masks)
@pytest.mark.parametrize("algorithm", [FASTLLOYD, MOMENTLLOYD], ids=str)
def test_the_centroids_of_every_closed_round_are_kept_and_found_again(
    algorithm: AnyAlgorithm, masks: Masks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the server ends it, each client has the centroids that a finished run went through,
    and so after a restart.
    """
    starts_cheaply(monkeypatch)
    subject = federation(algorithm, masks)
    m, inbox = subject.plan.mechanism, inboxes(subject)["c1"][:-1]
    through: dict[int, IntArray | None] = {0: None}
    kept_rounds = []
    for n in range(1, len(inbox) + 1):
        client, kept, recorded = after(subject, inbox[:n])
        state: Any = getattr(client._phase, "_state", None)
        settled = sum(isinstance(message, Broadcast) for message in inbox[:n]) - (
            client.state.value == "settling"
        )
        through[settled] = m.centroids(settled, state) if settled else None
        record, _ = client.receive(Abort("power cut"))
        left = unfinished(client)
        expected = through[settled]
        if expected is None:
            assert left is None
        else:
            assert left is not None
            assert np.array_equal(left.centroids, expected)
            assert (left.round, left.included) == (settled, (subject.plan.names,) * settled)
            kept_rounds.append(settled)
        restored = subject.client("c1")
        restored.restore(kept, [*recorded, encode(record.message)])  # type: ignore[union-attr]
        assert restored.resume() == []
        assert restored.resend() == restored.reconnect() == []
        again = unfinished(restored)
        assert (again is None) == (left is None)
        assert again is None or left is None or np.array_equal(again.centroids, left.centroids)
    first = (
        1
        if algorithm is FASTLLOYD
        else len(m.rounds) - sum(round.moves_centroids for round in m.rounds)
    )
    assert set(kept_rounds) == set(range(first, m.n_rounds + 1))


def test_at_a_deadline_the_same_is_kept() -> None:
    subject = federation(FASTLLOYD, Masks.PAIRWISE)
    inbox = inboxes(subject)["c1"]
    client, _, _ = after(subject, inbox[:5])
    client.deadline()
    left = unfinished(client)
    assert left is not None
    assert left.round == 2


def test_nothing_is_kept_before_a_round_closed_or_after_a_check_of_its_own_failed() -> None:
    subject = federation(FASTLLOYD, Masks.PAIRWISE)
    inbox = inboxes(subject)["c1"]
    for n in range(4):
        client, _, _ = after(subject, inbox[:n])
        client.receive(Abort("power cut"))
        assert unfinished(client) is None
    client, _, _ = after(subject, inbox[:5])
    false = inbox[5]
    assert isinstance(false, Broadcast)
    with pytest.raises(RemoteProtocolError):
        client.receive(
            Broadcast(false.round, false.members, false.nonces, bytes(len(false.payload)))
        )
    assert unfinished(client) is None


def test_a_sum_whose_parameters_never_came_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    starts_cheaply(monkeypatch)
    subject = federation(MOMENTLLOYD, Masks.PAIRWISE)
    inbox = inboxes(subject)["c1"]
    last = max(n for n, message in enumerate(inbox) if isinstance(message, Parameters))
    client, _, _ = after(subject, inbox[:last])
    assert client.state.value == "settling"
    client.receive(Abort("power cut"))
    left = unfinished(client)
    assert left is not None
    assert left.round == len(subject.plan.mechanism.rounds) - 1
