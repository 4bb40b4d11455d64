"""Expansion of a key and a label to a ChaCha20 keystream. No other module expands keys.

From secret keys come masks and, in a simulation, the assignment of records to clients. From public
seeds comes public randomness, for example for initial centroids and synthetic records. Each purpose
has a label of its own. HKDF-Expand is RFC 5869, section 2.3. ChaCha20 is RFC 8439, section 2.4,
with block counter and nonce zero, because every stream has a key of its own. NumPy's generators are
not used, because their streams may change from one version to the next.
"""

import hashlib
import hmac
import math
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms

from fastlloyd.base.arrays import FloatArray, IntArray
from fastlloyd.errors import LocalProtocolError, PlanError

KEY_BYTES = 32
"""Length of every key and seed, in bytes."""

MAX_STREAM_BYTES = 2**32 * 64
"""Largest length of a keystream. ChaCha20 numbers its 64-byte blocks with 32 bits, so a longer
stream would repeat.
"""

_FIRST_BLOCK = b"\x01"  # T(1) of HKDF-Expand, which is as long as the key
_PUBLIC_LABEL = b"fastlloyd/v1/public"
_LARGEST_WORD = np.uint64(2**64 - 1)
_BLOCK_WORDS = 8  # 64-bit words in a block of ChaCha20


def length_prefixed(*fields: bytes) -> bytes:
    """Return byte strings joined so that different lists give different bytes.

    4 bytes of big-endian length precede each string.
    """
    return b"".join([len(field).to_bytes(4, "big") + field for field in fields])


def derive(key: bytes, info: bytes) -> bytes:
    """Return the 32-byte key for the purpose `info`, by HKDF-Expand-SHA256 (RFC 5869,
    section 2.3).
    """
    _check_key(key)
    return hmac.digest(key, info + _FIRST_BLOCK, "sha256")


def keystream(key: bytes, info: bytes, n_bytes: int) -> bytes:
    """Return the first `n_bytes` bytes of the ChaCha20 keystream for the purpose `info`.

    Its key is derived from the 32-byte `key`.
    """
    return Keystreams(key, info).of(b"", n_bytes)


class Keystreams:
    """Keystreams of one key for purposes whose names have the same beginning. The beginning is
    hashed once.

    `Keystreams(key, start).of(rest, n)` equals `keystream(key, start + rest, n)`, in half the time
    for short streams.
    """

    __slots__ = ("_mac",)

    def __init__(self, key: bytes, start: bytes) -> None:
        _check_key(key)
        self._mac = hmac.new(key, start, "sha256")

    def of(self, rest: bytes, n_bytes: int) -> bytes:
        """Return the first `n_bytes` bytes of the keystream for the purpose `start + rest`."""
        if not 0 <= n_bytes <= MAX_STREAM_BYTES:
            raise LocalProtocolError(
                f"n_bytes = {n_bytes} is outside [0, {MAX_STREAM_BYTES}], the length of one"
                " keystream"
            )
        mac = self._mac.copy()
        mac.update(rest + _FIRST_BLOCK)
        return _chacha20(mac.digest()).update(bytes(n_bytes))


