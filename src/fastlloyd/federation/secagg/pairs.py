"""Key that two clients of a run share, and the keys from which the clients derive it.

The key is secret even from a listener with a quantum computer. Every client draws `RunKeys` and
sends the public halves in its Hello. Of each pair of clients, the earlier one in the plan
encapsulates to the other's ML-KEM-768 key. Both derive a `PairKey` from the encapsulated secret and
from X25519. So a listener must break both:

    pair key | HMAC key = HKDF-SHA256(ML-KEM secret | X25519 secret, salt = label, info = everything
    both must agree on)

ML-KEM answers a changed ciphertext with another secret and no error. So the ciphertext has an HMAC.
"""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Self

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fastlloyd.base.randomness import KEY_BYTES, derive, length_prefixed
from fastlloyd.errors import IdentityError, LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.secagg.masks import (
    DIGEST_BYTES,
    RUN_ID_BYTES,
    GroupKey,
    Secret,
    check_length,
    encode_name,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.mlkem import (
        MLKEM768PrivateKey,
        MLKEM768PublicKey,
    )

EXCHANGE_KEY_BYTES = 32
ENCAPSULATION_KEY_BYTES = 1184
CIPHERTEXT_BYTES = 1088
CHECKED_BYTES = CIPHERTEXT_BYTES + 32
"""Length of a ciphertext with its HMAC-SHA256."""
PAIR_MESSAGE_BYTES = CHECKED_BYTES + 64
"""Length of a ciphertext with its HMAC-SHA256 and the Ed25519 signature of its maker."""
RUN_KEYS_BYTES = 128
SEALED_BYTES = 12 + KEY_BYTES + 16
"""Length of nonce, encrypted group key and Poly1305 tag."""

_SEED_BYTES = 64  # d | z of FIPS 203
_PAIR_LABEL = b"fastlloyd/v1/pair-key"
_BOX_LABEL = b"fastlloyd/v1/pair-box"
_BOX_NONCE_LABEL = b"fastlloyd/v1/nonce-of-pair-box"


@cache
def check_supported() -> None:
    """Raise IdentityError if the installed `cryptography` cannot make the keys of a run.

    The check makes a key, because a build without ML-KEM may still have its module.
    """
    import cryptography
    from cryptography.hazmat.backends.openssl.backend import backend

    try:
        from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey

        MLKEM768PrivateKey.from_seed_bytes(bytes(_SEED_BYTES))
    except (ImportError, UnsupportedAlgorithm):
        raise IdentityError(
            f"the keys of a run need ML-KEM-768, which cryptography {cryptography.__version__} with"
            f" {backend.openssl_version_text()} does not have; install a version that has it:"
            ' python -m pip install --force-reinstall --only-binary :all: "cryptography>=48"'
        ) from None


class RunKeys(Secret):
    """Keys that a client draws for one run: X25519 (RFC 7748), ML-KEM-768 (FIPS 203) and Ed25519
    (RFC 8032).

    The first two serve to derive the keys that the client shares with others. The third, the run
    key, signs the client's messages after the Hello.
    """

    __slots__ = ("_decapsulation", "_exchange", "_run")

    def __init__(
        self,
        exchange: X25519PrivateKey,
        decapsulation: "MLKEM768PrivateKey",
        run: Ed25519PrivateKey,
    ) -> None:
        self._exchange, self._decapsulation, self._run = exchange, decapsulation, run

    @classmethod
    def draw(cls, random_bytes: Callable[[int], bytes]) -> Self:
        """Return new keys from `random_bytes`, in production `os.urandom`."""
        return cls.from_private_bytes(random_bytes(RUN_KEYS_BYTES))

    @classmethod
    def from_private_bytes(cls, secret: bytes) -> Self:
        """Return the keys whose `private_bytes` are `secret`."""
        check_length("the keys of a run", secret, RUN_KEYS_BYTES)
        check_supported()
        from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey

        exchange, seed, run = secret[:32], secret[32:96], secret[96:]
        return cls(
            X25519PrivateKey.from_private_bytes(exchange),
            MLKEM768PrivateKey.from_seed_bytes(seed),
            Ed25519PrivateKey.from_private_bytes(run),
        )

    def private_bytes(self) -> bytes:
        """Return 128 secret bytes (X25519, seed of ML-KEM, Ed25519), only for the store of their
        owner.
        """
        return (
            self._exchange.private_bytes_raw()
            + self._decapsulation.private_bytes_raw()
            + self._run.private_bytes_raw()
        )

    @property
    def exchange_key(self) -> bytes:
        """Public key of X25519, 32 bytes."""
        return self._exchange.public_key().public_bytes_raw()

    @property
    def encapsulation_key(self) -> bytes:
        """Public key of ML-KEM-768, 1184 bytes."""
        return self._decapsulation.public_key().public_bytes_raw()

    @property
    def run_key(self) -> bytes:
        """Public key of Ed25519, 32 bytes, for `keys.verify`."""
        return self._run.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Return the signature of a message with the run key, 64 bytes. The message must name its
        purpose.
        """
        return self._run.sign(message)

    def exchange(self, public: bytes) -> bytes:
        """Return the X25519 secret with another client's `exchange_key`, 32 bytes.

        Raises RemoteProtocolError if the secret would be all zero.
        """
        return _exchange(self._exchange, public)

    def decapsulate(self, ciphertext: bytes) -> bytes:
        """Return the 32 bytes that another client encapsulated to these keys.

        If the ciphertext was changed or made for other keys, the result is other bytes, without an
        error (FIPS 203, implicit rejection).
        """
        if len(ciphertext) != CIPHERTEXT_BYTES:
            raise RemoteProtocolError(
                f"a ciphertext of ML-KEM-768 is {CIPHERTEXT_BYTES} bytes long, not"
                f" {len(ciphertext)}"
            )
        return self._decapsulation.decapsulate(ciphertext)


def encapsulate(public: bytes) -> tuple[bytes, bytes]:
    """Return a new 32-byte secret and its 1088-byte ciphertext.

    The library draws the secret from the system's random source and takes no seed.

    public : `encapsulation_key` of another client.
    """
    return _encapsulation_key(public).encapsulate()


def check_run_keys(exchange_key: bytes, encapsulation_key: bytes, run_key: bytes) -> None:
    """Raise RemoteProtocolError if one of these public keys lets a party other than its owner
    compute a secret or make a signature.

    An X25519 key of low order gives zero with every private key (RFC 7748, section 6.1). So a test
    with one private key finds it. An ML-KEM key encodes only numbers below 3329 (FIPS 203, section
    7.2). Under an Ed25519 key of low order any party can sign. The test converts it to the X25519
    key of the same order (RFC 7748, section 4.1).
    """
    any_key = X25519PrivateKey.from_private_bytes(bytes(EXCHANGE_KEY_BYTES))
    _exchange(any_key, exchange_key)
    _encapsulation_key(encapsulation_key)
    try:
        _exchange(any_key, _montgomery(run_key))
    except RemoteProtocolError:
        raise RemoteProtocolError(
            "a client's run_key for this run is an Ed25519 key under which anybody can sign"
        ) from None


def _montgomery(ed25519_key: bytes) -> bytes:
    """Return the X25519 key of an Ed25519 key's point, u = (1 + y) / (1 - y), or 0 for the neutral
    point.

    Both points with this y give the same key.
    """
    p = 2**255 - 19
    y = int.from_bytes(ed25519_key, "little") % 2**255
    return ((1 + y) * pow(1 - y, p - 2, p) % p).to_bytes(EXCHANGE_KEY_BYTES, "little")


def _exchange(private: X25519PrivateKey, public: bytes) -> bytes:
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise RemoteProtocolError(
            "a client's exchange_key for this run is not a valid X25519 key"
        ) from None


def _encapsulation_key(public: bytes) -> "MLKEM768PublicKey":
    check_supported()
    from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey

    try:
        return MLKEM768PublicKey.from_public_bytes(public)
    except ValueError:  # the library speaks of the length even where the numbers are wrong
        raise RemoteProtocolError(
            "a client's encapsulation_key for this run is not a valid ML-KEM-768 key"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairContext:
    """Context on which two clients must agree to share a key.

    plan_digest : digest of the plan, 32 bytes.
    run_id : id of the run, 16 bytes.
    earlier, later : names of the two clients, in the order of the plan.
    earlier_hello, later_hello : SHA-256 of their encoded Hellos, as this client received them, 32
        bytes each.
    """

    plan_digest: bytes
    run_id: bytes
    earlier: str
    later: str
    earlier_hello: bytes
    later_hello: bytes

    def __post_init__(self) -> None:
        check_length("plan_digest", self.plan_digest, DIGEST_BYTES)
        check_length("run_id", self.run_id, RUN_ID_BYTES)
        if self.earlier == self.later:
            raise LocalProtocolError(
                f"client {self.earlier!r} shares no pair key with itself; name two clients"
            )
        check_length("earlier_hello", self.earlier_hello, DIGEST_BYTES)
        check_length("later_hello", self.later_hello, DIGEST_BYTES)

    @property
    def names(self) -> tuple[bytes, bytes]:
        """Names of both clients in UTF-8, in the order of the plan."""
        return encode_name(self.earlier), encode_name(self.later)


class PairKey(Secret):
    """Secret that only two clients of one run know. Both derive the same secret."""

    __slots__ = ("_context", "_mac_key", "_secret")

    def __init__(self, context: PairContext, secret: bytes, mac_key: bytes) -> None:
        check_length("the pair key", secret, KEY_BYTES)
        check_length("the HMAC key", mac_key, KEY_BYTES)
        self._context, self._secret, self._mac_key = context, secret, mac_key

    @classmethod
    def agree(
        cls, context: PairContext, *, exchange_secret: bytes, kem_secret: bytes, ciphertext: bytes
    ) -> Self:
        """Derive the pair key from both secrets. Any other input gives another key.

        context : plan, run, names and Hellos of the two clients.
        exchange_secret : result of `RunKeys.exchange`.
        kem_secret : secret from `encapsulate` or from `RunKeys.decapsulate`.
        ciphertext : ciphertext from `encapsulate`, which is the input of `RunKeys.decapsulate`.
        """
        check_length("exchange_secret", exchange_secret, KEY_BYTES)
        check_length("kem_secret", kem_secret, KEY_BYTES)
        check_length("ciphertext", ciphertext, CIPHERTEXT_BYTES)
        agreed = (
            context.plan_digest,
            context.run_id,
            *context.names,
            context.earlier_hello,
            context.later_hello,
            ciphertext,
        )
        info = length_prefixed(_PAIR_LABEL, *agreed)
        keys = HKDF(hashes.SHA256(), 2 * KEY_BYTES, salt=_PAIR_LABEL, info=info).derive(
            kem_secret + exchange_secret
        )
        return cls(context, keys[:KEY_BYTES], keys[KEY_BYTES:])

    @property
    def secret(self) -> bytes:
        """32 bytes from which both clients derive their masks, with a separate label for each
        purpose.
        """
        return self._secret

    def message(self, ciphertext: bytes) -> bytes:
        """Return the message that the earlier client signs for the later one.

        It consists of the ciphertext and an HMAC. The HMAC proves that both derive the same key
        from the ciphertext.
        """
        return ciphertext + hmac.digest(self._mac_key, ciphertext, hashlib.sha256)

    def check(self, message: bytes) -> None:
        """Raise RemoteProtocolError unless the other client made this message with exactly this
        key.
        """
        if not hmac.compare_digest(message, self.message(message[:CIPHERTEXT_BYTES])):
            raise RemoteProtocolError(
                f"the key that client {self._context.earlier!r:.80} made for this client is not"
                " valid"
            )

    def seal(self, group_key: GroupKey, deal: bytes) -> bytes:
        """Return the group key, encrypted for the later client, 60 bytes.

        Only the later client can open it, and only for this Deal. The nonce is a keyed hash of the
        group key. So the same key gives the same bytes again, and another key gives another nonce.
        No restart of the dealer can encrypt two keys under one nonce.

        deal : digest of the Deal.
        """
        cipher, nonce_key, bound = self._box_keys(deal)
        nonce = hmac.digest(nonce_key, group_key.secret, hashlib.sha256)[:12]
        return nonce + cipher.encrypt(nonce, group_key.secret, bound)

    def open(self, box: bytes, deal: bytes) -> GroupKey:
        """Return the group key that the earlier client sealed.

        Raises RemoteProtocolError if the box is not for this key and this Deal.
        """
        cipher, _, bound = self._box_keys(deal)
        if len(box) != SEALED_BYTES:
            raise RemoteProtocolError(
                f"a sealed group key is {SEALED_BYTES} bytes long, not {len(box)}"
            )
        try:
            return GroupKey(cipher.decrypt(box[:12], box[12:], bound))
        except InvalidTag:
            raise RemoteProtocolError(
                f"the group key that client {self._context.earlier!r:.80} sealed for this client"
                " cannot be opened"
            ) from None

    def _box_keys(self, deal: bytes) -> tuple[ChaCha20Poly1305, bytes, bytes]:
        """Return cipher, nonce key and associated data of the box.

        The associated data are plan, run, sender, recipient, and digest of the Deal.
        """
        check_length("deal", deal, DIGEST_BYTES)
        bound = length_prefixed(
            self._context.plan_digest, self._context.run_id, *self._context.names, deal
        )
        return (
            ChaCha20Poly1305(derive(self._secret, _BOX_LABEL + bound)),
            derive(self._secret, _BOX_NONCE_LABEL + bound),
            bound,
        )
