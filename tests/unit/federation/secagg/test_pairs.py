"""Two clients agree on a pair key exactly if they agree on everything else; it needs both ML-KEM
and X25519.

The second routes: ML-KEM from FIPS 203 (tests/support/ml_kem.py), HKDF from RFC 5869 and `hmac`.
"""

import copy
import dataclasses
import hashlib
import hmac
import json
import pickle
import sys
from typing import Any, NoReturn

import msgspec
import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import mlkem
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

import ml_kem
from clone import VECTORS
from fastlloyd.errors import IdentityError, LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.secagg import pairs
from fastlloyd.federation.secagg.keys import verify
from fastlloyd.federation.secagg.masks import GroupKey
from fastlloyd.federation.secagg.pairs import (
    CHECKED_BYTES,
    CIPHERTEXT_BYTES,
    ENCAPSULATION_KEY_BYTES,
    EXCHANGE_KEY_BYTES,
    RUN_KEYS_BYTES,
    SEALED_BYTES,
    PairContext,
    PairKey,
    RunKeys,
    check_run_keys,
    check_supported,
    encapsulate,
)

VECTOR = json.loads((VECTORS / "pairs.json").read_text())


def keys_of(byte: int) -> RunKeys:
    return RunKeys.draw(lambda n: bytes([byte] * n))


ALICE, BOB, CAROL = map(keys_of, (1, 2, 3))
CONTEXT = PairContext(
    plan_digest=bytes([4] * 32),
    run_id=bytes([5] * 16),
    earlier="alice",
    later="bob",
    earlier_hello=bytes([6] * 32),
    later_hello=bytes([7] * 32),
)
KEM_SECRET, CIPHERTEXT = ml_kem.encapsulate(BOB.encapsulation_key, bytes([8] * 32))
GROUP_KEY = GroupKey(bytes(range(32)))
DEAL = bytes([9] * 32)


def of_alice(context: PairContext = CONTEXT) -> PairKey:
    exchange_secret = ALICE.exchange(BOB.exchange_key)
    return PairKey.agree(
        context, exchange_secret=exchange_secret, kem_secret=KEM_SECRET, ciphertext=CIPHERTEXT
    )


def of_bob(
    message: bytes,
    context: PairContext = CONTEXT,
    *,
    keys: RunKeys = BOB,
    partner: bytes = ALICE.exchange_key,
) -> PairKey:
    """What the later client derives from a message, before it checks it."""
    ciphertext = message[:CIPHERTEXT_BYTES]
    kem_secret = keys.decapsulate(ciphertext)
    return PairKey.agree(
        context,
        exchange_secret=keys.exchange(partner),
        kem_secret=kem_secret,
        ciphertext=ciphertext,
    )


KEY = of_alice()
MESSAGE = KEY.message(CIPHERTEXT)
BOX = KEY.seal(GROUP_KEY, DEAL)


def flipped(field: bytes, bit: int) -> bytes:
    return (int.from_bytes(field) ^ 1 << bit).to_bytes(len(field))


def exchanging(private: str) -> RunKeys:
    return RunKeys.from_private_bytes(bytes.fromhex(private) + bytes(96))


# --------------------------------------------------------------- known answers


def test_what_is_encapsulated_opens_by_the_second_route() -> None:
    private = ml_kem.keys(bytes([2] * 64))[1]
    for _ in range(5):
        secret, ciphertext = encapsulate(BOB.encapsulation_key)
        assert len(ciphertext) == CIPHERTEXT_BYTES
        assert ml_kem.decapsulate(private, ciphertext) == BOB.decapsulate(ciphertext) == secret


