"""Events have one encoding, and hold nothing that could not be shown."""

import hashlib
from fractions import Fraction
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from designs import design_mechanism
from fastlloyd.cli import event_words
from fastlloyd.errors import StateError
from fastlloyd.federation.ledger import run_cost
from fastlloyd.federation.positions import SignedPosition
from fastlloyd.federation.protocol.messages import printable
from fastlloyd.federation.store.events import (
    ClientJoined,
    ClientLeft,
    DataSetNamed,
    Event,
    ExchangeCharged,
    LimitSet,
    LogPosition,
    MessageRecorded,
    Outcome,
    PeerForgotten,
    PeerSeen,
    PeerSigned,
    RunEnded,
    checked,
    decode,
    encode,
)
from stores import cost, reserved, run_id

A = run_id(1)
EVENTS: list[Event] = [
    reserved(A),
    msgspec.structs.replace(
        reserved(A), cost=cost(Fraction(3, 7), Fraction(0), distance=Fraction(1, 10**30))
    ),
    MessageRecorded(run_id=A, kind="Upload", digest=bytes(32)),
    ExchangeCharged(run_id=A, number=7),
    RunEnded(run_id=A, outcome=Outcome.ABORTED, reason="the server ended it", released=(2, 3)),
    LimitSet(dataset="patients", epsilon=float("inf"), delta=0.0),
    PeerSeen(name="clinic-a", position=LogPosition(3, bytes(32))),
    PeerSigned(name="0" * 64, client="clinic-a", position=SignedPosition(3, bytes(32), bytes(64))),
    PeerForgotten(name="0" * 64),
    DataSetNamed(dataset="patients"),
    ClientJoined(run_id=bytes(16), client="clinic-a"),
    ClientLeft(run_id=bytes(16), client="clinic-a"),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_from_its_bytes(event: Event) -> None:
    assert decode(checked(event)) == event
    assert checked(event) == encode(event)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_no_other_bytes_are_read_as_an_event(event: Event) -> None:
    data = encode(event)
    for at in range(len(data)):
        with pytest.raises(StateError):
            decode(data[:at])
    with pytest.raises(StateError):
        decode(data + b"\0")
    with pytest.raises(StateError):  # the same array with a longer header
        decode(b"\xdc\0" + bytes([data[0] & 15]) + data[1:])


@given(st.binary(max_size=80))
def test_any_bytes_are_an_event_or_the_one_error(data: bytes) -> None:
    try:
        event = decode(data)
    except StateError:
        return
    assert encode(event) == data


def test_a_fraction_has_one_spelling() -> None:
    data = encode(msgspec.structs.replace(reserved(A), cost=cost(Fraction(1, 2))))
    for other in (b"2/4", b"0.5", b"-12", b"1/0"):
        assert data.count(b"\xa31/2") == 1
        with pytest.raises(StateError):
            decode(data.replace(b"\xa31/2", b"\xa3" + other))


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (EVENTS[0], {"run_id": b"short"}),
        (EVENTS[0], {"dataset": "two\nlines"}),
        (EVENTS[0], {"dataset": "x" * 65}),
        (EVENTS[2], {"digest": b""}),
        (EVENTS[3], {"number": 0}),
        (EVENTS[4], {"reason": "\x1b[2J"}),
        (EVENTS[4], {"reason": "x" * 501}),
        (EVENTS[5], {"epsilon": 0.0}),
        (EVENTS[5], {"epsilon": float("nan")}),
        (EVENTS[5], {"delta": 1.0}),
        (EVENTS[5], {"delta": -0.1}),
        (EVENTS[6], {"position": LogPosition(-1, bytes(32))}),
    ],
)
def test_what_is_out_of_range_is_not_stored(event: Event, changes: dict[str, Any]) -> None:
    with pytest.raises(StateError, match=type(event).__name__ + "|cannot be read"):
        checked(msgspec.structs.replace(event, **changes))


@given(st.text(max_size=700))
def test_any_reason_can_be_stored_on_one_printable_line(text: str) -> None:
    event = RunEnded(run_id=A, outcome=Outcome.ABORTED, reason=printable(text), released=())
    assert decode(checked(event)) == event


def test_the_costs_of_the_largest_mechanisms_fit() -> None:
    from fastlloyd.base.randomness import PublicSeed
    from fastlloyd.clustering.domain import Domain
    from fastlloyd.dp.neighboring import NeighboringRelation
    from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD

    domain = Domain(features=("a", "b"), lower=(0.0, 0.0), upper=(1.0, 1.0), fraction_bits=20)
    for epsilon in (1e-3, 1e4):
        mechanism = design_mechanism(
            FASTLLOYD,
            domain,
            n_clusters=2,
            n_records=1 << 40,
            epsilon=epsilon,
            delta=1e-300,
            public_seed=PublicSeed.from_int(1),
            n_iterations=999,
            estimate_loss=True,
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )
        event = msgspec.structs.replace(reserved(A), cost=run_cost(mechanism))
        assert decode(checked(event)) == event
        assert len(event.cost.costs) == 1000


def test_the_chain_is_over_label_head_seconds_and_bytes() -> None:
    from fastlloyd.federation.store.events import next_head

    text = b"fastlloyd/v2/event" + bytes(32) + bytes(7) + b"\x09" + b"event"
    assert next_head(bytes(32), 9, b"event") == hashlib.sha256(text).digest()


def test_every_kind_of_event_has_words() -> None:
    assert set(event_words._WORDS) == set(get_args(Event))
    assert all(event_words.words(event) for event in EVENTS)
