"""Public randomness is exactly uniform and the same everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fastlloyd.base.randomness import (
    MAX_STREAM_BYTES,
    Keystreams,
    PublicSeed,
    PublicStream,
    SecretWords,
    derive,
    keystream,
    length_prefixed,
)
from fastlloyd.errors import LocalProtocolError, PlanError

SEED = PublicSeed.from_int(7)
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
ALPHA = 1e-6

GOLDEN_WORDS = [16111899557164640593, 6534398781945567512, 3503815886082499527]
GOLDEN_DIGITS = [3, 2, 7, 3, 9, 2]
GOLDEN_MIXED = [4, -4587784422281953637, 3]
GOLDEN_REJECTING = [
    3331206061470335346,
    3072187815771318861,
    1013060487630076108,
    7969413560656415408,
    8186089797955202001,
]
GOLDEN_DIE = 3
GOLDEN_TEXT_SEED = "45b9fe85038f018a315d896f8c7a77af89a77187fc636159479cc0b099a51bc0"

# ----------------------------------------------------------------- the stream


def test_words_are_taken_in_order_however_they_are_asked_for() -> None:
    stream = PublicStream(SEED, b"label")
    pieces = [stream.words(n) for n in (0, 1, 7, 8, 1000)]
    assert np.array_equal(np.concatenate(pieces), PublicStream(SEED, b"label").words(1016))


def test_the_words_are_the_recorded_ones_on_every_machine() -> None:
    assert PublicStream(SEED, b"golden").words(3).tolist() == GOLDEN_WORDS


def test_the_integers_are_the_recorded_ones_on_every_machine() -> None:
    stream = PublicStream(SEED, b"golden")
    assert stream.integers(np.zeros(6, dtype=np.int64), 9).tolist() == GOLDEN_DIGITS
    assert stream.integers([-5, INT64_MIN, 3], [5, INT64_MAX, 3]).tolist() == GOLDEN_MIXED
    # Half of all words are rejected here, so this also fixes the order in which rejected elements
    # draw again.
    assert stream.integers(np.full(5, -1, dtype=np.int64), INT64_MAX).tolist() == GOLDEN_REJECTING
    assert stream.integers(1, 6).tolist() == GOLDEN_DIE


@pytest.mark.parametrize(
    "other", [(SEED, b"labem"), (SEED, b""), (PublicSeed.from_int(8), b"label")]
)
def test_other_seeds_and_labels_give_unrelated_words(other: tuple[PublicSeed, bytes]) -> None:
    # 8192 bits: 6 s.e. of the share that differs are .033.
    differing = (
        np.bitwise_count(
            PublicStream(SEED, b"label").words(128) ^ PublicStream(*other).words(128)
        ).sum()
        / 8192
    )
    assert abs(differing - 0.5) < 0.033


# ------------------------------------------------------------------- integers


def one_by_one(lows: list[int], highs: list[int], words: list[int]) -> list[int]:
    """Second route: the rule of `PublicStream.integers` in Python's integers."""
    source = iter(words)
    drawn: dict[int, int] = {}
    pending = list(range(len(lows)))
    while pending:
        rejected = []
        for i in pending:
            n, word = highs[i] - lows[i] + 1, next(source)
            if word >= 2**64 - 2**64 % n:
                rejected.append(i)
            else:
                drawn[i] = lows[i] + word % n
        pending = rejected
    return [drawn[i] for i in range(len(lows))]


INT64 = st.integers(INT64_MIN, INT64_MAX)


@given(st.lists(st.tuples(INT64, INT64).map(sorted), max_size=12), st.integers(0, 2**256 - 1))
def test_integers_follow_the_stated_rule_and_stay_in_range(
    ranges: list[list[int]], seed: int
) -> None:
    lows, highs = [r[0] for r in ranges], [r[1] for r in ranges]
    words = PublicStream(PublicSeed.from_int(seed), b"x").words(40 * len(ranges)).tolist()
    drawn = PublicStream(PublicSeed.from_int(seed), b"x").integers(
        np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64)
    )
    assert drawn.dtype == np.int64
    assert drawn.tolist() == one_by_one(lows, highs, words)
    assert all(
        low <= value <= high for low, value, high in zip(lows, drawn.tolist(), highs, strict=True)
    )


