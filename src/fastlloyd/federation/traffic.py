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
from fastlloyd.mechanisms.rounds import Exchange


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
    T, exchanges = len(plan.mechanism.clustering_rounds), list(enumerate(plan.mechanism.exchanges, 1))
    uploads = [_upload(plan, t, exchange) for t, exchange in exchanges]
    broadcasts = [_broadcast(plan, t, exchange) for t, exchange in exchanges]
    proposals, parameters = _boxes(plan)
    deals = name == plan.names[0]
    boxes = tuple((each, bytes(SEALED_BYTES)) for each in plan.names)
    macs = tuple((each, bytes(CONFIRMATION_BYTES)) for each in plan.names)
    key_box = KeyBox(_hello(plan.names[0]), plan.names, bytes(SEALED_BYTES))
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


def _upload(plan: Plan, number: int, exchange: Exchange) -> Upload:
    return Upload(number, bytes(UPLOAD_NONCE_BYTES), bytes(plan.n_words(exchange) * plan.ring.itemsize))


def _broadcast(plan: Plan, number: int, exchange: Exchange) -> Broadcast:
    included = dict.fromkeys(plan.names, bytes(UPLOAD_NONCE_BYTES))
    return Broadcast.of(plan.names, number, included, bytes(plan.n_words(exchange) * plan.ring.itemsize))


def _boxes(plan: Plan) -> tuple[list[Proposal], list[Parameters]]:
    sizes, salt = Limits.of(plan).box_bytes.items(), bytes(SALT_BYTES)
    proposals = [Proposal(number, salt, bytes(size)) for number, size in sizes]
    return proposals, [Parameters(number, plan.names[0], salt, bytes(size)) for number, size in sizes]
