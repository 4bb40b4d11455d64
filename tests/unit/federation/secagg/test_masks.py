"""No two contexts share a mask, and the group key shows itself nowhere. Each statistical test
states its power.
"""

import copy
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import permutations
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.base.randomness import PublicSeed, PublicStream
from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.secagg import keys, sealing
from fastlloyd.federation.secagg.masks import _MASK_LABEL, GroupKey, GroupMasks, MaskContext
from fastlloyd.federation.secagg.ring import Ring
from masks import MaskedUpload, expand_mask

KEY = GroupKey(bytes(range(32)))
CONTEXT = MaskedUpload(
    plan_digest=bytes([1] * 32),
    run_id=bytes([2] * 16),
    round=3,
    client="hospital-a",
    upload_nonce=bytes([4] * 8),
    transcript_hash=bytes([5] * 32),
    centroids_digest=bytes([6] * 32),
)
OTHER_FIELDS: dict[str, Any] = {
    "plan_digest": bytes([1] * 31 + [0]),
    "run_id": bytes([2] * 15 + [3]),
    "round": 4,
    "client": "hospital-b",
    "upload_nonce": bytes([4] * 7 + [5]),
    "transcript_hash": bytes([4] + [5] * 31),
    "centroids_digest": bytes([6] * 31 + [7]),
}
RINGS = pytest.mark.parametrize("ring", list(Ring))

# ------------------------------------------------------------------- contexts


def test_equal_contexts_give_equal_masks_and_one_mask_is_a_prefix_of_a_longer_one() -> None:
    # What lets every client subtract every other client's mask.
    twin = replace(CONTEXT)
    for ring in Ring:
        mask = expand_mask(KEY, CONTEXT, 100, ring)
        assert np.array_equal(mask, expand_mask(GroupKey(KEY.secret), twin, 100, ring))
        assert np.array_equal(mask[:37], expand_mask(KEY, CONTEXT, 37, ring))
        assert (mask.dtype, mask.shape) == (ring.dtype, (100,))
        assert expand_mask(KEY, CONTEXT, 0, ring).shape == (0,)


def flipped_share(
    left: GroupKey, left_upload: MaskedUpload, right: GroupKey, right_upload: MaskedUpload
) -> float:
    """Share of differing bits in the first 8192 of two masks: 1/2 +- .0055 when unrelated."""
    a = expand_mask(left, left_upload, 128, Ring.Z64)
    b = expand_mask(right, right_upload, 128, Ring.Z64)
    return float(np.bitwise_count(a ^ b).sum()) / 8192


@pytest.mark.parametrize("field", [field.name for field in fields(MaskedUpload)])
def test_contexts_that_differ_in_one_field_give_unrelated_masks(field: str) -> None:
    # 6 s.e. = .033; two masks related in 7 % of their bits are told apart with probability > .999.
    other = replace(CONTEXT, **{field: OTHER_FIELDS[field]})
    assert abs(flipped_share(KEY, CONTEXT, KEY, other) - 0.5) < 0.033


def test_w07_every_one_of_the_256_key_bits_changes_the_whole_mask() -> None:
    # The published seed has 32 bits (experiments use 0 .. 99): 0.8 core-hours. Here no key is
    # shorter than 32 bytes.
    for bit in range(256):
        other = GroupKey((int.from_bytes(KEY.secret) ^ 1 << bit).to_bytes(32))
        assert abs(flipped_share(KEY, CONTEXT, other, CONTEXT) - 0.5) < 0.04  # 7 s.e.
    for n_bytes in (0, 4, 16, 31, 33, 64):
        with pytest.raises(LocalProtocolError, match="exactly 32 bytes"):
            GroupKey(bytes(n_bytes))


def test_w07_a_key_is_exactly_what_the_randomness_gave() -> None:
    asked: list[int] = []

    def random_bytes(n: int) -> bytes:
        asked.append(n)
        return bytes(range(n))

    assert GroupKey.draw(random_bytes) == KEY
    assert asked == [32]
    with pytest.raises(LocalProtocolError, match="exactly 32 bytes"):
        GroupKey.draw(lambda n: bytes(n - 1))


MT19937 = np.random.MT19937


