"""Pair masks cancel over the whole key set and over nothing less; the one group mask is the first
client's.

The second route, written straight down: HKDF-Expand by `hmac`, ChaCha20 by the library, integers
modulo 2**w.
"""

import copy
import hmac
import pickle
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from fastlloyd.base import randomness
from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.secagg import masks, pairs
from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks, MaskContext, PairwiseMasks
from fastlloyd.federation.secagg.ring import Ring, RingVector

NAMES = ("north", "east", "south", "west")
GROUP_KEY = GroupKey(bytes(range(32)))
CONTEXT = MaskContext(
    plan_digest=bytes([1] * 32),
    run_id=bytes([2] * 16),
    round=3,
    transcript_hash=bytes([5] * 32),
    centroids_digest=bytes([6] * 32),
)
OTHER_FIELDS: dict[str, Any] = {
    "plan_digest": bytes([1] * 31 + [0]),
    "run_id": bytes([2] * 15 + [3]),
    "round": 4,
    "transcript_hash": bytes([4] + [5] * 31),
    "centroids_digest": bytes([6] * 31 + [7]),
}
NONCES = {name: bytes([i] * 8) for i, name in enumerate(NAMES)}
RINGS = pytest.mark.parametrize("ring", list(Ring))


def pair_key(earlier: str, later: str) -> bytes:
    return hmac.digest(b"pair keys of a test", f"{earlier} {later}".encode(), "sha256")


def keys_of(client: str, names: Sequence[str] = NAMES) -> dict[str, bytes]:
    """The pair keys of one client with all others, the same for both of each two."""
    place = {name: i for i, name in enumerate(names)}
    return {
        other: pair_key(*sorted((client, other), key=place.__getitem__))
        for other in names
        if other != client
    }


def masks_of(
    client: str, ring: Ring, names: Sequence[str] = NAMES, group_key: GroupKey = GROUP_KEY
) -> PairwiseMasks:
    return PairwiseMasks(group_key, ring, names, client, keys_of(client, names))


def hidden(
    client: str, ring: Ring, length: int = 50, context: MaskContext = CONTEXT, **changes: Any
) -> RingVector:
    """What hides `length` zeros of that client."""
    given: dict[str, Any] = {"nonce": NONCES.get(client, bytes(8))} | changes
    nonce = given.pop("nonce")
    return masks_of(client, ring, **given).hide(ring.zeros(length), context, client, nonce)


def summed(ring: Ring, vectors: Iterable[RingVector], length: int = 50) -> RingVector:
    total = ring.zeros(length)
    for vector in vectors:
        total = ring.add(total, vector)
    return total


def looks_uniform(vector: RingVector) -> bool:
    """The share of bits that are set is 1/2 within 6 standard errors."""
    n_bits = 8 * vector.nbytes
    return bool(abs(int(np.bitwise_count(vector).sum()) - n_bits / 2) <= 6 * np.sqrt(n_bits) / 2)


# ------------------------------------------------------------------- the sum


@RINGS
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [0, 50, 40_000])  # 40,000 words are more than a block
def test_the_masks_of_all_clients_leave_the_group_mask_of_the_first(
    ring: Ring, n: int, length: int
) -> None:
    names = NAMES[:n]
    total = summed(ring, (hidden(name, ring, length, names=names) for name in names), length)
    group_mask = GroupMasks(GROUP_KEY, ring).hide(
        ring.zeros(length), CONTEXT, names[0], NONCES[names[0]]
    )
    assert np.array_equal(total, group_mask)
    assert looks_uniform(total)  # this is what hides the sum from the server
    for name in names:
        assert (
            not masks_of(name, ring, names)
            .open(total, CONTEXT, {each: NONCES[each] for each in names})
            .any()
        )


