"""The tables are the machines: every row is walked, what has no row is refused, and the page
show each change of state.
"""

import enum
import re
from collections.abc import Mapping
from typing import Any

import pytest

import diagrams
from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.protocol.messages import (
    Abort,
    AllReady,
    BadKeys,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Message,
    Parameters,
    Proposal,
    Ready,
    SealedKeys,
    Turn,
    Upload,
)
from fastlloyd.federation.protocol.transitions import (
    CLIENT_TRANSITIONS,
    PHASE_OF,
    SERVER_TRANSITIONS,
    ClientState,
    Deadline,
    ServerState,
    Start,
    answering,
)
from federation import client_after, inboxes, make_federation, make_plan

FEDERATION = make_federation(make_plan(2))
INBOX = inboxes(FEDERATION)["c0"]
DEAL, KEY_BOX, ALL_READY, *BROADCASTS, CONFIRMATIONS = INBOX
ONE_OF_EACH: list[Message] = [
    FEDERATION.client("c0").start()[1].message,  # type: ignore[union-attr]  # a Record
    SealedKeys(bytes(32), bytes(32), (bytes(1184),), (bytes(60),)),
    Ready(bytes(32), 1, bytes(64)),
    BadKeys(bytes(32), ("c0",)),
    Upload(1, bytes(8), bytes(56)),
    Confirmation(bytes(32), bytes(64)),
    DEAL,
    KEY_BOX,
    ALL_READY,
    BROADCASTS[0],
    CONFIRMATIONS,
    Abort("enough"),
]
STEPS = {
    ClientState.JOINING: 0,
    ClientState.DEALING: 1,
    ClientState.READY: 2,
    ClientState.AGGREGATING: 3,
    ClientState.CONFIRMING: 6,
    ClientState.FINISHED: 7,
}
TABLES = pytest.mark.parametrize(
    "table", [CLIENT_TRANSITIONS, SERVER_TRANSITIONS], ids=["client", "server"]
)


def test_the_honest_run_of_the_dealer_passes_through_every_state() -> None:
    assert [type(message) for message in INBOX] == [
        Deal,
        KeyBox,
        AllReady,
        Broadcast,
        Broadcast,
        Broadcast,
        Confirmations,
    ]
    for state, n in STEPS.items():
        assert client_after(FEDERATION, "c0", INBOX[:n]).state is state


@pytest.mark.parametrize("message", ONE_OF_EACH, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("state", STEPS)
def test_a_client_refuses_what_has_no_row_and_its_run_ends(
    state: ClientState, message: Message
) -> None:
    client = client_after(FEDERATION, "c0", INBOX[: STEPS[state]])
    if message in INBOX[: STEPS[state]]:
        assert client.receive(message) == []
        assert client.state is state
    elif (state, type(message)) in CLIENT_TRANSITIONS:
        client.receive(message)
        assert client.state in CLIENT_TRANSITIONS[state, type(message)]
    else:
        with pytest.raises(
            RemoteProtocolError,
            match=f"{type(message).__name__} is.*client.*{state.value}",
        ):
            client.receive(message)
        # a result that was handed over stays handed over
        assert client.state is (
            ClientState.FINISHED if state is ClientState.FINISHED else ClientState.ABORTED
        )
        assert client.resend() == []


def test_a_server_refuses_what_has_no_row_and_stays_as_it_is() -> None:
    server = FEDERATION.server()
    for message in ONE_OF_EACH:
        if (ServerState.JOINING, type(message)) not in SERVER_TRANSITIONS:
            with pytest.raises(
                RemoteProtocolError,
                match=f"'c1' sent {type(message).__name__},.*expected",
            ):
                server.receive("c1", message)
    assert server.state is ServerState.JOINING


def test_sessions_refuse_steps_of_their_own_driver_that_have_no_row() -> None:
    client = FEDERATION.client("c0")
    with pytest.raises(LocalProtocolError, match=r"Deadline.*lead from new"):
        client.deadline()
    client.start()
    with pytest.raises(LocalProtocolError, match=r"Start.*lead from joining"):
        client.start()


@TABLES
def test_every_state_is_reached_from_the_first_and_reaches_an_end(
    table: Mapping[tuple[enum.Enum, type], set[enum.Enum]],
) -> None:
    first = next(iter(table))[0]
    states = set(type(first))
    follows = {
        state: {b for (a, _), following in table.items() if a is state for b in following}
        for state in states
    }
    final = {state for state in states if follows[state] <= {state}}
    assert {state.value for state in final} == {"finished", "aborted"}

    def reached(start: enum.Enum) -> set[enum.Enum]:
        found, frontier = {start}, {start}
        while frontier := {b for a in frontier for b in follows[a]} - found:
            found |= frontier
        return found

    assert reached(first) == states
    assert all(reached(state) & final for state in states)


@TABLES
def test_the_page_shows_the_changes_of_state_and_nothing_else(
    table: Mapping[Any, set[Any]],
) -> None:
    heading, rule, *rows = diagrams.table(table).splitlines()
    assert heading == "| from | to | by |"
    assert rule == "|---|---|---|"
    shown = [re.fullmatch(r"\| (\w+) \| (\w+) \| (.*) \|", row) for row in rows]
    assert all(shown)
    drawn = {(m[1], m[2], event) for m in shown if m for event in re.findall(r"`(\w+)`", m[3])}
    changes = {
        (a.value, b.value, event.__name__)
        for (a, event), following in table.items()
        for b in following - {a}
    }
    assert drawn == changes
    assert shown[0] is not None
    assert shown[0][1] == next(iter(table))[0].value
    assert len(rows) == len(set(rows))


def test_rows_name_messages_that_travel_in_the_right_direction() -> None:
    to_server = (Hello, SealedKeys, Ready, BadKeys, Upload, Confirmation, Proposal)
    to_client = (Deal, KeyBox, AllReady, Broadcast, Confirmations, Abort, Parameters, Turn)
    for _, event in CLIENT_TRANSITIONS:
        assert event in to_client or event in (Start, Deadline)
    for _, event in SERVER_TRANSITIONS:
        assert event in to_server or event is Deadline


def test_a_message_that_moves_the_server_on_is_answered_by_the_phase_it_is_in() -> None:
    for (state, event), following in SERVER_TRANSITIONS.items():
        if event is Deadline:
            assert state in PHASE_OF
        elif following != {state}:
            assert answering(state, event) is PHASE_OF[state]
        else:
            assert answering(state, event) in PHASE_OF.values()
    assert set(ServerState).difference(PHASE_OF) == {ServerState.FINISHED, ServerState.ABORTED}