def untempered(y: int) -> int:
    """State word of the Mersenne Twister behind one 32-bit output; tempering is linear over
    GF(2).
    """
    y ^= y >> 18
    y ^= y << 15 & 0xEFC60000
    word = y
    for _ in range(5):
        word = y ^ (word << 7 & 0x9D2C5680)
    y = word
    for _ in range(3):
        word = y ^ word >> 11
    return word


def predicted(observed: list[int], n_words: int) -> list[int]:
    """Continue a stream as MT19937 would, from 624 observed words."""
    twister = MT19937()
    twister.state = {
        "bit_generator": "MT19937",
        "state": {
            "key": np.array([untempered(word) for word in observed], dtype=np.uint32),
            "pos": 624,
        },
    }
    return [int(word) for word in twister.random_raw(n_words)]


def test_w06_a_mask_is_not_continued_by_the_attack_that_continues_a_mersenne_twister() -> None:
    twister = [int(word) for word in MT19937(7).random_raw(724)]
    assert predicted(twister[:624], 100) == twister[624:]
    mask = expand_mask(KEY, CONTEXT, 724, Ring.Z32).tolist()
    hits = sum(a == b for a, b in zip(predicted(mask[:624], 100), mask[624:], strict=True))
    assert hits == 0  # 100 chances of 2**-32


@RINGS
def test_w11_sums_and_counts_of_a_message_never_share_a_pad(ring: Ring) -> None:
    # As printed, GlobalMSA runs twice per round with one (seed, t): sums minus counts were then in
    # the clear. One message carries both, so their masks are different words of one stream; its
    # context is for this message alone.
    k, d = 100, 5
    mask = expand_mask(KEY, CONTEXT, k * (d + 1) + 1, ring)
    sums, counts = mask[: k * d], mask[k * d :]
    # A common word has probability 500 * 101 / 2**32 = 1.2e-5 even in the small ring; these masks
    # are fixed.
    assert not set(sums.tolist()) & set(counts.tolist())
    next_round = expand_mask(KEY, replace(CONTEXT, round=CONTEXT.round + 1), k * (d + 1) + 1, ring)
    assert not np.any(mask == next_round)


@RINGS
def test_w12_a_rerun_under_a_new_run_id_shares_no_pad(ring: Ring) -> None:
    # Reruns with one seed reused all masks: the difference of two transcripts was the difference of
    # the data.
    data, rerun_data = np.arange(50, dtype=np.int64), np.full(50, 7, dtype=np.int64)
    rerun = replace(CONTEXT, run_id=bytes(16))
    first = ring.add(ring.wrap(data), expand_mask(KEY, CONTEXT, 50, ring))
    second = ring.add(ring.wrap(rerun_data), expand_mask(KEY, rerun, 50, ring))
    assert not np.any(ring.centre(ring.subtract(first, second)) == data - rerun_data)


@pytest.mark.parametrize("field", ["transcript_hash", "centroids_digest"])
def test_w13_clients_shown_different_broadcasts_do_not_open_each_other(field: str) -> None:
    data = np.arange(-20, 20, dtype=np.int64)
    upload = Ring.Z64.add(Ring.Z64.wrap(data), expand_mask(KEY, CONTEXT, 40, Ring.Z64))
    deceived = replace(CONTEXT, **{field: OTHER_FIELDS[field]})
    opened = Ring.Z64.centre(Ring.Z64.subtract(upload, expand_mask(KEY, deceived, 40, Ring.Z64)))
    assert not np.any(opened == data)
    honest = Ring.Z64.centre(
        Ring.Z64.subtract(upload, expand_mask(KEY, replace(CONTEXT), 40, Ring.Z64))
    )
    assert np.array_equal(honest, data)


def uploads() -> st.SearchStrategy[MaskedUpload]:
    # Small alphabets, so that collisions of an encoding that is not injective would be found.
    def few(n: int) -> st.SearchStrategy[bytes]:
        return st.sampled_from([bytes(n), bytes([1] * n), bytes([0] * (n - 1) + [1])])

    return st.builds(
        MaskedUpload,
        plan_digest=few(32),
        run_id=few(16),
        round=st.integers(1, 3) | st.just(2**64 - 1),
        client=st.text(
            alphabet="\0\1a\N{LATIN SMALL LETTER E WITH ACUTE}", min_size=1, max_size=20
        ),
        upload_nonce=few(8),
        transcript_hash=few(32),
        centroids_digest=few(32),
    )


