"""A sealed group key opens for its recipient in its run and for nothing else; signatures and confirmations likewise."""

import copy
import pickle
from collections.abc import Callable
from typing import Any, TypedDict

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.secagg.keys import (
    CONFIRMATION_BYTES,
    SEALED_BYTES,
    SIGNATURE_BYTES,
    Ending,
    EphemeralKey,
    Identity,
    KeyPassage,
    verify,
)
from fastlloyd.federation.secagg.masks import GroupKey, RoundContext


class Binding(TypedDict):
    plan_digest: bytes
    run_id: bytes
    sender_name: str
    recipient_name: str


class EndingOf(TypedDict):
    name: str
    transcript_hash: bytes
    centroids_digest: bytes
    plan_digest: bytes
    run_id: bytes


def seal(key: GroupKey, *, sender: EphemeralKey, recipient_public: bytes, **binding: Any) -> bytes:
    return KeyPassage(sender_public=sender.public, recipient_public=recipient_public, **binding).seal(key, sender)


def open_sealed(box: bytes, *, recipient: EphemeralKey, sender_public: bytes, **binding: Any) -> GroupKey:
    return KeyPassage(sender_public=sender_public, recipient_public=recipient.public, **binding).open(box, recipient)


def repeated(byte: int) -> Callable[[int], bytes]:
    return lambda n: bytes([byte] * n)


KEY = GroupKey(bytes(range(32)))
ALICE, BOB, CAROL = (EphemeralKey.draw(repeated(byte)) for byte in (1, 2, 3))
BINDING = Binding(plan_digest=bytes(32), run_id=bytes(16), sender_name="alice", recipient_name="bob")
BOX = seal(KEY, sender=ALICE, recipient_public=BOB.public, **BINDING)
ENDING = EndingOf(
    name="alice",
    transcript_hash=bytes([1] * 32),
    centroids_digest=bytes([2] * 32),
    plan_digest=bytes([3] * 32),
    run_id=bytes([4] * 16),
)
DOES_NOT_OPEN = "the sealed group key does not open"
SMALL_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]

# -------------------------------------------------------------- sealing a key


def test_the_recipient_opens_exactly_the_sealed_key() -> None:
    assert len(BOX) == SEALED_BYTES == 60
    assert open_sealed(BOX, recipient=BOB, sender_public=ALICE.public, **BINDING) == KEY
    assert KEY.secret not in BOX


@given(
    secret=st.binary(min_size=32, max_size=32),
    names=st.tuples(st.text("ab\0", min_size=1, max_size=60), st.text(min_size=1, max_size=60)),
)
def test_opening_undoes_sealing_for_every_key_and_name(secret: bytes, names: tuple[str, str]) -> None:
    binding = Binding(plan_digest=bytes(32), run_id=bytes(16), sender_name=names[0], recipient_name=names[1])
    try:
        binding["recipient_name"].encode()
    except UnicodeEncodeError:
        with pytest.raises(LocalProtocolError, match="not valid Unicode"):
            seal(GroupKey(secret), sender=ALICE, recipient_public=BOB.public, **binding)
        return
    box = seal(GroupKey(secret), sender=ALICE, recipient_public=BOB.public, **binding)
    assert open_sealed(box, recipient=BOB, sender_public=ALICE.public, **binding).secret == secret


@pytest.mark.parametrize(
    "wrong",
    [
        {"plan_digest": bytes(31) + b"\1"},
        {"run_id": bytes(15) + b"\1"},
        {"sender_name": "carol"},
        {"recipient_name": "carol"},
        {"sender_name": "bob", "recipient_name": "alice"},
        {"sender_name": "aliceb", "recipient_name": "ob"},
        {"sender_name": "alice\0"},
    ],
    ids=repr,
)
def test_w12_a_box_made_for_another_plan_run_or_pair_of_names_does_not_open(wrong: dict[str, Any]) -> None:
    with pytest.raises(RemoteProtocolError, match=DOES_NOT_OPEN):
        open_sealed(BOX, recipient=BOB, sender_public=ALICE.public, **{**BINDING, **wrong})


def test_a_box_opens_for_no_other_recipient_and_from_no_other_sender() -> None:
    for recipient, sender_public in ((CAROL, ALICE.public), (BOB, CAROL.public), (ALICE, ALICE.public)):
        with pytest.raises(RemoteProtocolError, match=DOES_NOT_OPEN):
            open_sealed(BOX, recipient=recipient, sender_public=sender_public, **BINDING)


def test_a_box_sent_back_to_its_sender_does_not_open() -> None:
    # X25519 gives both directions of a pair one secret; the keys of the boxes differ all the same.
    with pytest.raises(RemoteProtocolError, match=DOES_NOT_OPEN):
        open_sealed(BOX, recipient=ALICE, sender_public=BOB.public, **BINDING)


def test_every_flipped_bit_of_a_box_is_noticed() -> None:
    for bit in range(8 * SEALED_BYTES):
        changed = (int.from_bytes(BOX) ^ 1 << bit).to_bytes(SEALED_BYTES)
        with pytest.raises(RemoteProtocolError, match=DOES_NOT_OPEN):
            open_sealed(changed, recipient=BOB, sender_public=ALICE.public, **BINDING)


@pytest.mark.parametrize("box", [b"", BOX[:-1], BOX + b"\0", BOX[:12], bytes(1000)], ids=len)
def test_a_box_of_another_length_is_refused(box: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=f"60 bytes long, not {len(box)}$"):
        open_sealed(box, recipient=BOB, sender_public=ALICE.public, **BINDING)


