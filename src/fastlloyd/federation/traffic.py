"""How many bytes the clients of a federated run send and receive, counted on the messages' own encodings."""

from collections.abc import Iterable

import msgspec

from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Limits,
    Message,
    Parameters,
    Proposal,
    SealedKeys,
    Upload,
    encode,
)
from fastlloyd.federation.secagg.keys import CONFIRMATION_BYTES, PUBLIC_KEY_BYTES, SEALED_BYTES, SIGNATURE_BYTES
from fastlloyd.federation.secagg.masks import DIGEST_BYTES, RUN_ID_BYTES, UPLOAD_NONCE_BYTES
from fastlloyd.federation.secagg.sealing import SALT_BYTES


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one client's messages, in the last round of the clustering and in the whole run; no wrapping of a transport."""

    sent_per_round: int
    received_per_round: int
    sent: int
    received: int


def traffic(plan: Plan, name: str) -> Traffic:
    """What the client of that name sends and receives in a run that nobody misses.

    The first client of the plan also deals the keys, and works out the parameters where there are any. Every field of a message
    has a fixed length but names, round numbers and the lists of clients, which are those of the plan; so messages of zeros are
    as long as real ones.
    """
    T, limits = len(plan.mechanism.rounds), Limits.of(plan)
    nonce, salt, dealer = bytes(UPLOAD_NONCE_BYTES), bytes(SALT_BYTES), plan.names[0]
    payloads = [(t, bytes(size)) for t, size in enumerate(limits.payload_bytes, 1)]
    sealed = [(t, bytes(size)) for t, size in limits.box_bytes.items()]
    uploads = [Upload(t, nonce, payload) for t, payload in payloads]
    broadcasts = [Broadcast.of(plan.names, t, dict.fromkeys(plan.names, nonce), payload) for t, payload in payloads]
    proposals = [Proposal(t, salt, box) for t, box in sealed]
    parameters = [Parameters(t, dealer, salt, box) for t, box in sealed]
    deals = name == dealer
    boxes = tuple((each, bytes(SEALED_BYTES)) for each in plan.names)
    macs = tuple((each, bytes(CONFIRMATION_BYTES)) for each in plan.names)
    key_box = KeyBox(_hello(dealer), plan.names, bytes(SEALED_BYTES))
    joining: list[Message] = [_hello(name), *([SealedKeys(boxes)] if deals else [])]
    joined: list[Message] = [*([Deal(tuple(map(_hello, plan.names)))] if deals else []), key_box]
    return Traffic(
        sent_per_round=_length(uploads[T - 1 : T]),
        received_per_round=_length(broadcasts[T - 1 : T]),
        sent=_length([*joining, *uploads, *(proposals if deals else []), Confirmation(bytes(CONFIRMATION_BYTES))]),
        received=_length([*joined, *broadcasts, *parameters, Confirmations(macs)]),
    )


def _length(messages: Iterable[Message]) -> int:
    return sum(len(encode(message)) for message in messages)


def _hello(name: str) -> Hello:
    return Hello(bytes(DIGEST_BYTES), bytes(RUN_ID_BYTES), name, bytes(PUBLIC_KEY_BYTES), bytes(SIGNATURE_BYTES))
