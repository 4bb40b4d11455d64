"""Mistakes that are planted into the parsers, so that the campaign shows that it finds each kind of
fault.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fuzz_documents
from fastlloyd.base import sealed_toml
from fastlloyd.errors import IdentityError
from fastlloyd.federation.identity import identity, x509
from fastlloyd.federation.protocol import messages
from fastlloyd.federation.protocol.messages import Broadcast, Limits, Upload


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A mistake in what a target reads; the fuzzer must find it within so many executions, and so
    that it says `shown`.
    """

    target: str
    plant: Callable[[], None]
    shown: str
    executions: int


class _LikeAnything:
    def __ne__(self, other: object) -> bool:
        return False

    def __getitem__(self, part: slice) -> str:
        return ""


def _another_encoding_is_accepted() -> None:
    def encode(message: messages.Message) -> Any:
        return _LikeAnything()

    messages.encode = encode


def _a_round_that_is_not_there() -> None:
    def check_payload(self: Limits, message: Upload | Broadcast) -> None:
        assert len(message.payload) == self.payload_bytes[message.round - 1] or True

    Limits.check_payload = check_payload  # type: ignore[method-assign]  # the mistake


def _text_that_is_none() -> None:
    # another error is caught in its place
    messages.UnicodeDecodeError = ZeroDivisionError  # type: ignore[attr-defined]


def _memory_for_what_is_claimed() -> None:
    genuine = messages.decode

    def decode(data: bytes, limits: Limits) -> messages.Message:
        if data[1:2] == b"\xdd":  # an array whose length is four bytes
            bytearray(int.from_bytes(data[2:6], "big"))
        return genuine(data, limits)

    messages.decode = decode


def _a_loop_without_end() -> None:
    genuine = Broadcast.check_members

    def check_members(self: Broadcast, n_clients: int) -> None:
        bits = int.from_bytes(self.members, "little")
        for n in itertools.count():
            if n >= n_clients and not bits >> n_clients:
                break
        genuine(self, n_clients)

    Broadcast.check_members = check_members  # type: ignore[method-assign]  # the mistake


class _Digest(bytes):
    def hex(self, *_: Any) -> Any:
        return _LikeAnything()


def _a_digest_that_is_not_compared() -> None:
    def digest(document: object) -> bytes:
        return _Digest()

    sealed_toml.digest = digest


class _Unsigned:
    def __init__(self, certificate: Any) -> None:
        self._certificate = certificate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._certificate, name)

    def verify_directly_issued_by(self, issuer: object) -> None:
        pass


def _a_signature_that_is_not_checked() -> None:
    genuine = x509.is_ours
    # the mistake
    x509.is_ours = lambda found, *who: genuine(_Unsigned(found), *who)  # type: ignore[arg-type]


def _keys_in_a_refusal() -> None:
    def damaged(path: Path) -> IdentityError:
        return IdentityError(f"{path} holds {fuzz_documents.SECRET.hex()}, which is damaged")

    identity._damaged = damaged


MUTANTS: dict[str, Mutant] = {
    "another encoding is accepted": Mutant(
        target="Confirmations",
        plant=_another_encoding_is_accepted,
        shown="another encoding of a message was accepted",
        executions=100_000,
    ),
    "an IndexError for a round that is not there": Mutant(
        target="Upload", plant=_a_round_that_is_not_there, shown="IndexError", executions=100_000
    ),
    "a UnicodeDecodeError for text that is none": Mutant(
        target="Abort", plant=_text_that_is_none, shown="UnicodeDecodeError", executions=100_000
    ),
    "memory for what a length claims": Mutant(
        target="Deal", plant=_memory_for_what_is_claimed, shown="MemoryError", executions=100_000
    ),
    "a loop without end": Mutant(
        target="Broadcast", plant=_a_loop_without_end, shown="SIGVTALRM", executions=100_000
    ),
    "a digest that is not compared": Mutant(
        target="plans",
        plant=_a_digest_that_is_not_compared,
        shown="whose digest is another's",
        executions=5_000,
    ),
    "a signature that is not checked": Mutant(
        target="certificates",
        plant=_a_signature_that_is_not_checked,
        shown="InvalidSignature",
        executions=20_000,
    ),
    "keys in a refusal": Mutant(
        target="private files",
        plant=_keys_in_a_refusal,
        shown="a refusal shows the keys",
        executions=5_000,
    ),
}
"""By what the mistake is."""
