"""The transcript hash is the documented chain, and anything a client could be shown differently changes it."""

import hashlib

import msgspec

from fastlloyd.federation.protocol.masked_round import extend_transcript, start_transcript
from fastlloyd.federation.protocol.messages import Broadcast, KeyBox, encode
from federation import among, inboxes, make_federation, make_plan

PLAN = make_plan(3)
INBOXES = inboxes(make_federation(PLAN))
RUN = bytes.fromhex(PLAN.run_id)


def key_box(name: str) -> KeyBox:
    (box,) = (message for message in INBOXES[name] if isinstance(message, KeyBox))
    return box


def broadcast(t: int) -> Broadcast:
    (found,) = (message for message in INBOXES["c1"] if isinstance(message, Broadcast) and message.round == t)
    return found


def framed(*fields: bytes) -> bytes:
    return hashlib.sha256(b"".join(len(field).to_bytes(4, "big") + field for field in fields)).digest()


def test_the_chain_is_the_documented_one() -> None:
    keys = key_box("c1")
    start = start_transcript(PLAN.digest, RUN, keys)
    key_set = framed(encode(keys.dealer), b"c0", b"c1", b"c2")
    assert start == framed(b"fastlloyd/v1/transcript/start", PLAN.digest, RUN, key_set)
    step = extend_transcript(start, broadcast(1))
    assert step == framed(b"fastlloyd/v1/transcript/step", start, encode(broadcast(1)))


def test_all_clients_of_one_key_set_start_alike_whatever_their_boxes() -> None:
    boxes = [key_box(name) for name in PLAN.names]
    assert len({keys.box for keys in boxes}) == 3
    assert len({start_transcript(PLAN.digest, RUN, keys) for keys in boxes}) == 1


def test_another_plan_run_dealer_or_set_starts_another_chain() -> None:
    keys = key_box("c1")
    other_dealer = msgspec.structs.replace(keys.dealer, ephemeral_public=bytes(32))
    starts = [
        start_transcript(PLAN.digest, RUN, keys),
        start_transcript(bytes(32), RUN, keys),
        start_transcript(PLAN.digest, bytes(16), keys),
        start_transcript(PLAN.digest, RUN, msgspec.structs.replace(keys, dealer=other_dealer)),
        start_transcript(PLAN.digest, RUN, msgspec.structs.replace(keys, present=("c0", "c1"))),
    ]
    assert len(set(starts)) == len(starts)


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