def test_keys_are_exchanged_as_in_rfc_7748() -> None:
    # Section 6.1.
    alice = exchanging("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = exchanging("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    assert (
        alice.exchange_key.hex()
        == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    )
    assert (
        bob.exchange_key.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    )
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert (
        alice.exchange(bob.exchange_key).hex() == bob.exchange(alice.exchange_key).hex() == shared
    )
    # Section 5.2, first vector.
    scalar = exchanging("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert (
        scalar.exchange(point).hex()
        == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    )


def test_the_run_key_signs_as_in_rfc_8032() -> None:
    # Section 7.1, test 2.
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    keys = RunKeys.from_private_bytes(bytes(96) + seed)
    assert keys.run_key.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    signature = keys.sign(b"\x72")
    assert (
        signature.hex() == "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    verify(keys.run_key, signature, b"\x72")


def block(key: bytes, *parts: bytes) -> bytes:
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def field(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def by_hand(vector: dict[str, str], kem_secret: bytes, exchange_secret: bytes) -> dict[str, str]:
    """All that a pair derives, from RFC 5869 and the order of the fields."""
    names = field(vector["earlier"].encode()) + field(vector["later"].encode())
    run = (
        field(bytes.fromhex(vector["plan_digest"])) + field(bytes.fromhex(vector["run_id"])) + names
    )
    hellos = field(bytes.fromhex(vector["earlier_hello"])) + field(
        bytes.fromhex(vector["later_hello"])
    )
    ciphertext, group_key = bytes.fromhex(vector["ciphertext"]), bytes.fromhex(vector["group_key"])
    label = b"fastlloyd/v1/pair-key"
    info = field(label) + run + hellos + field(ciphertext)
    extracted = block(label, kem_secret, exchange_secret)
    pair_key = block(extracted, info, b"\x01")
    mac_key = block(extracted, pair_key, info, b"\x02")
    bound = run + field(bytes.fromhex(vector["deal"]))
    box_key = block(pair_key, b"fastlloyd/v1/pair-box", bound, b"\x01")
    nonce = block(block(pair_key, b"fastlloyd/v1/nonce-of-pair-box", bound, b"\x01"), group_key)[
        :12
    ]
    box = nonce + ChaCha20Poly1305(box_key).encrypt(nonce, group_key, bound)
    return {"pair_key": pair_key.hex(), "mac": block(mac_key, ciphertext).hex(), "box": box.hex()}


def test_the_hybrid_derivation_gives_the_recorded_answer_by_two_routes() -> None:
    earlier, later = (
        RunKeys.from_private_bytes(bytes.fromhex(VECTOR[keys]))
        for keys in ("earlier_keys", "later_keys")
    )
    kem_secret, ciphertext = ml_kem.encapsulate(later.encapsulation_key, bytes.fromhex(VECTOR["m"]))
    assert ciphertext.hex() == VECTOR["ciphertext"]
    exchange_secret = earlier.exchange(later.exchange_key)
    expected = {name: VECTOR[name] for name in ("pair_key", "mac", "box")}
    assert by_hand(VECTOR, kem_secret, exchange_secret) == expected

    context = PairContext(
        earlier=VECTOR["earlier"],
        later=VECTOR["later"],
        **{
            name: bytes.fromhex(VECTOR[name])
            for name in ("plan_digest", "run_id", "earlier_hello", "later_hello")
        },
    )
    key = PairKey.agree(
        context, exchange_secret=exchange_secret, kem_secret=kem_secret, ciphertext=ciphertext
    )
    assert key.secret.hex() == expected["pair_key"]
    assert key.message(ciphertext).hex() == VECTOR["ciphertext"] + expected["mac"]
    assert (
        key.seal(GroupKey(bytes.fromhex(VECTOR["group_key"])), bytes.fromhex(VECTOR["deal"])).hex()
        == expected["box"]
    )
    assert (
        of_bob(key.message(ciphertext), context, keys=later, partner=earlier.exchange_key).secret
        == key.secret
    )


# ------------------------------------------------------------------ agreement


@given(
    earlier_keys=st.binary(min_size=RUN_KEYS_BYTES, max_size=RUN_KEYS_BYTES),
    later_keys=st.binary(min_size=RUN_KEYS_BYTES, max_size=RUN_KEYS_BYTES),
    names=st.lists(
        st.text("ab\0\u00e9", min_size=1, max_size=60), min_size=2, max_size=2, unique=True
    ),
    group_key=st.binary(min_size=32, max_size=32),
)
def test_both_sides_agree(
    earlier_keys: bytes, later_keys: bytes, names: list[str], group_key: bytes
) -> None:
    earlier, later = (
        RunKeys.from_private_bytes(earlier_keys),
        RunKeys.from_private_bytes(later_keys),
    )
    check_run_keys(later.exchange_key, later.encapsulation_key, later.run_key)
    context = dataclasses.replace(CONTEXT, earlier=names[0], later=names[1])
    kem_secret, ciphertext = encapsulate(later.encapsulation_key)
    exchange_secret = earlier.exchange(later.exchange_key)
    key = PairKey.agree(
        context, exchange_secret=exchange_secret, kem_secret=kem_secret, ciphertext=ciphertext
    )
    message = key.message(ciphertext)
    assert len(message) == CHECKED_BYTES
    received = of_bob(message, context, keys=later, partner=earlier.exchange_key)
    received.check(message)
    assert received.secret == key.secret
    assert received.open(key.seal(GroupKey(group_key), DEAL), DEAL).secret == group_key


def refused(key: PairKey) -> None:
    """Bob derived this in place of `KEY`: the message does not fit, no box opens, and its masks
    would not cancel.
    """
    assert key.secret != KEY.secret
    with pytest.raises(RemoteProtocolError, match="'alice'"):
        key.check(MESSAGE)
    with pytest.raises(RemoteProtocolError, match="'alice'"):
        key.open(BOX, DEAL)


@given(bit=st.integers(0, 8 * CHECKED_BYTES - 1))
def test_every_flipped_bit_of_a_message_is_noticed(bit: int) -> None:
    message = flipped(MESSAGE, bit)
    with pytest.raises(RemoteProtocolError, match="'alice'"):
        of_bob(message).check(message)
    with pytest.raises(RemoteProtocolError, match="'alice'"):
        KEY.check(message)


def test_every_flipped_bit_of_the_hmac_is_noticed() -> None:
    of_bob(MESSAGE).check(MESSAGE)
    for bit in range(256):  # the last 32 bytes of the message
        with pytest.raises(RemoteProtocolError, match="'alice'"):
            KEY.check(flipped(MESSAGE, bit))


@pytest.mark.parametrize("name", ["plan_digest", "run_id", "earlier_hello", "later_hello"])
def test_every_bit_of_what_both_must_agree_on_enters_the_key(name: str) -> None:
    right: bytes = getattr(CONTEXT, name)
    for bit in range(8 * len(right)):
        wrong: dict[str, Any] = {name: flipped(right, bit)}
        refused(of_bob(MESSAGE, dataclasses.replace(CONTEXT, **wrong)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"later": "carol"},
        {"later": "bob\0"},
        {"earlier_hello": CONTEXT.later_hello, "later_hello": CONTEXT.earlier_hello},
        {"plan_digest": CONTEXT.earlier_hello, "earlier_hello": CONTEXT.plan_digest},
    ],
    ids=repr,
)
def test_a_client_that_sees_another_pair_gets_another_key(wrong: dict[str, Any]) -> None:
    refused(of_bob(MESSAGE, dataclasses.replace(CONTEXT, **wrong)))


@pytest.mark.parametrize(
    "names", [("carol", "bob"), ("bob", "alice"), ("aliceb", "ob"), ("alic", "ebob")], ids=repr
)
def test_both_names_and_their_order_enter_the_key(names: tuple[str, str]) -> None:
    other = of_bob(MESSAGE, dataclasses.replace(CONTEXT, earlier=names[0], later=names[1]))
    assert other.secret != KEY.secret
    for attempt in (lambda: other.check(MESSAGE), lambda: other.open(BOX, DEAL)):
        with pytest.raises(RemoteProtocolError, match=repr(names[0])):
            attempt()


def test_a_ciphertext_for_others_gives_another_key_and_no_error_until_it_is_checked() -> None:
    for wrong in (
        ml_kem.encapsulate(CAROL.encapsulation_key, bytes(32))[1],
        bytes(CIPHERTEXT_BYTES),
        flipped(CIPHERTEXT, 0),
    ):
        assert BOB.decapsulate(wrong) == BOB.decapsulate(wrong) != KEM_SECRET
        key = of_bob(wrong)
        for message in (MESSAGE, KEY.message(wrong), wrong + MESSAGE[CIPHERTEXT_BYTES:]):
            with pytest.raises(RemoteProtocolError, match="'alice'"):
                key.check(message)
    refused(of_bob(MESSAGE, keys=CAROL))


def test_the_key_needs_both_secrets_and_the_ciphertext() -> None:
    right = {
        "exchange_secret": ALICE.exchange(BOB.exchange_key),
        "kem_secret": KEM_SECRET,
        "ciphertext": CIPHERTEXT,
    }
    assert PairKey.agree(CONTEXT, **right).secret == KEY.secret
    for name, value in right.items():
        for bit in range(0, 8 * len(value), 7):
            refused(PairKey.agree(CONTEXT, **{**right, name: flipped(value, bit)}))
    swapped = {**right, "exchange_secret": KEM_SECRET, "kem_secret": right["exchange_secret"]}
    refused(PairKey.agree(CONTEXT, **swapped))
    refused(of_bob(MESSAGE, partner=CAROL.exchange_key))


# --------------------------------------------------------- sealing a group key


def test_the_later_client_opens_exactly_the_sealed_group_key() -> None:
    assert len(BOX) == SEALED_BYTES == 60
    assert of_bob(MESSAGE).open(BOX, DEAL) == GROUP_KEY
    assert GROUP_KEY.secret not in BOX


def test_every_flipped_bit_of_a_box_is_noticed() -> None:
    for bit in range(8 * SEALED_BYTES):
        with pytest.raises(RemoteProtocolError, match="'alice'"):
            KEY.open(flipped(BOX, bit), DEAL)


def test_a_box_of_another_deal_does_not_open() -> None:
    for bit in range(8 * len(DEAL)):
        with pytest.raises(RemoteProtocolError, match="'alice'"):
            KEY.open(BOX, flipped(DEAL, bit))


@pytest.mark.parametrize("box", [b"", BOX[:-1], BOX + b"\0", BOX[:12], bytes(1000)], ids=len)
def test_a_box_of_another_length_is_refused(box: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match=f"60 bytes.*{len(box)}$"):
        KEY.open(box, DEAL)


def test_sealing_twice_gives_the_same_bytes_and_another_group_key_another_nonce() -> None:
    # A dealer deals a fresh group key to every list it is named for, under the same pair keys.
    assert of_alice().seal(GROUP_KEY, DEAL) == BOX
    other = KEY.seal(GroupKey(bytes(32)), DEAL)
    assert other[:12] != BOX[:12]
    assert bytes(a ^ b for a, b in zip(other[12:44], BOX[12:44], strict=True)) != GROUP_KEY.secret


@pytest.mark.parametrize(
    "wrong",
    [
        {"plan_digest": bytes([4] * 31 + [5])},
        {"run_id": bytes([5] * 15 + [6])},
        {"earlier": "carol"},
        {"later": "carol"},
        {"earlier": "bob", "later": "alice"},
        {"earlier": "aliceb", "later": "ob"},
        {"earlier": "alice\0"},
    ],
    ids=repr,
)
def test_w12_a_box_is_bound_to_plan_run_and_names_even_under_one_pair_key(
    wrong: dict[str, Any],
) -> None:
    elsewhere = PairKey(dataclasses.replace(CONTEXT, **wrong), KEY.secret, bytes(32))
    with pytest.raises(RemoteProtocolError, match="cannot be opened"):
        elsewhere.open(BOX, DEAL)
    assert elsewhere.seal(GROUP_KEY, DEAL)[:12] != BOX[:12]
    assert PairKey(CONTEXT, KEY.secret, bytes(32)).open(BOX, DEAL) == GROUP_KEY


def test_no_refusal_shows_a_key() -> None:
    for attempt in (
        lambda: KEY.open(flipped(BOX, 0), DEAL),
        lambda: KEY.check(flipped(MESSAGE, 0)),
        lambda: BOB.exchange(bytes(32)),
        lambda: check_run_keys(bytes(32), BOB.encapsulation_key, BOB.run_key),
    ):
        with pytest.raises(RemoteProtocolError) as refusal:
            attempt()
        # Nothing chained: a cause could carry what the sentence leaves out.
        assert refusal.value.__cause__ is None
        secrets = (GROUP_KEY.secret, KEY.secret, BOB.private_bytes()[:32], KEM_SECRET)
        assert not any(secret.hex() in str(refusal.value) for secret in secrets)


def test_the_plaintext_of_a_box_is_checked_to_be_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChaCha20Poly1305, "decrypt", lambda *_: bytes(31), raising=True)
    with pytest.raises(LocalProtocolError, match="group key must"):
        KEY.open(BOX, DEAL)


# ------------------------------------------------------------------ wrong keys

LOW_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


@pytest.mark.parametrize("public", [*LOW_ORDER, "", "01" * 31, "01" * 33])
def test_an_exchange_key_of_low_order_or_another_length_is_refused(public: str) -> None:
    # RFC 7748, section 6.1: the points of low order make the shared secret all zero, whoever holds
    # the other key.
    wrong = bytes.fromhex(public)
    for attempt in (
        lambda: check_run_keys(wrong, BOB.encapsulation_key, BOB.run_key),
        lambda: ALICE.exchange(wrong),
    ):
        with pytest.raises(RemoteProtocolError, match="exchange_key"):
            attempt()


# y of the points of edwards25519 whose order divides 8, and both that have a second encoding; the
# sign of x is the highest bit
LOW_ORDER_OF_EDWARDS = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


@pytest.mark.parametrize("sign", [0, 0x80])
@pytest.mark.parametrize("y", LOW_ORDER_OF_EDWARDS)
def test_a_run_key_under_which_anybody_can_sign_is_refused(y: str, sign: int) -> None:
    """R neutral and S = 0 sign every message whose hash is a multiple of the order: one in 8 at
    least, found by trying.
    """
    low = bytes.fromhex(y)[:31] + bytes([bytes.fromhex(y)[31] | sign])
    with pytest.raises(RemoteProtocolError, match="run_key"):
        check_run_keys(BOB.exchange_key, BOB.encapsulation_key, low)


def test_under_the_neutral_run_key_one_signature_signs_everything() -> None:
    neutral = bytes.fromhex(LOW_ORDER_OF_EDWARDS[1])
    for number in range(5):
        verify(neutral, neutral + bytes(32), b"message %d" % number)


def too_large(position: int) -> bytes:
    """Bob's ML-KEM key with 3329, which stands for zero, as one of its numbers: FIPS 203, section
    7.2, refuses it.
    """
    numbers = int.from_bytes(BOB.encapsulation_key[:1152], "little")
    numbers ^= ((numbers >> 12 * position & 0xFFF) ^ ml_kem.Q) << 12 * position
    return numbers.to_bytes(1152, "little") + BOB.encapsulation_key[1152:]


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        BOB.encapsulation_key[:-1],
        BOB.encapsulation_key + b"\0",
        b"\xff" * 1184,
        too_large(0),
        too_large(767),
    ],
    ids=["empty", "short", "long", "all ones", "first number", "last number"],
)
def test_what_is_no_ml_kem_key_is_refused_without_a_word_about_its_length(wrong: bytes) -> None:
    for attempt in (
        lambda: check_run_keys(BOB.exchange_key, wrong, BOB.run_key),
        lambda: encapsulate(wrong),
    ):
        with pytest.raises(RemoteProtocolError, match="encapsulation_key") as refusal:
            attempt()
        assert "1184" not in str(refusal.value)
        assert refusal.value.__cause__ is None
        assert refusal.value.__suppress_context__


