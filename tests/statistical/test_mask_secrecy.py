"""What the server sees is uniform, bit by bit, whatever the uploads hold.

The uploads are those of the shipped path (ring, context, mask) under one fixed key, so that the
tests give the same answer every time: hidden by the group key, or by the key of a pair alone, as
those of the later of two clients are. Family-wise false-positive rate: 1e-6 per test, split evenly
over its chi-square statistics.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from fastlloyd.federation.secagg.masks import GroupKey
from fastlloyd.federation.secagg.ring import Ring, RingVector
from masks import MaskedUpload, expand_mask, expand_pair_mask

ALPHA = 1e-6
N_UPLOADS, N_WORDS = 500, 500
CONTEXT = MaskedUpload(
    plan_digest=bytes([1] * 32),
    run_id=bytes([2] * 16),
    round=1,
    client="hospital-a",
    upload_nonce=bytes([4] * 8),
    transcript_hash=bytes([5] * 32),
    centroids_digest=bytes([6] * 32),
)
RINGS = pytest.mark.parametrize("ring", list(Ring))
Expand = Callable[[GroupKey, MaskedUpload, int, Ring], RingVector]
BOTH_MASKS = pytest.mark.parametrize(
    "expand", [expand_mask, expand_pair_mask], ids=["group", "pair"]
)


def uploads(value: int, ring: Ring, key: bytes, expand: Expand) -> RingVector:
    """`N_UPLOADS` masked messages that all hold `value` in each of `N_WORDS` words; one row
    each.
    """
    data = ring.wrap(np.full(N_WORDS, value, dtype=np.int64))
    contexts = (
        replace(CONTEXT, round=number + 1, upload_nonce=number.to_bytes(8))
        for number in range(N_UPLOADS)
    )
    rows = [
        ring.to_bytes(ring.add(data, expand(GroupKey(key), context, N_WORDS, ring)))
        for context in contexts
    ]
    return ring.from_bytes(b"".join(rows), N_UPLOADS * N_WORDS).reshape(N_UPLOADS, N_WORDS)


def bit_p_values(words: RingVector) -> npt.NDArray[np.float64]:
    """p-value of the chi-square statistic (1 degree of freedom) of every bit position, lowest bit
    first.
    """
    flat = words.ravel()
    bits = np.unpackbits(flat.view(np.uint8).reshape(flat.size, -1), axis=1, bitorder="little")
    statistic = (2 * bits.sum(axis=0, dtype=np.int64) - flat.size) ** 2 / flat.size
    return np.asarray(stats.chi2.sf(statistic, df=1))


def byte_p_values(words: RingVector) -> npt.NDArray[np.float64]:
    """p-value of the chi-square statistic (255 degrees of freedom) of every byte position, lowest
    byte first.
    """
    flat = words.ravel()
    columns = flat.view(np.uint8).reshape(flat.size, -1).T
    return np.array(
        [stats.chisquare(np.bincount(column, minlength=256)).pvalue for column in columns]
    )


@BOTH_MASKS
@RINGS
@pytest.mark.parametrize("extreme", ["zero", "max", "min"])
def test_w08_every_bit_and_byte_of_an_upload_is_uniform_whatever_it_holds(
    ring: Ring, extreme: str, expand: Expand
) -> None:
    # 250,000 words for each of six cases. Power: a bit that is 1 with probability .5 +- .008 is
    # missed with probability below .03 (threshold 5.8 s.e. of .001, shift 8); the never-set top bit
    # of the published masks for certain.
    half = 2 ** (ring.bits - 1)
    words = uploads(
        {"zero": 0, "max": half - 1, "min": -half}[extreme],
        ring,
        bytes([len(extreme)] * 32),
        expand,
    )
    p_values = np.concatenate([bit_p_values(words), byte_p_values(words)])
    assert p_values.size == ring.bits + ring.itemsize
    assert p_values.min() > ALPHA / p_values.size


@BOTH_MASKS
@RINGS
def test_every_position_of_a_message_is_uniform_over_uploads(ring: Ring, expand: Expand) -> None:
    # 500 statistics of 500 uploads each, on the top bit: a position whose mask is reused is 0 or 1
    # in all of them.
    top = (uploads(0, ring, bytes(range(32)), expand) >> (ring.bits - 1)).astype(np.int64)
    p_values = stats.chi2.sf((2 * top.sum(axis=0) - N_UPLOADS) ** 2 / N_UPLOADS, df=1)
    assert p_values.min() > ALPHA / N_WORDS


@BOTH_MASKS
@RINGS
def test_w12_the_difference_of_two_uploads_is_uniform_and_so_tells_nothing_of_the_data(
    ring: Ring, expand: Expand
) -> None:
    words = uploads(12_345, ring, bytes(range(32)), expand)
    p_values = bit_p_values(ring.subtract(words[1:], words[:-1]))
    assert p_values.min() > ALPHA / ring.bits


@BOTH_MASKS
@RINGS
def test_w06_no_pair_of_bits_of_a_word_is_correlated(ring: Ring, expand: Expand) -> None:
    # Masks linear over GF(2) show first in relations between bits; the simplest are the pairs.
    # 250,000 words, at most 2016 pairs: threshold 6.5 s.e. of .002, so a correlation of .02 is
    # missed with probability below 3e-4.
    flat = uploads(0, ring, bytes(range(32)), expand).ravel()
    bits = np.unpackbits(flat.view(np.uint8).reshape(flat.size, -1), axis=1, bitorder="little")
    signs = 1 - 2 * bits.astype(np.float32)
    correlations = np.triu(signs.T @ signs, k=1) / np.sqrt(
        flat.size
    )  # integers below 2**24: exact in float32
    n_pairs = ring.bits * (ring.bits - 1) // 2
    assert np.abs(correlations).max() < stats.norm.isf(ALPHA / n_pairs / 2)


def test_w08_the_published_masks_fail_the_same_test() -> None:
    # Masks in [0, 2^31) added as int64 and never reduced: the top bit is the sign of the data. This
    # is the mutant the test above must catch, and the subtler one, a mask short of its ring by 1.6
    # %, as well.
    rng = np.random.default_rng(1)
    unreduced = rng.integers(0, 2**31, 250_000) + rng.integers(-128, 128, 250_000)
    assert bit_p_values(unreduced.astype(np.uint32))[31] < ALPHA / 36
    short = rng.integers(0, int(2**32 * 0.984), 250_000).astype(np.uint32)
    assert bit_p_values(short)[31] < ALPHA / 36
