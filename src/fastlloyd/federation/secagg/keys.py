"""Identity keys, and the confirmation at the end of a run."""

import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Mapping
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fastlloyd.base.randomness import KEY_BYTES, derive, length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.secagg.masks import (
    DIGEST_BYTES,
    GroupKey,
    RoundContext,
    Secret,
    check_length,
    name_field,
)

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
CONFIRMATION_BYTES = 32

_CONFIRMATION_LABEL = b"fastlloyd/v1/confirmation"
_MAX_HOLDING = 4096
_holding: dict[bytes, None] = {}  # digests of key, signature and message, the oldest first
_adding = threading.Lock()


class Identity(Secret):
    """Ed25519 key (RFC 8032) with which a party signs its messages.

    The plan contains the public half.
    """

    __slots__ = ("_key",)

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def draw(cls, random_bytes: Callable[[int], bytes]) -> Self:
        """Return a new key from `random_bytes`, in production `os.urandom`."""
        return cls.from_private_bytes(random_bytes(KEY_BYTES))

    @classmethod
    def generate(cls) -> Self:
        """Return a new key from the system's random source."""
        return cls.draw(os.urandom)

    @classmethod
    def from_private_bytes(cls, secret: bytes) -> Self:
        """Return the key whose `private_bytes` are `secret`."""
        check_length("the private key", secret, KEY_BYTES)
        return cls(Ed25519PrivateKey.from_private_bytes(secret))

    def private_bytes(self) -> bytes:
        """Return the 32 secret bytes, only for the file in which their owner keeps them."""
        return self._key.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """Public signing key, 32 bytes."""
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message, 64 bytes. The message must name its own purpose."""
        return self._key.sign(message)


def verify(public: bytes, signature: bytes, message: bytes) -> None:
    """Raise RemoteProtocolError unless `signature` is a valid signature of `message` under the key
    `public`.

    All parties of a simulation check the same signatures. So digests of valid signatures are
    remembered.
    """
    digest = hashlib.sha256(length_prefixed(public, signature, message)).digest()
    if digest in _holding:
        return
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise RemoteProtocolError(
            "a signature does not belong to the message and the signing key in the plan"
        ) from None
    with _adding:
        if len(_holding) >= _MAX_HOLDING:
            del _holding[next(iter(_holding))]
        _holding[digest] = None


class Ending(Secret):
    """End of a client's run: its transcript and centroids.

    The client confirms it with an HMAC-SHA256 under the group key.
    """

    __slots__ = ("_ending", "_keyed")

    def __init__(self, group_key: GroupKey, context: RoundContext, centroids_digest: bytes) -> None:
        check_length("centroids_digest", centroids_digest, DIGEST_BYTES)
        key = derive(group_key.secret, _CONFIRMATION_LABEL + context.plan_digest + context.run_id)
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)
        self._ending = length_prefixed(context.transcript_hash, centroids_digest)

    def confirmation(self, name: str) -> bytes:
        """Return client `name`'s confirmation of this transcript and these centroids, 32 bytes."""
        mac = self._keyed.copy()
        mac.update(name_field(name) + self._ending)
        return mac.digest()

    def differing(self, tags: Mapping[str, bytes]) -> list[str]:
        """Return the names of the clients whose tag does not confirm this transcript and these
        centroids. Tags are compared in constant time.
        """
        return [
            name
            for name, tag in tags.items()
            if not hmac.compare_digest(tag, self.confirmation(name))
        ]