@pytest.mark.parametrize(
    "n", [1, 2, 3, 4, 10, 2**32, 2**32 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64]
)
def test_exactly_the_words_of_the_last_incomplete_cycle_are_rejected(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Random words never come near the boundary, so these are made.
    incomplete = 2**64 % n
    edge = [2**64 - incomplete - 1, 2**64 - 1, (2**64 - incomplete) % 2**64, 5, 6, 7]
    source = iter(edge)

    def words(_: PublicStream, n_words: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        return np.array([next(source) for _ in range(n_words)], dtype=np.uint64)

    monkeypatch.setattr(PublicStream, "words", words)
    low = np.full(3, INT64_MIN, dtype=np.int64)
    drawn = PublicStream(SEED, b"").integers(low, INT64_MIN + n - 1)
    assert drawn.tolist() == one_by_one([INT64_MIN] * 3, [INT64_MIN + n - 1] * 3, edge)
    assert len(list(source)) == (1 if incomplete else 3)


def chi_square_p(values: np.ndarray[tuple[int], np.dtype[np.int64]], n_cells: int) -> float:
    observed = np.bincount(values, minlength=n_cells)
    assert observed.size == n_cells
    return float(stats.chisquare(observed).pvalue)


@pytest.mark.parametrize("n_cells", [2, 3, 10, 257])
def test_small_ranges_are_uniform(n_cells: int) -> None:
    # n = 1e5: a cell off by 10 % in 10 is missed with probability below 1e-3 (noncentrality 111
    # against 9 degrees).
    drawn = PublicStream(SEED, b"small").integers(np.zeros(100_000, dtype=np.int64), n_cells - 1)
    assert chi_square_p(drawn, n_cells) > ALPHA


def test_wide_ranges_are_uniform_where_a_plain_remainder_is_not() -> None:
    # n = 3 * 2**62: w mod n alone would give the first third of the range half of all draws.
    n, third = np.uint64(3 * 2**62), np.uint64(2**62)
    drawn = PublicStream(SEED, b"wide").integers(
        np.zeros(100_000, dtype=np.int64) + INT64_MIN, INT64_MIN + int(n) - 1
    )
    assert (
        chi_square_p(((drawn.view(np.uint64) - np.uint64(2**63)) // third).astype(np.int64), 3)
        > ALPHA
    )
    words = PublicStream(SEED, b"wide").words(100_000)
    assert chi_square_p((words % n // third).astype(np.int64), 3) < ALPHA


def test_neighbouring_draws_are_independent() -> None:
    # Pairs of digits: 100 cells, n = 5e4.
    digits = PublicStream(SEED, b"pairs").integers(np.zeros(100_000, dtype=np.int64), 9)
    assert chi_square_p(10 * digits[::2] + digits[1::2], 100) > ALPHA


def test_bounds_broadcast_and_may_coincide() -> None:
    low = np.arange(3, dtype=np.int64)[:, None]
    drawn = PublicStream(SEED, b"shape").integers(low, low + np.array([0, 10]))
    assert drawn.shape == (3, 2)
    assert drawn[:, 0].tolist() == [0, 1, 2]
    assert PublicStream(SEED, b"shape").integers(np.zeros((0, 2), dtype=np.int64), 1).shape == (
        0,
        2,
    )
    assert PublicStream(SEED, b"shape").integers(np.int32(4), np.uint8(4)).tolist() == 4


def test_an_empty_range_is_refused() -> None:
    for low, high in ((1, 0), (INT64_MAX, INT64_MIN), ([0, 3], [5, 2])):
        with pytest.raises(LocalProtocolError, match="high is below"):
            PublicStream(SEED, b"").integers(low, high)


@pytest.mark.parametrize("bound", [0.0, 2**63, "0", None, 1j])
def test_bounds_that_are_no_int64_are_refused(bound: object) -> None:
    with pytest.raises(LocalProtocolError, match="int64 was expected"):
        # a wrong type is the point
        PublicStream(SEED, b"").integers(0, bound)  # type: ignore[arg-type]


# ---------------------------------------------------------- seeds, labels, sizes


@given(number=st.integers(0, 2**256 - 1))
def test_a_seed_is_its_number_and_its_digits(number: int) -> None:
    seed = PublicSeed.from_int(number)
    assert int(seed.hex(), 16) == number
    assert PublicSeed.from_hex(seed.hex()) == seed
    assert len(seed.hex()) == 64


@given(left=st.text(), right=st.text())
def test_texts_give_equal_seeds_exactly_when_they_are_equal(left: str, right: str) -> None:
    assert (PublicSeed.from_text(left) == PublicSeed.from_text(right)) == (left == right)


def test_a_text_gives_the_recorded_seed() -> None:
    assert PublicSeed.from_text("fastlloyd").hex() == GOLDEN_TEXT_SEED


@pytest.mark.parametrize("number", [-1, 2**256])
def test_a_number_outside_256_bits_is_no_seed(number: int) -> None:
    with pytest.raises(PlanError, match="outside"):
        PublicSeed.from_int(number)


@pytest.mark.parametrize(
    "digits", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, " " + "0" * 63, "0x" + "0" * 62]
)
def test_only_64_lower_case_hexadecimal_digits_are_a_written_seed(digits: str) -> None:
    with pytest.raises(PlanError, match="lower-case hexadecimal digits"):
        PublicSeed.from_hex(digits)


def test_seeds_keys_and_streams_have_exact_sizes() -> None:
    for n_bytes in (0, 31, 33):
        with pytest.raises(PlanError, match="32 bytes"):
            PublicSeed(bytes(n_bytes))
        with pytest.raises(LocalProtocolError, match=f"key of {n_bytes} bytes"):
            derive(bytes(n_bytes), b"")
    for n_bytes in (-1, MAX_STREAM_BYTES + 1):
        with pytest.raises(LocalProtocolError, match=f"n_bytes = {n_bytes} "):
            keystream(bytes(32), b"", n_bytes)
    for n_words in (-1, MAX_STREAM_BYTES // 8 + 1):
        with pytest.raises(LocalProtocolError, match=f"n_words = {n_words} "):
            PublicStream(SEED, b"").words(n_words)


@given(
    left=st.lists(st.binary(max_size=6), max_size=4),
    right=st.lists(st.binary(max_size=6), max_size=4),
)
def test_length_prefixes_keep_lists_of_fields_apart(left: list[bytes], right: list[bytes]) -> None:
    assert (length_prefixed(*left) == length_prefixed(*right)) == (left == right)


@given(
    key=st.binary(min_size=32, max_size=32),
    start=st.binary(max_size=200),
    rest=st.binary(max_size=200),
    n=st.integers(0, 300),
)
def test_keystreams_that_begin_alike_are_those_of_the_whole_purpose(
    key: bytes, start: bytes, rest: bytes, n: int
) -> None:
    streams = Keystreams(key, start)
    assert streams.of(rest, n) == keystream(key, start + rest, n)
    assert streams.of(rest, n) == streams.of(rest, n)  # nothing is left over from one for the next


def test_keystreams_refuse_what_a_keystream_refuses() -> None:
    with pytest.raises(LocalProtocolError, match="31 bytes"):
        Keystreams(bytes(31), b"")
    for n in (-1, MAX_STREAM_BYTES + 1):
        with pytest.raises(LocalProtocolError, match="outside"):
            Keystreams(bytes(32), b"").of(b"", n)


@pytest.mark.parametrize("high", [[0, 2**20, 5], [INT64_MAX, 2**62, 0]])
def test_bounds_that_repeat_need_not_be_repeated(high: list[int]) -> None:
    # 2**62 + 1 of 2**64 values are rejected in the second case now and then, so the order of the
    # rejected counts too
    low = [-1, -7, INT64_MIN]
    rows = PublicStream(SEED, b"rows").integers(np.tile(low, (50, 1)), np.tile(high, (50, 1)))
    assert np.array_equal(PublicStream(SEED, b"rows").integers(low, high, shape=(50, 3)), rows)


def test_a_secret_word_is_the_same_whenever_its_number_is_asked_for() -> None:
    words = SecretWords(bytes(range(32)), b"label")
    whole = words.of(0, 100)
    expected = keystream(bytes(range(32)), b"label", 800)
    assert whole.tobytes() == expected
    for first, n in ((0, 0), (99, 1), (3, 14), (8, 8), (7, 90)):
        assert np.array_equal(words.of(first, n), whole[first : first + n])


def test_secret_words_go_on_where_one_keystream_ends() -> None:
    words, end = SecretWords(bytes(32), b"label"), MAX_STREAM_BYTES // 8
    across = words.of(end - 5, 12)
    assert np.array_equal(across, np.concatenate([words.of(end - 5, 5), words.of(end, 7)]))
    assert len({*across.tolist(), *words.of(0, 12).tolist(), *words.of(2 * end, 12).tolist()}) == 36


def test_a_secret_key_is_not_shown() -> None:
    words = SecretWords(b"\x41" * 32, b"label")
    assert repr(words).startswith("<fastlloyd.")
    assert not hasattr(words, "__dict__")
