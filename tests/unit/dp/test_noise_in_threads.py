"""Noise that several threads read and compute: the same values of the same bits, every byte used
once, and an error instead of part of a draw.
"""

import itertools
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fastlloyd.base import threads
from fastlloyd.dp import first_bits, noise
from fastlloyd.dp.first_bits import cubics_of
from fastlloyd.dp.noise import SystemNoise, rounded_gaussian, system_bytes, two_sided_geometric
from fastlloyd.dp.quantiles import NORMAL
from fastlloyd.errors import FastLloydError
from fastlloyd.testing import SeededNoise

# 4, 5 and 8 bytes first
SCALES = [Fraction(7, 2), Fraction(2) ** 26 + 1, Fraction(2) ** 40]
SIZE = 10_001
Sampler = Callable[[Fraction, int, noise.RandomBytes], NDArray[np.int64]]


def use_threads(patch: pytest.MonkeyPatch, n: int) -> None:
    """Use this number of threads, however little there is to do."""
    patch.setenv("OMP_NUM_THREADS", str(n))
    patch.setattr(threads, "LEAST_NANOSECONDS", 1)


class Pieces:
    """The system's source, with every piece that it gave, by any thread."""

    def __init__(self, *, fails_at: int | None = None, short_at: int | None = None) -> None:
        self.given: list[bytes] = []
        self._fails_at, self._short_at, self._lock = fails_at, short_at, threading.Lock()
        self._stream = SeededNoise(3)

    def __call__(self, size: int) -> bytes:
        with self._lock:
            number = len(self.given)
            self.given.append(self._stream._bytes(size - (number == self._short_at)))
        if number == self._fails_at:
            raise OSError("no entropy")
        return self.given[number]


@pytest.mark.parametrize("draw", [rounded_gaussian, two_sided_geometric])
@pytest.mark.parametrize("scale", SCALES)
def test_equal_bytes_give_equal_values_in_equal_places_whatever_the_number_of_threads(
    draw: Sampler, scale: Fraction, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[list[int], bytes]] = []
    for n in (1, 2, 3, 7):
        use_threads(monkeypatch, n)
        source = SeededNoise(7)
        found.append((draw(scale, SIZE, source._bytes).tolist(), source._bytes(8)))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("size", [1001, 4096])
def test_bytes_of_the_system_are_each_handed_out_once(
    size: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_threads(monkeypatch, n)
    source = Pieces()
    monkeypatch.setattr(os, "urandom", source)
    found = system_bytes(size)
    assert len(found) == size
    assert len(source.given) == (2 * n if n > 1 else 1)
    assert found in {b"".join(order) for order in itertools.permutations(source.given)}


def test_noise_of_threads_is_that_of_the_bytes_that_they_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_threads(monkeypatch, 2)
    # one is read by two threads, then one after the other
    monkeypatch.setattr(threads, "LEAST_NANOSECONDS", 2 * SIZE)
    source = Pieces()
    monkeypatch.setattr(os, "urandom", source)
    found = SystemNoise().gaussian(Fraction(1000), SIZE).tolist()
    read, others = source.given[:4], source.given[4:]
    assert 4 * SIZE <= sum(map(len, read)) < 4 * SIZE + 8

    def values(bits: bytes) -> object:
        pieces = iter([bits, *others])
        return rounded_gaussian(Fraction(1000), SIZE, lambda _: next(pieces)).tolist()

    assert found in [values(b"".join(order)) for order in itertools.permutations(read)]


@pytest.mark.parametrize("law", ["gaussian", "two_sided_geometric"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_source_that_fails_in_any_thread_is_an_error_and_no_noise_comes_out(
    law: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_threads(monkeypatch, 2)
    monkeypatch.setattr(os, "urandom", Pieces(fails_at=number))
    with pytest.raises(OSError, match="no entropy"):
        getattr(SystemNoise(), law)(Fraction(10), SIZE)
    monkeypatch.setattr(os, "urandom", Pieces(short_at=number))
    with pytest.raises(FastLloydError, match="no noise was"):
        getattr(SystemNoise(), law)(Fraction(10), SIZE)


def test_a_source_that_gives_two_threads_the_same_bytes_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_threads(monkeypatch, 2)
    monkeypatch.setattr(os, "urandom", lambda size: SeededNoise(3)._bytes(size))
    with pytest.raises(FastLloydError, match="same bytes to two threads"):
        SystemNoise().gaussian(Fraction(10), SIZE)


def test_a_number_that_no_thread_has_looked_at_is_completed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = rounded_gaussian(Fraction(10), SIZE, SeededNoise(5)._bytes)
    monkeypatch.setattr(first_bits, "shared", lambda *_, **__: [])
    _, is_open = cubics_of(NORMAL, 4).look(np.arange(SIZE), 10.0, 0.5)
    assert is_open.all()
    found = rounded_gaussian(Fraction(10), SIZE, SeededNoise(5)._bytes)
    # the first 32 bits are the same, and nearly always decide
    assert np.count_nonzero(found != expected) < SIZE / 30


@pytest.mark.parametrize("seed", [1, 2])
def test_the_number_of_draws_alone_decides_whether_threads_are_used(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    in_spans = threads.in_spans

    def counted(task: Any, n: int, pieces: int, n_threads: int) -> list[Any]:
        used.append(n_threads)
        return in_spans(task, n, pieces, n_threads)

    monkeypatch.setattr(threads, "in_spans", counted)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    least = threads.LEAST_NANOSECONDS // 2  # a draw takes 4
    for size in (least - 1, least):
        numbers = np.random.default_rng(seed).integers(0, 2**32, size)
        cubics_of(NORMAL, 4).look(numbers, 10.0, 0.5)
    least = threads.LEAST_NANOSECONDS  # a byte takes 2
    for size in (least - 1, least):
        system_bytes(size)
    assert used == [2, 2]
