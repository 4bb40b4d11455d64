"""Bytes that the clients of a federated run send and receive, computed from the encodings of
messages.
"""

from collections.abc import Iterable

import msgspec

from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.messages import (
    BEGINNING_BYTES,
    AllReady,
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
    Ready,
    SealedKeys,
    Upload,
    encode,
)
from fastlloyd.federation.secagg.keys import CONFIRMATION_BYTES, PUBLIC_KEY_BYTES, SIGNATURE_BYTES
from fastlloyd.federation.secagg.masks import DIGEST_BYTES, RUN_ID_BYTES, UPLOAD_NONCE_BYTES
from fastlloyd.federation.secagg.pairs import (
    ENCAPSULATION_KEY_BYTES,
    EXCHANGE_KEY_BYTES,
    PAIR_MESSAGE_BYTES,
    SEALED_BYTES,
)
from fastlloyd.federation.secagg.sealing import SALT_BYTES


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one client's messages, without the overhead of a transport.

    sent_per_round, received_per_round : bytes in the last round of the clustering.
    sent, received : bytes in the whole run.
    """

    sent_per_round: int
    received_per_round: int
    sent: int
    received: int


def traffic(plan: Plan, name: str) -> Traffic:
    """Return the bytes that client `name` sends and receives in a run in which no client is
    missing.

    The first client of the plan makes the group key, and computes the parameters if there are any.
    Every field of a message has a fixed length, except names, round numbers and lists of clients,
    which the plan fixes. So messages of zeros are as long as real ones.
    """
    T, limits = len(plan.mechanism.rounds), Limits.of(plan)
    nonce, salt, signature, mac = (
        bytes(n) for n in (UPLOAD_NONCE_BYTES, SALT_BYTES, SIGNATURE_BYTES, CONFIRMATION_BYTES)
    )
    payloads = [(t, bytes(size)) for t, size in enumerate(limits.payload_bytes, 1)]
    sealed = [(t, bytes(size)) for t, size in limits.box_bytes.items()]
    uploads = _uploads(limits)
    broadcasts = [
        Broadcast.of(plan.names, t, dict.fromkeys(plan.names, nonce), payload)
        for t, payload in payloads
    ]
    proposals = [Proposal(t, salt, box, signature) for t, box in sealed]
    parameters = [Parameters(t, plan.names[0], salt, box, signature) for t, box in sealed]
    confirmations = Confirmations(tuple((each, mac, signature) for each in plan.names))
    at, speakers = plan.names.index(name), plan.masks.speakers(plan.names)
    deals, n_later, n_made = at == 0, plan.n_clients - 1 - at, len(speakers[:at])
    made = SealedKeys(
        bytes(DIGEST_BYTES),
        bytes(DIGEST_BYTES) if deals else None,
        (bytes(PAIR_MESSAGE_BYTES),) * n_later,
        (bytes(SEALED_BYTES),) * (n_later * deals),
    )
    key_box = KeyBox(
        bytes(DIGEST_BYTES),
        bytes(DIGEST_BYTES),
        (bytes(PAIR_MESSAGE_BYTES),) * n_made,
        None if deals else bytes(SEALED_BYTES),
    )
    ready = Ready(bytes(DIGEST_BYTES), 1, signature)
    all_ready = AllReady(bytes(DIGEST_BYTES), 1, (signature,) * plan.n_clients)
    joining: list[Message] = [_hello(name), *([made] if name in speakers else []), ready]
    relayed: list[Message] = [
        Deal(bytes(BEGINNING_BYTES), 1, tuple(map(_hello, plan.names))),
        key_box,
        all_ready,
    ]
    return Traffic(
        sent_per_round=_length(uploads[T - 1 : T]),
        received_per_round=_length(broadcasts[T - 1 : T]),
        sent=_length(
            [*joining, *uploads, *(proposals if deals else []), Confirmation(mac, signature)]
        ),
        received=_length([*relayed, *broadcasts, *parameters, confirmations]),
    )


def upload_bytes(plan: Plan) -> tuple[int, ...]:
    """Return the number of bytes that one client uploads in each round. If the loss is estimated,
    its round is the last entry.
    """
    return tuple(len(encode(upload)) for upload in _uploads(Limits.of(plan)))


def _uploads(limits: Limits) -> list[Upload]:
    nonce = bytes(UPLOAD_NONCE_BYTES)
    return [Upload(t, nonce, bytes(size)) for t, size in enumerate(limits.payload_bytes, 1)]


def _length(messages: Iterable[Message]) -> int:
    return sum(len(encode(message)) for message in messages)


def _hello(name: str) -> Hello:
    keys = (
        bytes(n)
        for n in (EXCHANGE_KEY_BYTES, ENCAPSULATION_KEY_BYTES, PUBLIC_KEY_BYTES, SIGNATURE_BYTES)
    )
    return Hello(bytes(DIGEST_BYTES), bytes(RUN_ID_BYTES), name, *keys)
