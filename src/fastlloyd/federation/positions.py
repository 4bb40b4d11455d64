"""Where a client's store stood, signed by its identity: what a server remembers, and the next plan
can carry to another one.

A position says "my store held at this length this head", whoever asks and in whatever run, so the
signature binds no run and no server. A position that is shown again, by anybody to anybody, is a
true one of an earlier moment: whoever has seen a later one forgets nothing, and whoever has seen
none learns that the store is at least that long.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final, Self

import msgspec
from msgspec import Meta

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.base.sealed_toml import from_toml, load_text, to_toml
from fastlloyd.errors import PlanError, RemoteProtocolError
from fastlloyd.federation.secagg.keys import SIGNATURE_BYTES, Identity, verify
from fastlloyd.federation.secagg.masks import DIGEST_BYTES

HEADING: Final = "# Signed positions of clients' stores"  # how every such file begins
MAX_EVENTS: Final = 1 << 32  # no store holds more: it would be larger than its disk
_LABEL: Final = b"fastlloyd/v1/position"
_TEXT: Final = (
    "To be put into the next plan with --positions. It says how many events each client's store"
    " has; nothing else."
)

Length = Annotated[int, Meta(ge=0, le=MAX_EVENTS)]
HexHead = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
HexSignature = Annotated[str, Meta(pattern=r"\A[0-9a-f]{128}\Z")]


class SignedPosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How many events a client's store holds, the head of its chain (32 bytes), and its identity's
    signature (64 bytes).
    """

    length: Length
    head: Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    signature: Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]

    @classmethod
    def of(cls, length: int, head: bytes, identity: Identity) -> Self:
        """Signed by the client whose store it is."""
        return cls(length, head, identity.sign(_statement(length, head)))

    def check(self, signing_key: bytes) -> None:
        """Raise RemoteProtocolError unless the holder of this key (32 bytes) signed it."""
        verify(signing_key, self.signature, _statement(self.length, self.head))


class KnownStore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signed position as a plan carries it: length, and head and signature as hex digits."""

    length: Length
    head: HexHead
    signature: HexSignature

    @classmethod
    def of(cls, position: SignedPosition) -> Self:
        """A signed position with its bytes as hex digits."""
        return cls(
            length=position.length, head=position.head.hex(), signature=position.signature.hex()
        )

    def check(self, signing_key: str, name: str) -> None:
        """Raise PlanError unless it is signed with the key (64 hex digits) of the client of that
        name.
        """
        try:
            signed = SignedPosition(
                self.length, bytes.fromhex(self.head), bytes.fromhex(self.signature)
            )
            signed.check(bytes.fromhex(signing_key))
        except RemoteProtocolError:
            raise PlanError(
                f"the position of the store of {name!r} is not signed with its key; get the"
                " original from the server's operator"
            ) from None


class KnownStoreOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose store it is: the client's name when it was seen, and its signing key (64 hex
    digits).
    """

    name: str
    signing_key: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    store: KnownStore

    def __post_init__(self) -> None:
        self.store.check(self.signing_key, self.name)


class Positions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file `positions.toml`, which the operator of a server exports: the newest position of
    each client it has seen.
    """

    clients: tuple[KnownStoreOf, ...]

    def to_toml(self) -> str:
        """The text of the file."""
        return to_toml(self, f"{HEADING[2:]}\n{_TEXT}")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read such a file; PlanError if it is none, was changed, or holds a position that its
        client did not sign.
        """
        text = load_text(path)
        if not text.startswith(HEADING):
            raise PlanError(
                f"{path} holds no positions; name a file that `fastlloyd ledger positions"
                " SERVER.store --out` made"
            )
        return from_toml(text, cls, str(path))


def newest(known: Iterable[tuple[str, KnownStore]]) -> Mapping[str, KnownStore]:
    """The longest position of each signing key; PlanError if one signed two of a length: two copies
    of a store were used.
    """
    found: dict[str, KnownStore] = {}
    for key, store in known:
        other = found.setdefault(key, store)
        if store.length == other.length and store.head != other.head:
            raise PlanError(
                f"the identity with signing key {key[:16]}... signed two positions of"
                f" {store.length} events: two copies of its store were used; it must go on under a"
                " new identity"
            )
        if store.length > other.length:
            found[key] = store
    return found


def _statement(length: int, head: bytes) -> bytes:
    return length_prefixed(_LABEL, length.to_bytes(8, "big"), head)
