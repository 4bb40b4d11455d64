"""Sealing of the next query's parameters by one client for all clients.

The server relays the sealed parameters and cannot read them. Every sealing has a key of its own.
The key is derived from the group key, plan, run, round, client and transcript, and from new random
bytes. So the constant nonce is never used twice under one key, even after a restart or a restored
copy.
"""

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fastlloyd.base.randomness import derive, length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.secagg.masks import GroupKey, RoundContext, check_length, encode_name

SALT_BYTES: Final = 16
TAG_BYTES: Final = 16
_LABEL = b"fastlloyd/v1/parameters-key"
_NONCE = bytes(12)  # the key is used once


def seal_parameters(
    group_key: GroupKey, context: RoundContext, client: str, salt: bytes, plain: bytes
) -> bytes:
    """Return the parameters, encrypted for the clients that have the group key and the same
    transcript.

    The result is 16 bytes longer than `plain`.

    context : context of the round whose query has the parameters.
    client : name of the client that computed them.
    salt : 16 random bytes, drawn for this sealing and sent with it.
    """
    key, bound = _key(group_key, context, client, salt)
    return key.encrypt(_NONCE, plain, bound)


def open_parameters(
    group_key: GroupKey, context: RoundContext, client: str, salt: bytes, box: bytes
) -> bytes:
    """Return the parameters that `seal_parameters` encrypted.

    Raises RemoteProtocolError if key, context, client or salt differ from those of the sealing.
    """
    key, bound = _key(group_key, context, client, salt)
    try:
        return key.decrypt(_NONCE, box, bound)
    except InvalidTag:
        raise RemoteProtocolError(
            f"the parameters that client {client!r:.80} sealed for round {context.round} do not"
            " open: they were changed, or clients were shown different messages"
        ) from None


def _key(
    group_key: GroupKey, context: RoundContext, client: str, salt: bytes
) -> tuple[ChaCha20Poly1305, bytes]:
    """Return the key of one sealing, and an encoding of everything to which it is bound. Different
    inputs have different encodings.
    """
    check_length("salt", salt, SALT_BYTES)
    bound = length_prefixed(
        context.plan_digest,
        context.run_id,
        context.round.to_bytes(8, "big"),
        encode_name(client),
        salt,
        context.transcript_hash,
    )
    return ChaCha20Poly1305(derive(group_key.secret, _LABEL + bound)), bound