@pytest.mark.parametrize("public", SMALL_ORDER)
def test_a_public_key_that_fixes_the_shared_secret_is_refused(public: str) -> None:
    # RFC 7748, section 6.1: the points of small order make the shared secret all zero, whoever holds the other key.
    with pytest.raises(RemoteProtocolError, match="not a valid X25519 key"):
        seal(KEY, sender=ALICE, recipient_public=bytes.fromhex(public), **BINDING)
    with pytest.raises(RemoteProtocolError, match="not a valid X25519 key"):
        open_sealed(BOX, recipient=BOB, sender_public=bytes.fromhex(public), **BINDING)


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(33)], ids=len)
def test_a_public_key_of_another_length_is_refused(public: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not a valid X25519 key"):
        ALICE.shared_secret(public)


def test_sealing_twice_gives_the_same_bytes_and_another_key_another_nonce() -> None:
    # A dealer that crashed before its boxes were durable draws a new group key under the same X25519 keys: one nonce
    # for both would give the difference of the keys away.
    assert seal(KEY, sender=ALICE, recipient_public=BOB.public, **BINDING) == BOX
    other = seal(GroupKey(bytes(32)), sender=ALICE, recipient_public=BOB.public, **BINDING)
    assert other[:12] != BOX[:12]
    difference = bytes(a ^ b for a, b in zip(other[12:44], BOX[12:44], strict=True))
    assert difference != KEY.secret
    for changed in ({"run_id": bytes([1] * 16)}, {"plan_digest": bytes([1] * 32)}, {"recipient_name": "carol"}):
        binding: dict[str, Any] = {**BINDING, **changed}
        elsewhere = seal(KEY, sender=ALICE, recipient_public=BOB.public, **binding)
        assert elsewhere[:12] != BOX[:12]
        assert elsewhere[12:44] != BOX[12:44]


@pytest.mark.parametrize("wrong", [{"plan_digest": b""}, {"run_id": bytes(8)}, {"sender_name": ""}], ids=repr)
def test_own_fields_of_another_size_are_refused_by_name(wrong: dict[str, Any]) -> None:
    for attempt in (
        lambda: seal(KEY, sender=ALICE, recipient_public=BOB.public, **{**BINDING, **wrong}),
        lambda: open_sealed(BOX, recipient=BOB, sender_public=ALICE.public, **{**BINDING, **wrong}),
    ):
        with pytest.raises(LocalProtocolError, match="name" if "sender_name" in wrong else next(iter(wrong))):
            attempt()


def test_no_refusal_shows_a_key() -> None:
    for attempt in (
        lambda: open_sealed(BOX[:-1] + b"\0", recipient=BOB, sender_public=ALICE.public, **BINDING),
        lambda: open_sealed(BOX, recipient=BOB, sender_public=bytes(32), **BINDING),
        lambda: verify(bytes(5), bytes(64), b""),
    ):
        with pytest.raises(RemoteProtocolError) as refusal:
            attempt()
        # Nothing chained: a cause could carry what the sentence leaves out.
        assert refusal.value.__cause__ is None
        assert refusal.value.__suppress_context__
        assert not any(secret.hex() in str(refusal.value) for secret in (KEY.secret, BOB.private_bytes()))


def test_the_plaintext_of_a_box_is_checked_to_be_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChaCha20Poly1305, "decrypt", lambda *_: bytes(31), raising=True)
    with pytest.raises(LocalProtocolError, match="the group key must be exactly 32 bytes"):
        open_sealed(BOX, recipient=BOB, sender_public=ALICE.public, **BINDING)


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
    refused += [(signer.public, (int.from_bytes(signature) ^ 1 << bit).to_bytes(64), b"hello") for bit in range(512)]
    for public, wrong, message in refused:
        with pytest.raises(RemoteProtocolError, match="a signature does not belong"):
            verify(public, wrong, message)


KEY_KINDS = pytest.mark.parametrize("kind", [Identity, EphemeralKey])


@KEY_KINDS
def test_private_keys_are_stored_and_restored(kind: type[Identity] | type[EphemeralKey]) -> None:
    key = kind.generate()
    assert kind.from_private_bytes(key.private_bytes()).public == key.public
    assert len(key.public) == len(key.private_bytes()) == 32
    assert kind.generate().public != key.public
    for n_bytes in (0, 31, 33):
        with pytest.raises(LocalProtocolError, match="the private key must be exactly 32 bytes"):
            kind.from_private_bytes(bytes(n_bytes))


@KEY_KINDS
def test_a_drawn_private_key_is_exactly_what_the_randomness_gave(kind: type[Identity] | type[EphemeralKey]) -> None:
    assert kind.draw(repeated(9)).private_bytes() == bytes([9] * 32)


@KEY_KINDS
def test_private_keys_show_and_copy_themselves_nowhere(kind: type[Identity] | type[EphemeralKey]) -> None:
    key = kind.draw(lambda n: b"a secret nobody else shall see.."[:n])
    for text in (repr(key), str(key), f"{key}", f"{[key]}"):
        assert f"{kind.__name__}(<secret>)" in text
        assert "nobody" not in text
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=f"{kind.__name__} is secret"):
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
        {"transcript_hash": ENDING["centroids_digest"], "centroids_digest": ENDING["transcript_hash"]},
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
