"""The parameters of the next query, sealed from one client to all: the server relays them and cannot read them.

Every sealing has a key of its own, derived from the group key, everything the parameters are for, and fresh random bytes. So
one nonce for all is never used twice under one key, whatever is restarted or restored.
"""

from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fastlloyd.base.randomness import derive, length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.secagg.masks import DIGEST_BYTES, RUN_ID_BYTES, GroupKey, check_length, encode_name

SALT_BYTES: Final = 16
TAG_BYTES: Final = 16
_LABEL = b"fastlloyd/v1/parameters-key"
_NONCE = bytes(12)  # the key is used once


@dataclass(frozen=True, slots=True, kw_only=True)
class ParametersContext:
    """What sealed parameters are for.

    plan_digest, transcript_hash : 32 bytes; run_id : 16 bytes; round : the exchange whose query they are for, from 1, one more
    than there are for what the clustering ends with; client : who worked them out; salt : 16 random bytes, drawn for this
    sealing and sent with it.
    """

    plan_digest: bytes
    run_id: bytes
    round: int
    client: str
    salt: bytes
    transcript_hash: bytes

    def __post_init__(self) -> None:
        check_length("plan_digest", self.plan_digest, DIGEST_BYTES)
        check_length("run_id", self.run_id, RUN_ID_BYTES)
        check_length("salt", self.salt, SALT_BYTES)
        check_length("transcript_hash", self.transcript_hash, DIGEST_BYTES)

    def to_bytes(self) -> bytes:
        """All of it, injectively."""
        return length_prefixed(
            self.plan_digest,
            self.run_id,
            self.round.to_bytes(8, "big"),
            encode_name(self.client),
            self.salt,
            self.transcript_hash,
        )


def seal_parameters(group_key: GroupKey, context: ParametersContext, plain: bytes) -> bytes:
    """Encrypt for whoever holds the group key and has seen the same transcript; 16 bytes longer than `plain`."""
    return ChaCha20Poly1305(_key(group_key, context)).encrypt(_NONCE, plain, context.to_bytes())


def open_parameters(group_key: GroupKey, context: ParametersContext, box: bytes) -> bytes:
    """Decrypt what `seal_parameters` made; RemoteProtocolError if anything differs from what was bound into it."""
    try:
        return ChaCha20Poly1305(_key(group_key, context)).decrypt(_NONCE, box, context.to_bytes())
    except InvalidTag:
        raise RemoteProtocolError(
            f"the parameters that client {context.client!r:.80} sealed for round {context.round} do not open: they were "
            "changed, or clients were shown different messages"
        ) from None


def _key(group_key: GroupKey, context: ParametersContext) -> bytes:
    return derive(group_key.secret, _LABEL + context.to_bytes())