@RINGS
def test_many_clients_need_several_blocks_and_cancel_all_the_same(ring: Ring) -> None:
    names, length = tuple(f"c{i}" for i in range(40)), 2000
    assert len(names) * length * ring.itemsize > 2 * masks._BLOCK_BYTES
    total = summed(ring, (hidden(name, ring, length, names=names) for name in names), length)
    assert (
        not masks_of("c7", ring, names).open(total, CONTEXT, dict.fromkeys(names, bytes(8))).any()
    )


@RINGS
def test_the_masks_of_fewer_clients_leave_something_uniform_though_the_group_key_is_known(
    ring: Ring,
) -> None:
    """Every proper part of the key set: what the server and one client see when uploads are left
    out.
    """
    opener = GroupMasks(GROUP_KEY, ring)
    for n in range(1, len(NAMES)):
        for part in combinations(NAMES, n):
            total = summed(ring, (hidden(name, ring, 2000) for name in part), 2000)
            known = {NAMES[0]: NONCES[NAMES[0]]} if NAMES[0] in part else {}
            assert looks_uniform(opener.open(total, CONTEXT, known))


@RINGS
def test_an_upload_twice_or_another_in_its_place_does_not_cancel(ring: Ring) -> None:
    included = dict(NONCES)
    honest = [hidden(name, ring, 2000) for name in NAMES]
    for wrong in (
        [*honest, honest[2]],
        [*honest[:3], honest[2]],
        [honest[0], honest[1], honest[2]],
    ):
        assert looks_uniform(
            masks_of("east", ring).open(summed(ring, wrong, 2000), CONTEXT, included)
        )


@RINGS
def test_a_sum_of_values_opens_to_their_sum(ring: Ring) -> None:
    values = {
        name: np.arange(50, dtype=np.int64) * (-1) ** i * (i + 3) for i, name in enumerate(NAMES)
    }
    parties = {name: masks_of(name, ring) for name in NAMES}
    uploads = [
        party.hide(ring.wrap(values[name]), CONTEXT, name, NONCES[name])
        for name, party in parties.items()
    ]
    for party in (
        *parties.values(),
        masks_of("south", ring),
    ):  # who hid an upload, and who was started again
        opened = ring.centre(party.open(summed(ring, uploads), CONTEXT, NONCES))
        assert np.array_equal(opened, np.sum(list(values.values()), axis=0))


def test_only_the_nonce_of_the_first_client_matters() -> None:
    """Partners do not know each other's; the group mask needs one, for a client restored from an
    old copy.
    """
    for name in NAMES:
        one, other = hidden(name, Ring.Z64, 500), hidden(name, Ring.Z64, 500, nonce=bytes([9] * 8))
        assert np.array_equal(one, other) == (name != NAMES[0])
    total = summed(Ring.Z64, (hidden(name, Ring.Z64) for name in NAMES))
    wrong = masks_of("west", Ring.Z64).open(total, CONTEXT, {**NONCES, NAMES[0]: bytes([9] * 8)})
    assert looks_uniform(wrong)
    assert (
        not masks_of("west", Ring.Z64)
        .open(total, CONTEXT, dict.fromkeys(NAMES, NONCES[NAMES[0]]))
        .any()
    )


def test_another_group_key_opens_nothing() -> None:
    total = summed(Ring.Z64, (hidden(name, Ring.Z64) for name in NAMES))
    assert looks_uniform(
        masks_of("east", Ring.Z64, group_key=GroupKey(bytes(32))).open(total, CONTEXT, NONCES)
    )


# ------------------------------------------------------------------- context


def flipped_share(one: RingVector, other: RingVector) -> float:
    return float(np.bitwise_count(one ^ other).sum()) / (8 * one.nbytes)


@pytest.mark.parametrize("field", [field.name for field in fields(MaskContext)])
def test_every_field_of_the_context_changes_every_pair_mask(field: str) -> None:
    # Two clients share one pair mask, and the later of them has no other. 6 standard errors of 8192
    # bits are .033.
    other = replace(CONTEXT, **{field: OTHER_FIELDS[field]})
    for earlier, later in combinations(NAMES, 2):
        one, changed = (
            hidden(later, Ring.Z64, 128, context, names=(earlier, later))
            for context in (CONTEXT, other)
        )
        assert abs(flipped_share(one, changed) - 0.5) < 0.033