@pytest.mark.parametrize("n_bytes", [0, CIPHERTEXT_BYTES - 1, CIPHERTEXT_BYTES + 1])
def test_a_ciphertext_of_another_length_is_refused(n_bytes: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"1088 bytes.*{n_bytes}$"):
        BOB.decapsulate(bytes(n_bytes))


@pytest.mark.parametrize(
    "wrong", [b"", MESSAGE[:-1], MESSAGE + b"\0", MESSAGE[:CIPHERTEXT_BYTES]], ids=len
)
def test_a_message_of_another_length_is_refused(wrong: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="'alice'"):
        KEY.check(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"plan_digest": b""},
        {"run_id": bytes(8)},
        {"earlier_hello": bytes(31)},
        {"later_hello": bytes(33)},
        {"earlier": "bob"},
        {"later": "alice"},
        {"earlier": ""},
        {"later": "x" * 256},
    ],
    ids=repr,
)
def test_own_fields_of_another_size_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        LocalProtocolError,
        match="client" if wrong.keys() & {"earlier", "later"} else next(iter(wrong)),
    ):
        of_alice(dataclasses.replace(CONTEXT, **wrong))


@pytest.mark.parametrize("name", ["exchange_secret", "kem_secret", "ciphertext"])
def test_secrets_of_another_length_are_refused_by_name(name: str) -> None:
    right = {"exchange_secret": bytes(32), "kem_secret": bytes(32), "ciphertext": CIPHERTEXT}
    for wrong in (b"", right[name][:-1], right[name] + b"\0"):
        with pytest.raises(LocalProtocolError, match=name):
            PairKey.agree(CONTEXT, **{**right, name: wrong})


