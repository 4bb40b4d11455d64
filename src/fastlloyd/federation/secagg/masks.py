"""One-time masks: a key and the full context of one upload become uniform ring elements.

The server never has the keys. All clients share one key. With `PairwiseMasks`, each pair of clients
also shares a key of its own. A mask hides one upload completely, as long as it is used for one
message only. So everything that distinguishes two uploads is an input of the mask.

Departs from the paper, where masks come from PRNG(seed, t): two tensors or two runs with one seed
would share a mask.
"""

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn, Protocol, Self

from fastlloyd.base.randomness import KEY_BYTES, Keystreams, derive, length_prefixed
from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.secagg.ring import Ring, RingVector

DIGEST_BYTES = 32
RUN_ID_BYTES = 16
UPLOAD_NONCE_BYTES = 8
MAX_NAME_BYTES = 255

_MASK_LABEL = b"fastlloyd/v1/mask"
_PAIR_LABEL = b"fastlloyd/v1/pair-mask"
_COMMITMENT_LABEL = b"fastlloyd/v1/group-key-commitment"
_BLOCK_BYTES = 1 << 17  # bytes of masks that are added up at once: they stay in the cache


class Secret:
    """Base of all secrets, which show nothing and cannot be copied by accident.

    Secrets are plain slotted classes. Serialisers would write out the content of dataclasses or
    structs.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<secret>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is secret: it is neither pickled nor copied")


class GroupKey(Secret):
    """32 secret bytes that the clients of one run share.

    Group keys are compared in constant time, cannot be hashed, and cannot be changed.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        check_length("the group key", secret, KEY_BYTES)
        self._secret = secret

    @classmethod
    def draw(cls, random_bytes: Callable[[int], bytes]) -> Self:
        """Return a new key from `random_bytes`, in production `os.urandom`."""
        return cls(random_bytes(KEY_BYTES))

    @property
    def secret(self) -> bytes:
        """The 32 bytes, for key derivation, sealing and the client's own store."""
        return self._secret

    def commitment(self, deal: bytes) -> bytes:
        """Return a commitment: 32 public bytes that no other key has, and that reveal nothing about
        the key.

        deal : digest of the Deal to which the key belongs.
        """
        check_length("deal", deal, DIGEST_BYTES)
        return derive(self._secret, _COMMITMENT_LABEL + deal)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GroupKey) and hmac.compare_digest(self._secret, other._secret)

    __hash__ = None  # type: ignore[assignment]  # how the data model spells "not hashable"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundContext:
    """Context to which everything made with the group key is bound: a round of a run, and its
    transcript.

    plan_digest : SHA-256 of the plan, 32 bytes.
    run_id : 16 random bytes of this run, so that a second run of the plan has other masks.
    round : number of the round, from 1. The final parameters of a clustering have n_rounds + 1.
    transcript_hash : 32 bytes that chain all broadcasts so far, so that clients with different
        broadcasts fail to unmask.
    """

    plan_digest: bytes
    run_id: bytes
    round: int
    transcript_hash: bytes

    def __post_init__(self) -> None:
        check_length("plan_digest", self.plan_digest, DIGEST_BYTES)
        check_length("run_id", self.run_id, RUN_ID_BYTES)
        if not 1 <= self.round < 1 << 64:
            raise LocalProtocolError(
                f"round = {self.round} is outside [1, 2**64); rounds are counted from 1"
            )
        check_length("transcript_hash", self.transcript_hash, DIGEST_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskContext(RoundContext):
    """Context of all masks of one round.

    The client and its nonce distinguish the uploads of the round.

    centroids_digest : SHA-256 of the current centroids or parameters, 32 bytes. So clients with
        different centroids or parameters fail to unmask.
    """

    centroids_digest: bytes

    def __post_init__(self) -> None:
        RoundContext.__post_init__(self)  # super() does not find its class in one with slots
        check_length("centroids_digest", self.centroids_digest, DIGEST_BYTES)

    @property
    def before(self) -> bytes:
        """Encoding of the fields before `upload_field`, each with a fixed width."""
        return self.plan_digest + self.run_id + self.round.to_bytes(8, "big")

    @property
    def after(self) -> bytes:
        """Encoding of the fields after `upload_field`."""
        return self.transcript_hash + self.centroids_digest


class MaskScheme(Protocol):
    """Masks of one client of a run, which hide its uploads and open the sum of a round."""

    def hide(
        self, plain: RingVector, context: MaskContext, client: str, nonce: bytes
    ) -> RingVector:
        """Return the upload with its mask added, which makes any `plain` uniform on the ring.

        client : name of this client.
        nonce : 8 random bytes, drawn for this upload and sent with it. So a client that is restored
            from an old copy uses other masks.

        Raises LocalProtocolError if the last masked upload had the same context, client and nonce,
        and hence the same mask.
        """

    def open(
        self, total: RingVector, context: MaskContext, included: Mapping[str, bytes]
    ) -> RingVector:
        """Return the sum of the uploads without their masks.

        included : nonce of each client whose upload is in the sum, by name.
        """


class GroupMasks(Secret):
    """Masks under the group key, from which every client can derive all masks.

    A mask is a ChaCha20 keystream, read as little-endian elements. The key of a keystream is
    HKDF-Expand-SHA256(group key, info = label and full context of the upload). The mask of the last
    masked upload is kept until its broadcast, so that it is derived once.
    """

    __slots__ = ("_group_key", "_kept", "_ring")

    def __init__(self, group_key: GroupKey, ring: Ring) -> None:
        if not isinstance(group_key, GroupKey):
            raise LocalProtocolError("expected a GroupKey, from which masks are expanded")
        self._group_key, self._ring = group_key, ring
        self._kept: tuple[MaskContext, str, bytes, RingVector] | None = None

    def hide(
        self, plain: RingVector, context: MaskContext, client: str, nonce: bytes
    ) -> RingVector:
        """Return the upload with its mask added, as `MaskScheme.hide` does."""
        if self._kept is not None and self._kept[:3] == (context, client, nonce):
            raise LocalProtocolError(
                "this mask was already used for an upload; a second upload with the same mask"
                " would reveal the difference between the two"
            )
        (stream,) = self._keystreams(context, [(client, nonce)], plain.nbytes)
        mask = self._ring.from_bytes(stream, plain.size)
        self._kept = context, client, nonce, mask
        return self._ring.add(plain, mask)

    def open(
        self, total: RingVector, context: MaskContext, included: Mapping[str, bytes]
    ) -> RingVector:
        """Return the sum of the uploads without their masks, as `MaskScheme.open` does."""
        derived = dict(included)
        match self._kept:
            case (kept_for, client, nonce, mask) if (
                kept_for == context and derived.get(client) == nonce
            ):
                del derived[client]
                total = self._ring.subtract(total, mask)
        uploads, at_once = list(derived.items()), max(1, _BLOCK_BYTES // max(1, total.nbytes))
        for start in range(0, len(uploads), at_once):
            block = self._keystreams(context, uploads[start : start + at_once], total.nbytes)
            total = self._ring.subtract(total, self._ring.sum_of_bytes(block, total.size))
        return total

    def _keystreams(
        self, context: MaskContext, uploads: Sequence[tuple[str, bytes]], n_bytes: int
    ) -> list[bytes]:
        streams, after = (
            Keystreams(self._group_key.secret, _MASK_LABEL + context.before),
            context.after,
        )
        return [
            streams.of(upload_field(client, nonce) + after, n_bytes) for client, nonce in uploads
        ]


class PairwiseMasks(Secret):
    """Masks under pair keys, which no third party can remove.

    Of each pair of clients, one adds the pair's keystream and the other subtracts it. The pair
    masks of all clients in the key set add up to zero, and those of fewer clients to a uniform
    value. The first client also adds a mask under the group key, which hides the sum from the
    server. To open the sum, clients subtract only the mask under the group key.

    The key of a pair's keystream is HKDF-Expand-SHA256(pair key, info = label and full context).
    The context has no nonce, because neither client knows the other's. So the upload of a round is
    masked only once. For stores that were restored see docs/proofs/mask-secrecy.md.

    Parameters
    ----------
    names : names of all clients in the key set, in the order of the plan.
    client : name of the client that has these masks.
    pair_keys : pair key with each other client, 32 bytes, by name.
    """

    __slots__ = ("_first", "_group", "_hidden", "_pairs", "_ring")

    def __init__(
        self,
        group_key: GroupKey,
        ring: Ring,
        names: Sequence[str],
        client: str,
        pair_keys: Mapping[str, bytes],
    ) -> None:
        if {*pair_keys, client} != set(names):
            raise LocalProtocolError(
                f"client {client!r} needs a key with each of the others in the key set, and no"
                " other key"
            )
        self._group, self._first, self._ring = GroupMasks(group_key, ring), names[0], ring
        self._hidden: MaskContext | None = None
        at = names.index(client)
        self._pairs = (
            (ring.subtract, [_Pair(pair_keys[other], other, client) for other in names[:at]]),
            (ring.add, [_Pair(pair_keys[other], client, other) for other in names[at + 1 :]]),
        )

    def hide(
        self, plain: RingVector, context: MaskContext, client: str, nonce: bytes
    ) -> RingVector:
        """Return the upload with its masks added, as `MaskScheme.hide` does."""
        if self._hidden == context:
            raise LocalProtocolError(
                "this mask was already used for an upload; a second upload with the same mask"
                " would reveal the difference between the two"
            )
        self._hidden, total, at_once = context, plain, max(1, _BLOCK_BYTES // max(1, plain.nbytes))
        for combine, pairs in self._pairs:
            for start in range(0, len(pairs), at_once):
                streams = [
                    pair.keystream(context, plain.nbytes) for pair in pairs[start : start + at_once]
                ]
                total = combine(total, self._ring.sum_of_bytes(streams, plain.size))
        return self._group.hide(total, context, client, nonce) if client == self._first else total

    def open(
        self, total: RingVector, context: MaskContext, included: Mapping[str, bytes]
    ) -> RingVector:
        """Return the sum without the group mask. `included` must be the whole key set."""
        return self._group.open(total, context, {self._first: included[self._first]})


class _Pair(Secret):
    """Keystreams of two clients, in the order of the plan."""

    __slots__ = ("_names", "_streams")

    def __init__(self, pair_key: bytes, earlier: str, later: str) -> None:
        self._streams = Keystreams(pair_key, _PAIR_LABEL)
        self._names = name_field(earlier) + name_field(later)

    def keystream(self, context: MaskContext, n_bytes: int) -> bytes:
        return self._streams.of(context.before + self._names + context.after, n_bytes)


def upload_field(client: str, nonce: bytes) -> bytes:
    """Return the field that distinguishes the uploads of one round.

    It consists of the client's name, with its length, and the nonce.
    """
    check_length("upload_nonce", nonce, UPLOAD_NONCE_BYTES)
    return name_field(client) + nonce


@lru_cache(
    maxsize=2048
)  # more than a plan has clients; every client asks for every other in every round
def name_field(name: str) -> bytes:
    """Return a client's name, preceded by its length."""
    return length_prefixed(encode_name(name))


def encode_name(name: str) -> bytes:
    """Return a client's name in UTF-8, 1 to 255 bytes."""
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise LocalProtocolError("a client's name is not valid Unicode text") from None
    if not 1 <= len(encoded) <= MAX_NAME_BYTES:
        raise LocalProtocolError(
            f"a client's name has {len(encoded)} bytes; expected 1 to {MAX_NAME_BYTES}"
        )
    return encoded


def check_length(name: str, value: bytes, length: int) -> None:
    """Raise an error unless the field called `name` has exactly `length` bytes."""
    if len(value) != length:
        raise LocalProtocolError(f"{name} must be exactly {length} bytes")
