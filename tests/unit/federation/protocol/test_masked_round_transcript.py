"""The transcript hash is the documented chain, and anything a client could be shown differently
changes it.
"""

import hashlib

import msgspec

from fastlloyd.federation.protocol.masked_round import extend_transcript, start_transcript
from fastlloyd.federation.protocol.messages import Broadcast, Deal, KeyBox, encode
from federation import BEGINNING, among, inboxes, make_federation, make_plan

PLAN = make_plan(3)
INBOXES = inboxes(make_federation(PLAN))
RUN = bytes.fromhex(PLAN.run_id)


def deal(name: str = "c1") -> Deal:
    (found,) = (message for message in INBOXES[name] if isinstance(message, Deal))
    return found


def broadcast(t: int) -> Broadcast:
    (found,) = (
        message
        for message in INBOXES["c1"]
        if isinstance(message, Broadcast) and message.round == t
    )
    return found


def commitment(name: str = "c1") -> bytes:
    (found,) = (message for message in INBOXES[name] if isinstance(message, KeyBox))
    return found.commitment


def framed(*fields: bytes) -> bytes:
    return hashlib.sha256(
        b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    ).digest()


def test_the_chain_is_the_documented_one() -> None:
    start = start_transcript(PLAN.digest, RUN, deal(), b"c" * 32)
    n_present = (3).to_bytes(8, "big")
    assert start == framed(
        b"fastlloyd/v1/transcript/start", PLAN.digest, RUN, n_present, encode(deal()), b"c" * 32
    )
    step = extend_transcript(start, broadcast(1))
    assert step == framed(b"fastlloyd/v1/transcript/step", start, encode(broadcast(1)))


def test_all_clients_of_one_key_set_start_alike() -> None:
    starts = {
        start_transcript(PLAN.digest, RUN, deal(name), commitment(name)) for name in PLAN.names
    }
    assert len(starts) == 1


def test_another_plan_run_or_set_and_any_field_of_any_hello_starts_another_chain() -> None:
    hellos = deal().hellos
    fields = ("exchange_key", "encapsulation_key", "run_key", "signature")
    others = [
        Deal(BEGINNING, 1, hellos[:2]),
        Deal(BEGINNING, 1, hellos[::-1]),
        Deal(BEGINNING, 2, hellos),
    ]
    for i, hello in enumerate(hellos):
        for field in fields:
            changed = msgspec.structs.replace(hello, **{field: bytes(len(getattr(hello, field)))})
            others.append(Deal(BEGINNING, 1, (*hellos[:i], changed, *hellos[i + 1 :])))
    starts = [
        start_transcript(PLAN.digest, RUN, deal(), b"c" * 32),
        start_transcript(PLAN.digest, RUN, deal(), b"d" * 32),
        start_transcript(bytes(32), RUN, deal(), b"c" * 32),
        start_transcript(PLAN.digest, bytes(16), deal(), b"c" * 32),
        *(start_transcript(PLAN.digest, RUN, other, b"c" * 32) for other in others),
    ]
    assert len(set(starts)) == len(starts) == 4 + 3 + 3 * 4


def test_another_round_set_nonce_or_payload_gives_another_hash() -> None:
    shown, before = broadcast(1), bytes(32)
    others = [
        msgspec.structs.replace(shown, round=2),
        among(PLAN.names, shown, {"c1": None}),
        among(PLAN.names, shown, {"c0": bytes(8)}),
        msgspec.structs.replace(shown, payload=bytes(len(shown.payload))),
    ]
    hashes = {extend_transcript(before, one) for one in [shown, *others]}
    assert len(hashes) == 5
    assert extend_transcript(b"\x01" * 32, shown) not in hashes