# ----------------------------------------------------------- keys of their own


def test_run_keys_are_exactly_what_the_randomness_gave_and_are_restored() -> None:
    secret = bytes(range(RUN_KEYS_BYTES))
    keys = RunKeys.draw(lambda n: secret[:n])
    assert keys.private_bytes() == secret
    restored = RunKeys.from_private_bytes(secret)
    for one, other in (
        (keys.exchange_key, restored.exchange_key),
        (keys.run_key, restored.run_key),
    ):
        assert one == other
        assert len(one) == EXCHANGE_KEY_BYTES
    assert keys.encapsulation_key == restored.encapsulation_key == ml_kem.keys(secret[32:96])[0]
    assert len(keys.encapsulation_key) == ENCAPSULATION_KEY_BYTES
    for n_bytes in (0, RUN_KEYS_BYTES - 1, RUN_KEYS_BYTES + 1):
        with pytest.raises(LocalProtocolError, match=r"run.*exactly 128 bytes"):
            RunKeys.from_private_bytes(bytes(n_bytes))


@pytest.mark.parametrize(
    "secret", [RunKeys.draw(lambda n: (b"a secret nobody else shall see.." * 4)[:n]), KEY], ids=repr
)
def test_keys_show_and_copy_themselves_nowhere(secret: RunKeys | PairKey) -> None:
    kind = type(secret).__name__
    for text in (repr(secret), str(secret), f"{secret}", f"{[secret]}"):
        assert f"{kind}(<secret>)" in text
        assert "nobody" not in text
        assert KEY.secret.hex() not in text
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=f"{kind} is secret"):
            leak(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


# ------------------------------------------------------- a library without it


def without_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.mlkem", None)


def without_the_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(data: bytes) -> NoReturn:
        raise UnsupportedAlgorithm("ML-KEM-768 is not supported by this backend.")

    monkeypatch.setattr(mlkem.MLKEM768PrivateKey, "from_seed_bytes", refuse)


@pytest.mark.parametrize("take_away", [without_the_module, without_the_algorithm])
def test_a_library_without_ml_kem_is_named_with_its_version_and_backend(
    take_away: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cryptography.__version__", "47.0.0")
    take_away(monkeypatch)
    pairs.check_supported.cache_clear()
    public = BOB.encapsulation_key
    for attempt in (
        check_supported,
        lambda: keys_of(1),
        lambda: RunKeys.from_private_bytes(bytes(RUN_KEYS_BYTES)),
        lambda: encapsulate(public),
        lambda: check_run_keys(BOB.exchange_key, public, BOB.run_key),
    ):
        with pytest.raises(
            IdentityError, match=r"ML-KEM-768.*47\.0\.0.*SSL.*pip install"
        ) as refusal:
            attempt()
        assert refusal.value.__suppress_context__
    monkeypatch.undo()
    check_supported()
