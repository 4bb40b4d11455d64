"""A signature holds for its message and signer, a confirmation for exactly how a client ended;
private keys show nowhere.
"""

import copy
import pickle
from collections.abc import Callable
from typing import Any, TypedDict

import msgspec
import pytest

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.secagg.keys import (
    CONFIRMATION_BYTES,
    SIGNATURE_BYTES,
    Ending,
    Identity,
    verify,
)
from fastlloyd.federation.secagg.masks import GroupKey, RoundContext


class EndingOf(TypedDict):
    name: str
    transcript_hash: bytes
    centroids_digest: bytes
    plan_digest: bytes
    run_id: bytes


def repeated(byte: int) -> Callable[[int], bytes]:
    return lambda n: bytes([byte] * n)


KEY = GroupKey(bytes(range(32)))
ENDING = EndingOf(
    name="alice",
    transcript_hash=bytes([1] * 32),
    centroids_digest=bytes([2] * 32),
    plan_digest=bytes([3] * 32),
    run_id=bytes([4] * 16),
)

# ------------------------------------------------------------------ identities


def test_w13_a_signature_holds_for_its_message_and_signer_only() -> None:
    signer, other = Identity.draw(repeated(7)), Identity.draw(repeated(8))
    signature = signer.sign(b"hello")
    assert len(signature) == SIGNATURE_BYTES
    verify(signer.public, signature, b"hello")
    refused = [
        (other.public, signature, b"hello"),
        (signer.public, signature, b"hello\0"),
        (signer.public, signature, b""),
        (signer.public, other.sign(b"hello"), b"hello"),
        (signer.public, signature[:-1], b"hello"),
        (signer.public, signature + b"\0", b"hello"),
        (signer.public, b"", b"hello"),
        (signer.public[:-1], signature, b"hello"),
        (b"", signature, b"hello"),
    ]
    refused += [
        (signer.public, (int.from_bytes(signature) ^ 1 << bit).to_bytes(64), b"hello")
        for bit in range(512)
    ]
    for public, wrong, message in refused:
        with pytest.raises(RemoteProtocolError, match="signature does not"):
            verify(public, wrong, message)


def test_a_refused_signature_says_nothing_of_its_cause() -> None:
    for public in (bytes(5), bytes(32)):
        with pytest.raises(RemoteProtocolError) as refusal:
            verify(public, bytes(64), b"")
        # Nothing chained: a cause could carry what the sentence leaves out.
        assert refusal.value.__cause__ is None
        assert refusal.value.__suppress_context__


def test_an_identity_is_stored_and_restored() -> None:
    key = Identity.generate()
    assert Identity.from_private_bytes(key.private_bytes()).public == key.public
    assert len(key.public) == len(key.private_bytes()) == 32
    assert Identity.generate().public != key.public
    for n_bytes in (0, 31, 33):
        with pytest.raises(LocalProtocolError, match="private key must"):
            Identity.from_private_bytes(bytes(n_bytes))


def test_a_drawn_identity_is_exactly_what_the_randomness_gave() -> None:
    assert Identity.draw(repeated(9)).private_bytes() == bytes([9] * 32)


def test_an_identity_shows_and_copies_itself_nowhere() -> None:
    key = Identity.draw(lambda n: b"a secret nobody else shall see.."[:n])
    for text in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert "Identity(<secret>)" in text
        assert "nobody" not in text
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="Identity is secret"):
            leak(key)
    with pytest.raises(TypeError):
        msgspec.json.encode(key)


# --------------------------------------------------------------- confirmations


def ending(key: GroupKey, *, centroids_digest: bytes, **context: bytes) -> Ending:
    return Ending(key, RoundContext(round=4, **context), centroids_digest)


def confirmation(key: GroupKey, *, name: str, **ended: bytes) -> bytes:
    return ending(key, **ended).confirmation(name)


def accepted(tag: bytes, key: GroupKey, *, name: str, **ended: bytes) -> bool:
    return ending(key, **ended).differing({name: tag}) == []


def test_a_confirmation_is_accepted_for_exactly_what_it_says() -> None:
    tag = confirmation(KEY, **ENDING)
    assert len(tag) == CONFIRMATION_BYTES == 32
    assert accepted(tag, KEY, **ENDING)
    assert tag == confirmation(GroupKey(KEY.secret), **ENDING)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "bob"},
        {"transcript_hash": bytes(32)},
        {"centroids_digest": bytes(32)},
        {"plan_digest": bytes(32)},
        {"run_id": bytes(16)},
        {
            "transcript_hash": ENDING["centroids_digest"],
            "centroids_digest": ENDING["transcript_hash"],
        },
    ],
    ids="+".join,
)
def test_a_confirmation_of_anything_else_is_not_accepted(wrong: dict[str, Any]) -> None:
    other = {**ENDING, **wrong}
    assert not accepted(confirmation(KEY, **ENDING), KEY, **other)


def test_a_changed_confirmation_or_one_under_another_key_is_not_accepted() -> None:
    tag = confirmation(KEY, **ENDING)
    for bit in range(256):
        assert not accepted((int.from_bytes(tag) ^ 1 << bit).to_bytes(32), KEY, **ENDING)
    for wrong in (b"", tag[:-1], tag + b"\0"):
        assert not accepted(wrong, KEY, **ENDING)
    assert not accepted(tag, GroupKey(bytes(32)), **ENDING)


@pytest.mark.parametrize("field", ["transcript_hash", "centroids_digest", "plan_digest", "run_id"])
def test_a_confirmation_over_a_field_of_another_size_is_refused_by_name(field: str) -> None:
    wrong: dict[str, Any] = {**ENDING, field: bytes(33)}
    with pytest.raises(LocalProtocolError, match=field):
        confirmation(KEY, **wrong)


def test_many_confirmations_are_those_of_each_one() -> None:
    ended: dict[str, Any] = {field: value for field, value in ENDING.items() if field != "name"}
    names = ["alice", "bob", "ward-3", "x" * 64]
    one = ending(KEY, **ended)
    tags = {name: one.confirmation(name) for name in names}
    assert tags == {name: confirmation(KEY, name=name, **ended) for name in names}
    assert one.differing(tags) == []
    swapped = tags | {"bob": tags["alice"], "ward-3": b""}
    assert one.differing(swapped) == ["bob", "ward-3"]