def test_names_their_order_and_every_bit_of_the_key_enter_a_pair_mask() -> None:
    key = pair_key("a", "b")

    def mask(earlier: str, later: str, secret: bytes = key) -> RingVector:
        scheme = PairwiseMasks(GROUP_KEY, Ring.Z64, (earlier, later), later, {earlier: secret})
        return scheme.hide(Ring.Z64.zeros(128), CONTEXT, later, bytes(8))

    base = mask("a", "b")
    others = [
        mask("b", "a"),
        mask("a", "c"),
        mask("c", "b"),
        mask("aa", "b"),
        mask("a", "ab"),
        mask("aab", "b"),
    ]
    others += [mask("a", "b", (int.from_bytes(key) ^ 1 << bit).to_bytes(32)) for bit in range(256)]
    assert all(
        abs(flipped_share(base, other) - 0.5) < 0.04 for other in others
    )  # 7 standard errors


def test_the_earlier_client_adds_what_the_later_one_subtracts() -> None:
    ring = Ring.Z64
    earlier = hidden("north", ring, names=("north", "east"))
    group_mask = GroupMasks(GROUP_KEY, ring).hide(ring.zeros(50), CONTEXT, "north", NONCES["north"])
    added = ring.subtract(earlier, group_mask)
    subtracted = ring.subtract(ring.zeros(50), hidden("east", ring, names=("north", "east")))
    assert np.array_equal(added, subtracted)
    assert np.array_equal(
        added, np.frombuffer(by_hand_stream(pair_key("north", "east"), "north", "east", 400), "<u8")
    )


def test_no_upload_is_hidden_twice_under_one_context_whatever_its_nonce() -> None:
    """Pair masks have no nonce: a second upload of a round would show the difference of two noise
    shares.
    """
    for name in NAMES:
        scheme, plain = masks_of(name, Ring.Z64), Ring.Z64.zeros(3)
        for field, value in OTHER_FIELDS.items():
            scheme.hide(plain, CONTEXT, name, NONCES[name])
            for again, nonce in ((CONTEXT, NONCES[name]), (replace(CONTEXT), bytes([9] * 8))):
                with pytest.raises(LocalProtocolError, match="mask was already"):
                    scheme.hide(plain, again, name, nonce)
            scheme.hide(plain, replace(CONTEXT, **{field: value}), name, NONCES[name])


@pytest.mark.parametrize(
    "given",
    [
        {"north": bytes(32), "south": bytes(32)},
        {"north": bytes(32), "south": bytes(32), "west": bytes(32), "zoe": bytes(32)},
        {},
    ],
    ids=lambda given: f"{len(given)} keys",
)
def test_a_client_needs_a_key_with_each_of_the_others_and_with_nobody_else(
    given: Mapping[str, bytes],
) -> None:
    with pytest.raises(LocalProtocolError, match=r"'east'.*key with each"):
        PairwiseMasks(GROUP_KEY, Ring.Z64, NAMES, "east", given)


# ------------------------------------------------------------- known answers


def by_hand_stream(key: bytes, earlier: str, later: str, n_bytes: int) -> bytes:
    """One pair's keystream, from the order of the fields, RFC 5869 and RFC 8439."""
    info = b"fastlloyd/v1/pair-mask" + bytes([1] * 32) + bytes([2] * 16) + struct.pack(">Q", 3)
    for name in (earlier, later):
        info += struct.pack(">I", len(name)) + name.encode()
    info += bytes([5] * 32) + bytes([6] * 32)
    return chacha20(hmac.digest(key, info + b"\x01", "sha256"), n_bytes)


