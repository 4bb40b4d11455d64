"""Division of a person's shares among the person's rows.

A person with m rows and W shares gives each row floor(W / m) shares, and the first W mod m rows one
more. (If m > W, the first W rows have one share each.) The rows are sorted by a hash. It is
computed from the person, the row, and the row's index among equal rows of the person. So the
division depends only on the multiset of the person's own rows. The order of the file and the other
persons do not matter. Equal values of different persons have different hashes, so no value comes
first for all persons.

Privacy needs two properties of the hash (docs/proofs/persons.md). First, different persons must
have different hashes, for which 128 bits of BLAKE2b suffice. Second, no party may be able to make
many different rows of a person with equal hashes. Such rows are taken for equal rows. If one of
them is removed, the indices of the others change, and so do their numbers of shares. The key of the
hash is public, so plain arithmetic does not suffice, but 64 bits of BLAKE2b do. Two different rows
may have the same hash by accident. That does no harm: if one of them is removed, no more shares
move than if any other row is removed. Equal rows are numbered by plain arithmetic on whole arrays,
as in SplitMix64 (Steele, Lea and Flood 2014).
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastlloyd.base.arrays import GridArray, IntArray
from fastlloyd.base.randomness import PublicSeed, derive

Words = NDArray[np.uint64]
Shares = NDArray[np.uint16]

_LABEL = b"fastlloyd/v1/persons/spread"
_PERSON_BYTES, _ROW_BYTES = 16, 8
_SPAN = 1 << 14  # rows that are held as bytes at a time
# of mix13 (Stafford), the finaliser of SplitMix64, and the step of its state: the odd number
# nearest to 2**64 / golden ratio
_FIRST, _SECOND, _STEP = (
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
    np.uint64(0x9E3779B97F4A7C15),
)


def spread_key(seed: PublicSeed) -> bytes:
    """Return the key of the hashes, 32 bytes.

    It follows from the public seed of a mechanism, so every client spreads shares in the same way.
    """
    return derive(seed.value, _LABEL)


def person_hashes(ids: Sequence[bytes], key: bytes) -> Words:
    """Return the 128-bit hash of each id, uint64 (n, 2).

    ids : text of each cell in UTF-8, or an integer in decimal.
    """
    digests = b"".join(
        [hashlib.blake2b(each, digest_size=_PERSON_BYTES, key=key).digest() for each in ids]
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64).reshape(-1, 2)


def row_hashes(persons: Words, X: GridArray) -> Words:
    """Return a 64-bit hash of each row of a person, uint64 (n,).

    persons : result of `person_hashes` for each row, uint64 (n, 2).
    X : grid points (n, n_features), with features in the plan's order.
    """
    hashes = np.empty(len(X), dtype=np.uint64)
    for start in range(0, len(X), _SPAN):
        span = slice(start, start + _SPAN)
        hashes[span] = hashed(
            np.column_stack([persons[span], X[span].astype(np.int64).view(np.uint64)])
        )
    return hashes


def hashed(rows: Words, key: bytes = b"") -> Words:
    """Return 64 bits of BLAKE2b for each row of words, uint64 (n,).

    rows : words, uint64 (n, m).
    key : key of the hash, or b"" for a hash without a key.
    """
    content, n_bytes = rows.astype("<u8").tobytes(), 8 * rows.shape[1]
    each = (content[at : at + n_bytes] for at in range(0, len(content), n_bytes))
    digests = [hashlib.blake2b(row, digest_size=_ROW_BYTES, key=key).digest() for row in each]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def numbered_hashes(hashes: Words, numbers: IntArray) -> Words:
    """Return the sort key of each row, uint64 (n,).

    The sort key of a row with index i among equal rows is output i of a SplitMix64 generator whose
    seed is the row's hash.

    hashes : hashes of the rows, uint64 (n,).
    numbers : index of each row among the rows of its person with the same hash, from 0, int64 (n,).
    """
    state = numbers.view(np.uint64) + np.uint64(1)
    state *= _STEP
    state += hashes
    _mix(state)
    return state


def spread_evenly(ranks: IntArray, sizes: IntArray, weight_bits: int) -> Shares:
    """Return the number of shares of each row, uint16 (n,), from 2**weight_bits shares of a person.

    ranks : number of the person's rows that come before this row, int64 (n,).
    sizes : number of the person's rows, int64 (n,).
    """
    least, left = np.divmod(np.int64(1 << weight_bits), sizes)
    return (least + (ranks < left)).astype(np.uint16)


def shares_of(
    ids: Sequence[bytes], X: GridArray, key: bytes, weight_bits: int
) -> tuple[Shares, int]:
    """Return the number of shares of each row, uint16 (n,), and the number of persons.

    ids : id of each row, as in `person_hashes`.
    X : grid points (n, n_features) of all usable rows.
    key : result of `spread_key`.
    weight_bits : base-2 logarithm of the number of shares of a person.
    """
    numbers: dict[bytes, int] = {}
    places = np.fromiter(
        (numbers.setdefault(each, len(numbers)) for each in ids), dtype=np.int64, count=len(ids)
    )
    persons = person_hashes(list(numbers), key)[places]
    return spread(persons, row_hashes(persons, X), weight_bits)


def spread(persons: Words, hashes: Words, weight_bits: int) -> tuple[Shares, int]:
    """Return the number of shares of each row, uint16 (n,), and the number of persons.

    persons : words that identify the person of each row, uint64 (n, 2) or wider.
    hashes : result of `row_hashes`, uint64 (n,).
    weight_bits : base-2 logarithm of the number of shares of a person.
    """
    order = np.lexsort((hashes, *persons.T[::-1]))
    hashes, whose = hashes[order], numbered(persons[order])
    among_equals, _ = _ranks(_differs(whose) | _differs(hashes))
    again = np.lexsort((numbered_hashes(hashes, among_equals), whose))
    shares = np.empty(len(hashes), dtype=np.uint16)
    shares[order[again]] = spread_evenly(*_ranks(_differs(whose)), weight_bits)
    return shares, int(whose[-1]) + 1 if len(whose) else 0


def numbered(words: Words) -> IntArray:
    """Number the different rows of words from 0. Return the number of each row, int64 (n,).

    words : words (n, m), in which equal rows are adjacent.
    """
    return np.cumsum(np.any([_differs(word) for word in words.T], axis=0), dtype=np.int64) - 1


def ranks(values: NDArray[Any]) -> IntArray:
    """Return the position of each value among the values equal to it, int64 (n,).

    values : values, in which equal values are adjacent.
    """
    return _ranks(_differs(values))[0]


def numbers_among_equals(persons: Words, hashes: Words) -> IntArray:
    """Return the index of each row among the rows of its person with the same hash, int64 (n,).

    Indices begin at 0 and follow the order of the rows.
    """
    order = np.lexsort((hashes, *persons.T[::-1]))
    found = np.empty(len(order), dtype=np.int64)
    found[order], _ = _ranks(_differs(hashes[order]) | _differs(numbered(persons[order])))
    return found


def _mix(state: Words) -> None:
    """Replace each word by the value of a one-to-one function."""
    state ^= state >> np.uint64(30)
    state *= _FIRST
    state ^= state >> np.uint64(27)
    state *= _SECOND
    state ^= state >> np.uint64(31)


def _differs(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each value differs from the value before it, bool (n,).

    For the first value the result is True.
    """
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def _ranks(begins: NDArray[np.bool_]) -> tuple[IntArray, IntArray]:
    """Return the position of each element in its group, from 0, and the size of its group. A group
    consists of adjacent elements.

    begins : whether a group begins at the element.
    """
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(begins)))
    return np.arange(len(begins), dtype=np.int64) - np.repeat(starts, lengths), np.repeat(
        lengths, lengths
    )
