"""The transcript hash is the documented chain, and anything a client could be shown differently
changes it.
"""

import hashlib

import msgspec

from fastlloyd.federation.protocol.masked_round import extend_transcript, start_transcript
from fastlloyd.federation.protocol.messages import Broadcast, Deal, encode
from federation import among, inboxes, make_federation, make_plan

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


def framed(*fields: bytes) -> bytes:
    return hashlib.sha256(
        b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    ).digest()


def test_the_chain_is_the_documented_one() -> None:
    start = start_transcript(PLAN.digest, RUN, deal())
    n_present = (3).to_bytes(8, "big")
    assert start == framed(
        b"fastlloyd/v1/transcript/start", PLAN.digest, RUN, n_present, encode(deal())
    )
    step = extend_transcript(start, broadcast(1))
    assert step == framed(b"fastlloyd/v1/transcript/step", start, encode(broadcast(1)))


def test_all_clients_of_one_key_set_start_alike() -> None:
    assert len({start_transcript(PLAN.digest, RUN, deal(name)) for name in PLAN.names}) == 1


def test_another_plan_run_or_set_and_any_field_of_any_hello_starts_another_chain() -> None:
    hellos = deal().hellos
    fields = ("exchange_key", "encapsulation_key", "run_key", "signature")
    others = [Deal(hellos[:2]), Deal(hellos[::-1])]
    for i, hello in enumerate(hellos):
        for field in fields:
            changed = msgspec.structs.replace(hello, **{field: bytes(len(getattr(hello, field)))})
            others.append(Deal((*hellos[:i], changed, *hellos[i + 1 :])))
    starts = [
        start_transcript(PLAN.digest, RUN, deal()),
        start_transcript(bytes(32), RUN, deal()),
        start_transcript(PLAN.digest, bytes(16), deal()),
        *(start_transcript(PLAN.digest, RUN, other) for other in others),
    ]
    assert len(set(starts)) == len(starts) == 3 + 2 + 3 * 4


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