def chacha20(key: bytes, n_bytes: int) -> bytes:
    return (
        Cipher(algorithms.ChaCha20(key, nonce=bytes(16)), mode=None)
        .encryptor()
        .update(bytes(n_bytes))
    )


def by_hand_upload(client: str, values: list[int], bits: int) -> list[int]:
    """Values, plus the streams with later clients, minus those with earlier ones, plus the group's
    for the first.
    """
    at, size = NAMES.index(client), bits // 8
    streams = [
        (-1, by_hand_stream(pair_key(other, client), other, client, len(values) * size))
        for other in NAMES[:at]
    ]
    streams += [
        (1, by_hand_stream(pair_key(client, o), client, o, len(values) * size))
        for o in NAMES[at + 1 :]
    ]
    if at == 0:
        info = b"fastlloyd/v1/mask" + bytes([1] * 32) + bytes([2] * 16) + struct.pack(">Q", 3)
        info += (
            struct.pack(">I", len(client))
            + client.encode()
            + NONCES[client]
            + bytes([5] * 32)
            + bytes([6] * 32)
        )
        key = hmac.digest(GROUP_KEY.secret, info + b"\x01", "sha256")
        streams.append((1, chacha20(key, len(values) * size)))
    totals = list(values)
    for sign, stream in streams:
        words = [
            int.from_bytes(stream[i : i + size], "little") for i in range(0, len(stream), size)
        ]
        totals = [total + sign * word for total, word in zip(totals, words, strict=True)]
    return [total % 2**bits for total in totals]


@RINGS
@pytest.mark.parametrize("client", NAMES)
def test_an_upload_is_the_documented_one_by_two_routes(ring: Ring, client: str) -> None:
    values = [5, -7, 0, 1 << 30, -(1 << 30), 1, 12]
    upload = masks_of(client, ring).hide(
        ring.wrap(np.array(values)), CONTEXT, client, NONCES[client]
    )
    assert upload.tolist() == by_hand_upload(client, values, ring.bits)


RECORDED = {
    "north": "cbc7af8240883b7ca47ac689421f8b6f96f208097755be347d8ec8c9499ea427",
    "east": "0390ba753edeeb314caaf159bb0ef2b562d3b35e0fea2b7458a0b56ff7b836af",
    "south": "a6c5382b262f8f996bb7d4ab7c465f9e9d302310afc51f8089ca23e30e205bce",
    "west": "45206d70b79b53aaca7825e6eeb03a044952ef7f8702de7c03fc5057f71d05b4",
}


@pytest.mark.parametrize("client", NAMES)
def test_uploads_are_what_they_were_when_they_were_recorded(client: str) -> None:
    """Changing a label or the order of fields breaks runs of two versions with each other; here it
    shows.
    """
    assert hidden(client, Ring.Z64, 4).astype("<u8").tobytes().hex() == RECORDED[client]


# -------------------------------------------------------------------- secrecy


def test_masks_show_and_copy_themselves_nowhere() -> None:
    scheme = masks_of("east", Ring.Z64)
    scheme.hide(Ring.Z64.zeros(3), CONTEXT, "east", bytes(8))
    assert repr(scheme) == f"{scheme}" == "PairwiseMasks(<secret>)"
    assert not hasattr(scheme, "__dict__")
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="PairwiseMasks is secret"):
            leak(scheme)


def test_what_is_derived_from_a_pair_key_has_labels_of_which_none_begins_another() -> None:
    """Masks and boxes are made under one pair key: no info of the one may be an info of the
    other.
    """
    run = randomness.length_prefixed(CONTEXT.plan_digest, CONTEXT.run_id)
    infos = [
        masks._PAIR_LABEL + CONTEXT.before,
        pairs._BOX_LABEL + run,
        pairs._BOX_NONCE_LABEL + run,
    ]
    begins = [
        info[: len(masks._PAIR_LABEL) + 4] for info in infos
    ]  # the label and some of what is behind it
    assert not [(a, b) for a, b in permutations(begins, 2) if b.startswith(a)]
