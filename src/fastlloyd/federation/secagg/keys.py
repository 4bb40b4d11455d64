"""Identity keys, the sealing of the group key from client to client, and the confirmation at the end of a run.

Every client signs with its Ed25519 identity and makes a fresh X25519 key for each run; the dealer seals the group key
to each of the others. The server relays signatures, boxes and confirmations and can make or read none of them.
"""

import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fastlloyd.base.randomness import KEY_BYTES, derive, length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.secagg.masks import (
    DIGEST_BYTES,
    RUN_ID_BYTES,
    GroupKey,
    RoundContext,
    Secret,
    check_length,
    encode_name,
    name_field,
)

PUBLIC_KEY_BYTES = 32
SIGNATURE_BYTES = 64
SEALED_BYTES = 12 + KEY_BYTES + 16
"""Nonce, encrypted group key, Poly1305 tag."""
CONFIRMATION_BYTES = 32

Key = TypeVar("Key", Ed25519PrivateKey, X25519PrivateKey)

_SEAL_LABEL = b"fastlloyd/v1/group-key"
_CONFIRMATION_LABEL = b"fastlloyd/v1/confirmation"


class PrivateKey(Secret, Generic[Key]):
    """32 secret bytes, and the public key that belongs to them."""

    __slots__ = ("_key",)
    _load: "ClassVar[staticmethod[[bytes], Any]]"

    def __init__(self, key: Key) -> None:
        self._key: Key = key

    @classmethod
    def draw(cls, random_bytes: Callable[[int], bytes]) -> Self:
        """Make a fresh key from `random_bytes`, in production `os.urandom`."""
        return cls.from_private_bytes(random_bytes(KEY_BYTES))

    @classmethod
    def generate(cls) -> Self:
        """Make a fresh key from the system's randomness."""
        return cls.draw(os.urandom)

    @classmethod
    def from_private_bytes(cls, secret: bytes) -> Self:
        """Restore the key whose `private_bytes` were stored."""
        check_length("the private key", secret, KEY_BYTES)
        return cls(cls._load(secret))

    def private_bytes(self) -> bytes:
        """32 secret bytes, for the file in which their owner keeps them and nothing else."""
        return self._key.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """32-byte public key."""
        return self._key.public_key().public_bytes_raw()


class Identity(PrivateKey[Ed25519PrivateKey]):
    """The Ed25519 key (RFC 8032) with which a party signs what it says; its public half stands in the plan's roster."""

    __slots__ = ()
    _load = staticmethod(Ed25519PrivateKey.from_private_bytes)

    def sign(self, message: bytes) -> bytes:
        """Sign `message`, which names its own purpose; 64 bytes."""
        return self._key.sign(message)


def verify(public: bytes, signature: bytes, message: bytes) -> None:
    """Raise `RemoteProtocolError` unless `signature` signs `message` under `public`, a key of the plan's roster."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        raise RemoteProtocolError("a signature does not belong to the message and the signing key in the plan") from None


class EphemeralKey(PrivateKey[X25519PrivateKey]):
    """The X25519 key (RFC 7748) that a client makes for one run, to be sealed the group key.

    Its public half is sent in `Hello` under the identity's signature.
    """

    __slots__ = ()
    _load = staticmethod(X25519PrivateKey.from_private_bytes)

    def shared_secret(self, public: bytes) -> bytes:
        """X25519 of this key and another's public key; refuses a public key that makes the secret all zero."""
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:
            raise RemoteProtocolError("a client's public key for this run is not a valid X25519 key") from None


def check_public_key(public: bytes) -> None:
    """Raise `RemoteProtocolError` if no secret can be shared with this X25519 public key, whoever tries.

    Such a key has low order: every private key makes the same zero of it (RFC 7748, section 6.1), so any will do to see it.
    """
    EphemeralKey.from_private_bytes(bytes(KEY_BYTES)).shared_secret(public)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPassage:
    """From which client to which the group key goes, in which run: what it is sealed for.

    plan_digest : 32 bytes; run_id : 16 bytes; sender_public, recipient_public : the X25519 keys of this run, 32 bytes each.

    X25519 -> HKDF-SHA256 -> ChaCha20-Poly1305 with plan digest, run id and both names as associated data.
    """

    plan_digest: bytes
    run_id: bytes
    sender_name: str
    sender_public: bytes
    recipient_name: str
    recipient_public: bytes

    def seal(self, group_key: GroupKey, sender: EphemeralKey) -> bytes:
        """Encrypt the group key; 60 bytes that only this recipient in this run can open.

        The nonce is a keyed hash of the group key, so sealing the same key again gives the same bytes and another key another
        nonce: no restart of the dealer can encrypt two keys under one nonce.
        """
        cipher, nonce_key, bound = self._keys(sender.shared_secret(self.recipient_public))
        nonce = hmac.digest(nonce_key, group_key.secret, hashlib.sha256)[:12]
        return nonce + cipher.encrypt(nonce, group_key.secret, bound)

    def open(self, box: bytes, recipient: EphemeralKey) -> GroupKey:
        """Decrypt what `seal` made; `RemoteProtocolError` if anything differs from what the sender bound into the box."""
        cipher, _, bound = self._keys(recipient.shared_secret(self.sender_public))
        if len(box) != SEALED_BYTES:
            raise RemoteProtocolError(f"a sealed group key is {SEALED_BYTES} bytes long, not {len(box)}")
        try:
            return GroupKey(cipher.decrypt(box[:12], box[12:], bound))
        except InvalidTag:
            raise RemoteProtocolError(
                "the sealed group key does not open: it was changed, or made for another plan, run, sender or recipient"
            ) from None

    def _keys(self, secret: bytes) -> tuple[ChaCha20Poly1305, bytes, bytes]:
        """Cipher and nonce key of the box, and its associated data.

        Both public keys enter, so that the two directions of a pair differ.
        """
        check_length("plan_digest", self.plan_digest, DIGEST_BYTES)
        check_length("run_id", self.run_id, RUN_ID_BYTES)
        bound = length_prefixed(self.plan_digest, self.run_id, encode_name(self.sender_name), encode_name(self.recipient_name))
        info = _SEAL_LABEL + self.sender_public + self.recipient_public + bound
        keys = HKDF(hashes.SHA256(), 2 * KEY_BYTES, salt=_SEAL_LABEL, info=info).derive(secret)
        return ChaCha20Poly1305(keys[:KEY_BYTES]), keys[KEY_BYTES:], bound


class Ending(Secret):
    """How a client ended the run: with this transcript and these centroids. Its word is an HMAC-SHA256 under the group key."""

    __slots__ = ("_ending", "_keyed")

    def __init__(self, group_key: GroupKey, context: RoundContext, centroids_digest: bytes) -> None:
        check_length("centroids_digest", centroids_digest, DIGEST_BYTES)
        key = derive(group_key.secret, _CONFIRMATION_LABEL + context.plan_digest + context.run_id)
        self._keyed = hmac.new(key, digestmod=hashlib.sha256)
        self._ending = length_prefixed(context.transcript_hash, centroids_digest)

    def confirmation(self, name: str) -> bytes:
        """Client `name`'s word that it ended the run so, 32 bytes."""
        mac = self._keyed.copy()
        mac.update(name_field(name) + self._ending)
        return mac.digest()

    def differing(self, tags: Mapping[str, bytes]) -> list[str]:
        """The clients whose tag is not their confirmation of exactly this ending; in constant time."""
        return [name for name, tag in tags.items() if not hmac.compare_digest(tag, self.confirmation(name))]
