"""Positions of clients' stores, signed by the clients.

A store is a chain of events. Its position consists of the number of events (length) and the hash of
the last one (head). A server remembers the positions of clients' stores, and the next plan can
carry them to another server. A position states "my store had this head at this length". This
statement is true in every run and at every server, so the signature covers neither run nor server.
If a third party shows an old position again, it is still a true statement about an earlier moment.
A server that knows a later position ignores the old position. Any other server learns that the
store has at least this length.
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

HEADING: Final = "# Signed positions of clients' stores"  # first words of every such file
MAX_EVENTS: Final = 1 << 32  # a store with more events would be larger than its disk
_LABEL: Final = b"fastlloyd/v1/position"
_TEXT: Final = (
    "To be put into the next plan with --positions. It says how many events each client's store"
    " has; nothing else."
)

Length = Annotated[int, Meta(ge=0, le=MAX_EVENTS)]
HexHead = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
HexSignature = Annotated[str, Meta(pattern=r"\A[0-9a-f]{128}\Z")]


class SignedPosition(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Position of a client's store, signed by the client.

    length : number of events in the store.
    head : hash of the last event, 32 bytes.
    signature : signature of the client's identity, 64 bytes.
    """

    length: Length
    head: Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    signature: Annotated[bytes, Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]

    @classmethod
    def of(cls, length: int, head: bytes, identity: Identity) -> Self:
        """Return a position signed by `identity`, the identity of the store's client."""
        return cls(length, head, identity.sign(_statement(length, head)))

    def check(self, signing_key: bytes) -> None:
        """Raise RemoteProtocolError unless the owner of this public key (32 bytes) signed the
        position.
        """
        verify(signing_key, self.signature, _statement(self.length, self.head))


class KnownStore(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signed position in a plan: as `SignedPosition`, but head and signature are hex digits."""

    length: Length
    head: HexHead
    signature: HexSignature

    @classmethod
    def of(cls, position: SignedPosition) -> Self:
        """Return the position with head and signature as hex digits."""
        return cls(
            length=position.length, head=position.head.hex(), signature=position.signature.hex()
        )

    def check(self, signing_key: str, name: str) -> None:
        """Raise PlanError unless client `name` signed the position.

        signing_key : public signing key of the client, 64 hex digits.
        """
        try:
            signed = SignedPosition(
                self.length, bytes.fromhex(self.head), bytes.fromhex(self.signature)
            )
            signed.check(bytes.fromhex(signing_key))
        except RemoteProtocolError:
            raise PlanError(
                f"the position of the store of {name!r} is not signed with the key of {name!r};"
                " get the original from the server's operator"
            ) from None


class KnownStoreOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signed position, with its client.

    name : name of the client when the position was seen.
    signing_key : public signing key of the client, 64 hex digits.
    store : the position.
    """

    name: str
    signing_key: Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
    store: KnownStore

    def __post_init__(self) -> None:
        self.store.check(self.signing_key, self.name)


class Positions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of the file `positions.toml`, which the operator of a server exports.

    clients : newest position of each client that the server has seen.
    """

    clients: tuple[KnownStoreOf, ...]

    def to_toml(self) -> str:
        """Return the text of the file `positions.toml`."""
        return to_toml(self, f"{HEADING[2:]}\n{_TEXT}")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the file at `path`.

        Raises PlanError if it is another kind of file, was changed, or contains a position that its
        client did not sign.
        """
        text = load_text(path)
        if not text.startswith(HEADING):
            raise PlanError(
                f"{path} has no positions; pass a file that `fastlloyd ledger positions"
                " SERVER.store --out` made"
            )
        return from_toml(text, cls, str(path))


def newest(known: Iterable[tuple[str, KnownStore]]) -> Mapping[str, KnownStore]:
    """Return the longest position for each signing key.

    known : pairs of signing key (64 hex digits) and position.

    Raises PlanError if a key signed two positions of the same length. Then two copies of a store
    were used.
    """
    found: dict[str, KnownStore] = {}
    for key, store in known:
        other = found.setdefault(key, store)
        if store.length == other.length and store.head != other.head:
            raise PlanError(
                f"the identity with signing key {key[:16]}... signed two different"
                f" positions after {store.length} events, so two copies of its store were used;"
                " its party needs a new identity"
            )
        if store.length > other.length:
            found[key] = store
    return found


def _statement(length: int, head: bytes) -> bytes:
    return length_prefixed(_LABEL, length.to_bytes(8, "big"), head)