def decoded(data: bytes) -> MaskedUpload:
    """Inverse of `MaskedUpload.to_bytes`; that it exists is what injective means."""

    def pieces() -> Iterator[bytes]:
        start = 0
        for width in (32, 16, 8, 4, int.from_bytes(data[56:60]), 8, 32, 32):
            yield data[start : start + width]
            start += width
        assert start == len(data)

    plan_digest, run_id, number, _, client, nonce, transcript, centroids = pieces()
    return MaskedUpload(
        plan_digest=plan_digest,
        run_id=run_id,
        round=int.from_bytes(number),
        client=client.decode(),
        upload_nonce=nonce,
        transcript_hash=transcript,
        centroids_digest=centroids,
    )


@given(upload=uploads())
def test_the_encoding_of_what_a_mask_is_bound_to_can_be_undone(upload: MaskedUpload) -> None:
    assert decoded(upload.to_bytes()) == upload


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("plan_digest", bytes(31)),
        ("plan_digest", bytes(33)),
        ("run_id", bytes(15)),
        ("run_id", bytes(32)),
        ("round", 0),
        ("round", -1),
        ("round", 2**64),
        ("client", ""),
        ("client", "x" * 256),
        ("client", "\N{LATIN SMALL LETTER E WITH ACUTE}" * 128),
        ("client", "\ud800"),
        ("upload_nonce", b""),
        ("upload_nonce", bytes(9)),
        ("transcript_hash", b""),
        ("centroids_digest", bytes(64)),
    ],
)
def test_a_context_with_a_field_of_another_size_is_refused(
    field: str, value: bytes | int | str
) -> None:
    name = "a client's name" if field == "client" else field
    with pytest.raises(LocalProtocolError, match=name):
        # the point is a wrong value
        expand_mask(KEY, replace(CONTEXT, **{field: value}), 1, Ring.Z64)  # type: ignore[arg-type]


def test_a_name_may_fill_255_bytes() -> None:
    longest = replace(CONTEXT, client="x" * 255)
    assert decoded(longest.to_bytes()) == longest


def test_contexts_cannot_be_changed_and_are_given_by_name() -> None:
    with pytest.raises(AttributeError):
        CONTEXT.round = 4  # type: ignore[misc]  # that it cannot be assigned is what is tested
    with pytest.raises(TypeError):
        MaskContext(bytes(32), bytes(16), 1, bytes(32), bytes(32))  # type: ignore[call-arg]  # same


# -------------------------------------------------------------------- secrecy


@dataclass
class Holder:
    key: GroupKey


def test_a_group_key_shows_itself_nowhere() -> None:
    secret = b"a secret nobody else shall see.."
    key = GroupKey(secret)
    shown = [repr(key), str(key), f"{key}", f"{key!s:>40}", f"{Holder(key)!r} {[key]} {(key,)!a}"]
    shown += [
        f"{key}",
        "%s %r" % (key, key),  # noqa: UP031
        f"{key}",
    ]
    for text in shown:
        assert "secret nobody" not in text
        assert secret.hex() not in text
        assert "GroupKey(<secret>)" in text
    with pytest.raises(LocalProtocolError) as refusal:
        GroupKey(secret + b"!")
    assert "nobody" not in str(refusal.value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_w14_a_group_key_is_never_pickled(protocol: int) -> None:
    for value in (KEY, Holder(KEY), [KEY]):
        with pytest.raises(TypeError, match="GroupKey is secret"):
            pickle.dumps(value, protocol=protocol)


def test_a_group_key_is_never_copied_serialised_hashed_or_changed() -> None:
    for copier in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="GroupKey is secret"):
            copier(KEY)
    for encode in (msgspec.json.encode, msgspec.msgpack.encode, json.dumps):
        with pytest.raises(TypeError):
            encode(KEY)
    with pytest.raises(TypeError, match="unhashable"):
        hash(KEY)
    with pytest.raises(AttributeError):
        KEY.secret = bytes(32)  # type: ignore[misc]  # that it cannot be assigned is what is tested
    with pytest.raises(AttributeError):
        KEY.other = 1  # type: ignore[attr-defined]  # the same