class SecretWords:
    """64-bit words that a secret key assigns to the numbers 0, 1, ... A number always has the same
    word.
    """

    __slots__ = ("_key",)

    def __init__(self, key: bytes, label: bytes) -> None:
        self._key = derive(key, label)

    def of(self, first: int, n: int) -> npt.NDArray[np.uint64]:
        """Return the words of the n numbers first, first + 1, ..., uint64 (n,), uniform on [0,
        2**64).
        """
        parts = [np.empty(0, dtype=np.uint64)]
        while n:
            number, within = divmod(first, MAX_STREAM_BYTES // 8)
            taken = min(n, MAX_STREAM_BYTES // 8 - within)
            block, skipped = divmod(within, _BLOCK_WORDS)
            stream = _chacha20(self._key, block, number)
            parts.append(_words(stream, skipped + taken)[skipped:])
            first, n = first + taken, n - taken
        return np.concatenate(parts)


def _chacha20(key: bytes, block: int = 0, number: int = 0) -> CipherContext:
    """Return the keystream, starting at a block of 64 bytes.

    block : index of the first block, from 0.
    number : index of the stream, because a key has several streams.
    """
    nonce = block.to_bytes(4, "little") + number.to_bytes(12, "little")
    return Cipher(algorithms.ChaCha20(key, nonce=nonce), mode=None).encryptor()


def _words(stream: CipherContext, n: int) -> npt.NDArray[np.uint64]:
    """Return the next n words of a keystream, which contains them as little-endian bytes."""
    return np.frombuffer(stream.update(bytes(8 * n)), dtype="<u8").astype(np.uint64, copy=False)


def _check_key(key: bytes) -> None:
    if len(key) != KEY_BYTES:
        raise LocalProtocolError(
            f"a key of {len(key)} bytes was given to the expander; it takes {KEY_BYTES} bytes"
        )


@dataclass(frozen=True, slots=True)
class PublicSeed:
    """32 public bytes from which all parties expand the same public randomness.

    The type differs from `GroupKey`, so that neither can be used in place of the other.
    """

    value: bytes

    def __post_init__(self) -> None:
        if len(self.value) != KEY_BYTES:
            raise PlanError(
                f"a public seed is {KEY_BYTES} bytes; use PublicSeed.from_int or"
                " PublicSeed.from_text"
            )

    @classmethod
    def from_int(cls, number: int) -> Self:
        """Return the seed whose bytes are `number`, big-endian. Raises PlanError unless 0 <= number
        < 2**256.
        """
        if not 0 <= number < 1 << (8 * KEY_BYTES):
            raise PlanError(
                f"the seed {number} is outside [0, 2**256); choose a non-negative integer below"
                " 2**256"
            )
        return cls(number.to_bytes(KEY_BYTES, "big"))

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the seed for a text: SHA-256 of a label and the text in UTF-8."""
        return cls(hashlib.sha256(b"fastlloyd/v1/public-seed" + text.encode()).digest())

    @classmethod
    def from_hex(cls, digits: str) -> Self:
        """Return the seed with exactly 64 lower-case hexadecimal digits, as `hex` gives them.

        Raises PlanError for other digits.
        """
        if len(digits) != 2 * KEY_BYTES or not set(digits) <= set("0123456789abcdef"):
            raise PlanError(
                f"a public seed is written as {2 * KEY_BYTES} lower-case hexadecimal digits"
            )
        return cls(bytes.fromhex(digits))

    def hex(self) -> str:
        """Return the seed as 64 lower-case hexadecimal digits, for plans and reports."""
        return self.value.hex()


@dataclass(frozen=True, slots=True)
class Spans:
    """Ranges of integers, one or an array of them, and the rule that draws uniformly from each.

    A word w gives low + (w mod n), where n = high - low + 1. The word is rejected if it exceeds the
    largest accepted word, 2**64 - 1 - (2**64 mod n).
    """

    lows: npt.NDArray[np.uint64]
    n: npt.NDArray[np.uint64]  # 1 where it is 2**64, which no uint64 is
    largest_accepted: npt.NDArray[np.uint64]
    # where n is 2**64, so that every word is accepted as it is; None if nowhere
    is_whole: npt.NDArray[np.bool_] | None

    @classmethod
    def of(cls, low: npt.ArrayLike, high: npt.ArrayLike) -> Self:
        """Return the ranges from `low` to `high`, both ends included. The arrays must broadcast."""
        lows, highs = np.broadcast_arrays(_as_int64(low, "low"), _as_int64(high, "high"))
        if np.any(highs < lows):
            raise LocalProtocolError("high is below low, so there is no integer to draw")
        start = lows.view(np.uint64)
        span = highs.view(np.uint64) - start  # high - low, exact modulo 2**64
        whole = span == _LARGEST_WORD
        n = np.where(whole, np.uint64(1), span + np.uint64(1))
        largest_accepted = _LARGEST_WORD - (_LARGEST_WORD % n + np.uint64(1)) % n
        return cls(start, n, largest_accepted, whole if whole.any() else None)


class PublicStream:
    """Public random integers, the same on every machine and for every version of NumPy.

    A seed and a label determine a stream of 64-bit words, little-endian in the keystream. Each call
    takes the next words.
    """

    def __init__(self, seed: PublicSeed, label: bytes) -> None:
        if not isinstance(seed, PublicSeed):
            raise LocalProtocolError(
                "expected a PublicSeed; public randomness is never expanded from a key"
            )
        self._stream = _chacha20(derive(seed.value, _PUBLIC_LABEL + length_prefixed(label)))

    def words(self, n_words: int) -> npt.NDArray[np.uint64]:
        """Return the next `n_words` words of the stream, uint64, uniform on [0, 2**64)."""
        if not 0 <= 8 * n_words <= MAX_STREAM_BYTES:
            raise LocalProtocolError(f"n_words = {n_words} is outside [0, {MAX_STREAM_BYTES // 8}]")
        return _words(self._stream, n_words)

    def integers(
        self, low: npt.ArrayLike, high: npt.ArrayLike, shape: tuple[int, ...] | None = None
    ) -> IntArray:
        """Return exactly uniform, independent integers in [low, high], both ends included.

        `low` and `high` are int64 and broadcast to `shape`, or to each other's shape. In C order,
        every element takes one word (`Spans`). If words are rejected, their elements take the next
        words of the stream, in the same order, until all are accepted.
        """
        spans = Spans.of(low, high)
        return self.within(spans, spans.n.shape if shape is None else shape)

    def within(self, spans: Spans, shape: tuple[int, ...]) -> IntArray:
        """Return what `integers` returns, for spans that were made once and are used many times."""
        words = self.words(math.prod(shape)).reshape(shape)
        offsets = words % spans.n
        if spans.is_whole is not None:
            offsets = np.where(spans.is_whole, words, offsets)
        pending = np.flatnonzero(words > spans.largest_accepted)
        while pending.size:
            words = self.words(pending.size)
            offsets.flat[pending] = words % np.broadcast_to(spans.n, shape).flat[pending]
            pending = pending[words > np.broadcast_to(spans.largest_accepted, shape).flat[pending]]
        return (spans.lows + offsets).view(np.int64)


def _as_int64(values: npt.ArrayLike, name: str) -> IntArray:
    array = np.asarray(values)
    if not np.can_cast(array.dtype, np.int64, "safe"):
        raise LocalProtocolError(f"{name} has dtype {array.dtype}; int64 was expected")
    return array.astype(np.int64, copy=False)


class Draws(PublicStream):
    """Public stream that also gives floats, which are never used for noise.

    The last digit of a float may differ between machines. Each purpose has a label of its own, so
    its draws reveal nothing about the draws for another purpose.
    """

    def uniform(
        self, low: float | FloatArray, high: float | FloatArray, shape: tuple[int, ...]
    ) -> FloatArray:
        """Return uniform numbers in [low, high], of the given shape.

        They are midpoints of 2^52 cells, so neither end of the range occurs.

        low, high : numbers, or arrays that broadcast to the shape, such as the corners of a box for
            points as rows.
        """
        cells = self.words(math.prod(shape)) >> np.uint64(12)
        unit = (cells.astype(np.float64) + 0.5) * 2.0**-52
        return np.asarray(low + (high - low) * unit.reshape(shape), dtype=np.float64)

    def normal(self, shape: tuple[int, ...]) -> FloatArray:
        """Return standard normal numbers of the given shape, by inversion. None of them is beyond
        8.3.
        """
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(0.0, 1.0, shape)), dtype=np.float64)

    def permutation(self, n: int) -> IntArray:
        """Return 0, ..., n - 1 in random order, int64 (n,)."""
        return np.argsort(self.words(n), kind="stable")

    def rotation(self, d: int) -> FloatArray:
        """Return a random orthogonal matrix (d, d), with uniform (Haar) distribution.

        It is the Q of a QR decomposition of a normal matrix, with the signs that make it unique.
        """
        q, r = np.linalg.qr(self.normal((d, d)))
        return np.asarray(q * np.copysign(1.0, np.diag(r)), dtype=np.float64)