def test_group_keys_are_equal_when_their_bytes_are() -> None:
    assert GroupKey(bytes(range(32))) == KEY
    assert GroupKey(bytes(32)) != KEY
    for other in (KEY.secret, PublicSeed(KEY.secret), None):
        assert other != KEY


def test_a_public_seed_is_no_group_key_and_a_group_key_no_public_seed() -> None:
    for wrong in (PublicSeed(KEY.secret), KEY.secret, 7):
        with pytest.raises(LocalProtocolError, match="a GroupKey"):
            # that the types differ is the point
            GroupMasks(wrong, Ring.Z64)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="a PublicSeed"):
        PublicStream(KEY, b"label").words(1)  # type: ignore[arg-type]  # the same


def test_equal_bytes_as_key_and_as_seed_give_unrelated_streams() -> None:
    label = CONTEXT.to_bytes()
    words = PublicStream(PublicSeed(KEY.secret), label).words(128)
    assert (
        abs(
            float(np.bitwise_count(words ^ expand_mask(KEY, CONTEXT, 128, Ring.Z64)).sum()) / 8192
            - 0.5
        )
        < 0.033
    )


@pytest.mark.parametrize("ring", Ring)
@pytest.mark.parametrize(("n_uploads", "length"), [(0, 5), (1, 0), (1, 5), (300, 70), (3, 40_000)])
@pytest.mark.parametrize("hides", [False, True])
def test_what_opens_takes_off_the_mask_of_each_upload(
    ring: Ring, n_uploads: int, length: int, hides: bool
) -> None:
    """In one block, in several, and where one mask is more than a block; and where its own, the
    last, was kept.
    """
    included = {f"client-{i}": i.to_bytes(8) for i in range(n_uploads)}
    total, opener = ring.zeros(length), GroupMasks(KEY, ring)
    for client, nonce in included.items():
        upload = replace(CONTEXT, client=client, upload_nonce=nonce)
        total = ring.add(total, expand_mask(KEY, upload, length, ring))
        if hides:
            opener.hide(ring.zeros(length), CONTEXT, client, nonce)
    assert not opener.open(total, CONTEXT, included).any()


def test_a_mask_that_was_kept_is_used_for_its_own_upload_only() -> None:
    """Another round, client or nonce is derived anew."""
    ring, opener = Ring.Z64, GroupMasks(KEY, Ring.Z64)
    opener.hide(ring.zeros(5), CONTEXT, CONTEXT.client, CONTEXT.upload_nonce)
    for field in ("round", "client", "upload_nonce"):
        other = replace(CONTEXT, **{field: OTHER_FIELDS[field]})
        mask = expand_mask(KEY, other, 5, ring)
        assert not opener.open(
            mask, other if field == "round" else CONTEXT, {other.client: other.upload_nonce}
        ).any()


def test_no_two_uploads_are_hidden_by_one_mask() -> None:
    """Not even the same upload again: nothing in a run hides one twice. One field that differs is
    another mask.
    """
    masks, plain = GroupMasks(KEY, Ring.Z64), Ring.Z64.zeros(3)

    def hide(upload: MaskedUpload) -> None:
        context = MaskContext(
            **{field.name: getattr(upload, field.name) for field in fields(MaskContext)}
        )
        masks.hide(plain, context, upload.client, upload.upload_nonce)

    for field, value in OTHER_FIELDS.items():
        hide(CONTEXT)
        for again in (CONTEXT, replace(CONTEXT)):
            with pytest.raises(LocalProtocolError, match="mask was already"):
                hide(again)
        hide(replace(CONTEXT, **{field: value}))


def test_what_opens_refuses_what_hiding_refuses() -> None:
    opener, total = GroupMasks(KEY, Ring.Z64), Ring.Z64.zeros(3)
    with pytest.raises(LocalProtocolError, match="upload_nonce"):
        opener.open(total, CONTEXT, {"a": bytes(7)})
    with pytest.raises(LocalProtocolError, match="name"):
        opener.open(total, CONTEXT, {"": bytes(8)})


def test_what_is_derived_from_the_group_key_has_labels_of_which_none_begins_another() -> None:
    labels = [_MASK_LABEL, sealing._LABEL, keys._CONFIRMATION_LABEL]
    assert not [(a, b) for a, b in permutations(labels, 2) if b.startswith(a)]
