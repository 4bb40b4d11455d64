"""The samplers as exact functions of the bits they are fed, and their refusals. The laws:
tests/statistical.

Oracle: the quantile by mpmath with 600 bits, floor(scale * Phi^-1(u) + 1/2) and ceil(scale * ln u),
which shares nothing with the samplers' search over the distribution function.
"""

import hashlib
import inspect
import math
import os
import pickle
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fastlloyd.dp import noise
from fastlloyd.dp.first_bits import LARGEST_SCALES, cubics_of
from fastlloyd.dp.noise import MAX_SCALE, SystemNoise, rounded_gaussian, two_sided_geometric
from fastlloyd.dp.quantiles import EXPONENTIAL, NORMAL, Law
from fastlloyd.errors import FastLloydError, OverflowRisk
from fastlloyd.testing import SeededNoise

SCALES = [
    Fraction(1, 65536),
    Fraction(7, 10),
    Fraction(3),
    Fraction(1000, 7),
    Fraction(2) ** 24,
    Fraction(2) ** 26,
    Fraction(2) ** 44,
]
BITS = 600
Sampler = Callable[[Fraction, int, noise.RandomBytes], NDArray[np.int64]]
RECORDED = {  # SHA-256 of draws from seeded bits
    "rounded_gaussian": "97b22bf52a93445bde8f747a7f1567142a502f7ef16e0a07020add54b7725626",
    "two_sided_geometric": "5d344084d35e7f6bb6bb0dfd5aada97cb66d9bdd76eb6f99ce6f7c68efd8cdf5",
}
FULL = 2**63 - 1  # the last prefix of p in (0, 1/2)


class Script:
    """A random source that hands out the given 64-bit words, and fails when asked for more."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words = list(words)

    def __call__(self, size: int) -> bytes:
        count, rest = divmod(size, 8)
        assert rest == 0
        taken, self.words = self.words[:count], self.words[count:]
        return b"".join(word.to_bytes(8, "little") for word in taken)


class Numbers:
    """A random source from which a draw takes these 64-bit words, whole or in two pieces, and then
    the further words.

    The last bit of a word is the sign if the law is mirrored. Two pieces are the first 32 or 40
    bits, and the rest if those leave a value open.
    """

    def __init__(
        self, law: Law, scale: Fraction, words: Sequence[int], further: Sequence[int] = ()
    ) -> None:
        self.further, self._pieces = Script(further), [list(words)]
        n_bytes = next((n for n, most in LARGEST_SCALES.items() if 1 <= scale <= most), 8)
        if n_bytes < 8:
            n_left = 64 - 8 * n_bytes
            known = [word >> law.mirrored for word in words]
            firsts = [
                (number >> n_left << law.mirrored) | (word & law.mirrored)
                for number, word in zip(known, words, strict=True)
            ]
            _, is_open = cubics_of(law, n_bytes).look(
                np.array(firsts), float(scale), law.mirrored / 2
            )
            # what is drawn beyond 64 bits is not used: it numbers the words, so that no two are equal
            rests = [
                (number % 2**n_left << 8 * n_bytes) | i
                for i, number in enumerate(known)
                if is_open[i]
            ]
            usual = cubics_of(law, n_bytes).n_completed(len(words), float(scale))
            rests += [len(words) + i for i in range(usual - len(rests))]
            data = b"".join((first >> 8 * (n_bytes - 4)).to_bytes(4, "little") for first in firsts)
            data += bytes(first % 256 for first in firsts) if n_bytes == 5 else b""
            data += bytes(-len(data) % 8)
            data += (2**64 - 1).to_bytes(8, "little") * (len(data) == 8)
            self._pieces = [
                [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)],
                rests,
            ]

    def __call__(self, size: int) -> bytes:
        return Script(self._pieces.pop(0))(size) if self._pieces else self.further(size)

    @property
    def is_used_up(self) -> bool:
        return not self._pieces and not self.further.words


@cache
def normal_quantile(p: Fraction) -> mpmath.mpf:
    """Phi^-1(p) for 0 < p < 1/2 by Newton's method on log Phi, from the asymptotic start."""
    with mpmath.workprec(BITS):
        q = mpmath.mpf(p.numerator) / p.denominator
        z = -mpmath.sqrt(-2 * mpmath.log(q)) if q < 0.1 else (q - mpmath.mpf(1) / 2) * 2.5
        for _ in range(200):
            step = (mpmath.log(mpmath.ncdf(z)) - mpmath.log(q)) * mpmath.ncdf(z) / mpmath.npdf(z)
            z -= step
            if abs(step) < mpmath.ldexp(1, -BITS // 2 - 20):
                return z
    raise AssertionError("Newton's method did not converge")


def exact_gaussian(p: Fraction, scale: Fraction) -> int:
    with mpmath.workprec(BITS):
        sigma = mpmath.mpf(scale.numerator) / scale.denominator
        return int(mpmath.floor(sigma * normal_quantile(p) + mpmath.mpf(1) / 2))


def exact_geometric(u: Fraction, scale: Fraction) -> int:
    with mpmath.workprec(BITS):
        b = mpmath.mpf(scale.numerator) / scale.denominator
        return int(mpmath.ceil(b * mpmath.log(mpmath.mpf(u.numerator) / u.denominator)))


def normal_threshold(m: int, scale: Fraction, bits: int) -> int:
    """The first `bits` bits of Phi((m + 1/2) / scale)."""
    with mpmath.workprec(BITS):
        x = mpmath.mpf(2 * m + 1) / 2 * scale.denominator / scale.numerator
        return int(mpmath.floor(mpmath.ldexp(mpmath.ncdf(x), bits)))


def exponential_threshold(m: int, scale: Fraction, bits: int) -> int:
    """The first `bits` bits of e^(m / scale)."""
    with mpmath.workprec(BITS):
        return int(
            mpmath.floor(
                mpmath.ldexp(mpmath.exp(mpmath.mpf(m) * scale.denominator / scale.numerator), bits)
            )
        )


def gaussian_from(words: Sequence[int], scale: Fraction, size: int = 1, sign: int = 0) -> list[int]:
    """Draw from the prefixes (of p) in `words[:size]`, then further bits; all of the words must be
    used up.
    """
    source = Numbers(NORMAL, scale, [2 * word + sign for word in words[:size]], words[size:])
    drawn = rounded_gaussian(scale, size, source)
    assert source.is_used_up
    return [int(value) for value in drawn]


def geometric_from(words: Sequence[int], scale: Fraction) -> int:
    """The first geometric number minus the second, whose u is next to 1 and which is therefore
    0.
    """
    source = Numbers(EXPONENTIAL, scale, [words[0], 2**64 - 2], words[1:])
    (drawn,) = two_sided_geometric(scale, 1, source).tolist()
    assert source.is_used_up
    return int(drawn)


# Exactness on given bits


@pytest.mark.parametrize("scale", SCALES)
def test_gaussian_equals_the_exact_quantile_on_every_coarse_prefix(scale: Fraction) -> None:
    # 2^9 cells of p, each next to its midpoint; the further bits of those that float64 leaves open:
    # 1000...
    words = [((2 * i + 1) << 53) + (i << 24) for i in range(2**9)]
    source = Numbers(NORMAL, scale, [2 * word for word in words], [2**63] * len(words))
    drawn = rounded_gaussian(scale, len(words), source)
    exact = [exact_gaussian(Fraction(word, 2**64) + Fraction(1, 2**65), scale) for word in words]
    assert drawn.tolist() == exact


@pytest.mark.parametrize("scale", [Fraction(7, 10), Fraction(3), Fraction(1000, 7)])
def test_gaussian_cells_hold_as_many_prefixes_as_the_exact_law_says(scale: Fraction) -> None:
    # of n midpoints (i + 1/2) / 2n, those up to F(m) number round(2n F(m)), at every m
    n = 2**12
    words = [(2 * i + 1) << 50 for i in range(n)]
    drawn = rounded_gaussian(scale, n, Numbers(NORMAL, scale, [2 * word for word in words]))
    for m in range(int(drawn.min()) - 1, 0):
        assert np.count_nonzero(drawn <= m) == (normal_threshold(m, scale, 14) + 1) // 2


@pytest.mark.parametrize("scale", [Fraction(7, 10), Fraction(3), Fraction(1000, 7)])
def test_geometric_cells_hold_as_many_prefixes_as_the_exact_law_says(scale: Fraction) -> None:
    n = 2**12
    words = [(2 * i + 1) << 51 for i in range(n)]
    others = [
        2**64 - 2 - (i << 33) for i in range(n)
    ]  # u next to 1: the other geometric number is 0
    source = Numbers(EXPONENTIAL, scale, words + others, [2**63] * n)
    drawn = two_sided_geometric(scale, n, source)
    for m in range(int(drawn.min()) - 1, 0):
        assert np.count_nonzero(drawn <= m) == (exponential_threshold(m, scale, 13) + 1) // 2


@pytest.mark.parametrize("scale", SCALES)
def test_the_sign_bit_mirrors_the_value(scale: Fraction) -> None:
    words = [1 << i | i << 24 for i in range(30, 63)]
    further = [2**63] * 80
    left, right = (
        rounded_gaussian(
            scale,
            len(words),
            Numbers(NORMAL, scale, [2 * word + sign for word in words], further),
        )
        for sign in (0, 1)
    )
    assert np.array_equal(left, -right)
    assert np.all(left <= 0)


@pytest.mark.parametrize("scale", [*SCALES, Fraction(1, 10**400)])
def test_the_first_cell_of_the_gaussian_is_refined(scale: Fraction) -> None:
    for further in (2**63 + 12345, 1, 2**64 - 1):
        exact = exact_gaussian(Fraction(2 * further + 1, 2**129), scale)
        assert rounded_gaussian(
            scale, 1, Numbers(NORMAL, scale, [0], [further, 2**63, 2**63])
        ).tolist() == [exact]
        assert exact <= -9 * scale + 1


def test_the_first_cell_of_the_gaussian_may_stay_open_for_long() -> None:
    # p = 3 / 2^257: nothing is known of its size before the fourth word, and of the integer before
    # the fifth
    scale = Fraction(2) ** 40
    assert gaussian_from([0, 0, 0, 1, 2**63], scale) == [
        exact_gaussian(Fraction(3 * 2**64 + 1, 2**321), scale)
    ]


@pytest.mark.parametrize("scale", SCALES)
def test_the_last_cell_of_the_gaussian_is_zero(scale: Fraction) -> None:
    # p in [1/2 - 2^-64, 1/2]: |z| < 2^-62, and scale is at most 2^44
    for sign in (0, 1):
        drawn = rounded_gaussian(scale, 1, Numbers(NORMAL, scale, [2 * FULL + sign], [2**63]))
        assert drawn.tolist() == [0]


@pytest.mark.parametrize(
    "scale", [Fraction(7, 10), Fraction(3), Fraction(1000, 7), Fraction(2) ** 26]
)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_an_ambiguous_cell_of_the_gaussian_is_decided_by_further_bits(
    scale: Fraction, steps: int
) -> None:
    # the cell that holds Phi((m + 1/2) / scale), then bits just below and just above the threshold;
    # m even and odd
    for m in (-1, -2, -math.ceil(scale), -math.ceil(2 * scale) - 1):
        threshold = normal_threshold(m, scale, 64 * (steps + 1))
        for nudge, expected in ((-5, m), (5, m + 1)):
            number = threshold + nudge
            words = [number >> 64 * steps] + [
                (number >> 64 * i) % 2**64 for i in reversed(range(steps))
            ]
            assert gaussian_from(words, scale) == [expected]


@pytest.mark.parametrize(
    "scale", [Fraction(7, 10), Fraction(3), Fraction(1000, 7), Fraction(2) ** 26]
)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_an_ambiguous_cell_of_the_geometric_is_decided_by_further_bits(
    scale: Fraction, steps: int
) -> None:
    for m in (-1, -2, -math.ceil(scale), -math.ceil(2 * scale) - 1):
        threshold = exponential_threshold(m, scale, 64 * (steps + 1))
        for nudge, expected in ((-5, m), (5, m + 1)):
            number = threshold + nudge
            words = [number >> 64 * steps] + [
                (number >> 64 * i) % 2**64 for i in reversed(range(steps))
            ]
            assert geometric_from(words, scale) == expected


@pytest.mark.parametrize("scale", [*SCALES, Fraction(1, 10**400)])
def test_the_first_cell_of_the_geometric_is_refined(scale: Fraction) -> None:
    for further in (2**63 + 12345, 1, 2**64 - 1):
        exact = exact_geometric(Fraction(2 * further + 1, 2**129), scale)
        source = Numbers(EXPONENTIAL, scale, [0, 2**64 - 2**20], [further, 2**63, 2**63, 2**63])
        drawn = int(two_sided_geometric(scale, 1, source)[0])
        other = exact_geometric(1 - Fraction(2**21 - 1, 2**65), scale)
        assert drawn == exact - other
        assert exact <= -44 * scale + 1


@settings(max_examples=150, deadline=None)
@given(st.integers(1, FULL), st.integers(1, 2**64 - 1), st.fractions(Fraction(1, 100), 2**44))
def test_gaussian_equals_the_exact_quantile_on_random_bits(
    word: int, further: int, scale: Fraction
) -> None:
    exact = exact_gaussian(Fraction(word * 2**64 + further, 2**128) + Fraction(1, 2**129), scale)
    assert rounded_gaussian(
        scale, 1, Numbers(NORMAL, scale, [2 * word], [further, 2**63])
    ).tolist() == [exact]


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1), st.fractions(Fraction(1, 100), 2**44))
def test_geometric_equals_the_exact_quantile_on_random_bits(
    word: int, further: int, scale: Fraction
) -> None:
    exact = exact_geometric(Fraction(word * 2**64 + further, 2**128) + Fraction(1, 2**129), scale)
    other = 2**64 - 2
    # with the same first bits, the source would give 64 bits twice, which is refused
    assume(word >> 32 != other >> 32)
    source = Numbers(EXPONENTIAL, scale, [word, other], [further, 2**63])
    assert two_sided_geometric(scale, 1, source).tolist() == [exact]


# How many draws float64 leaves open


def decided_exactly(
    monkeypatch: pytest.MonkeyPatch, draw: Sampler, scale: Fraction, size: int
) -> int:
    """How many values of a draw needed the distribution function."""
    asked = []

    def counted(holds: Callable[[int], bool], low: int | None, high: int) -> int:
        asked.append(high)
        return least_integer(holds, low, high)

    least_integer = noise._least_integer
    monkeypatch.setattr(noise, "_least_integer", counted)
    draw(scale, size, SeededNoise(5)._bytes)
    return len(asked)


@pytest.mark.parametrize("draw", [rounded_gaussian, two_sided_geometric])
def test_hardly_a_draw_needs_the_distribution_function_at_any_scale(
    draw: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    # at 2^36 every 14th did before, and from 2^40 on all of them
    counts = [
        decided_exactly(monkeypatch, draw, Fraction(2) ** power, 102_500)
        for power in (2, 24, 36, 40, 44)
    ]
    assert counts[0] <= 1
    assert counts[1] <= 1
    assert counts[2] <= 2
    assert counts[3] <= 30
    assert counts[4] <= 400


@pytest.mark.parametrize("draw", [rounded_gaussian, two_sided_geometric])
def test_what_is_drawn_depends_on_the_bits_alone(draw: Sampler) -> None:
    # recorded; a draw that a library's last digit could change would use up other bits on another
    # machine
    values = [draw(Fraction(2) ** power, 4000, SeededNoise(7)._bytes) for power in (3, 24, 30, 44)]
    digest = hashlib.sha256(b"".join(value.astype("<i8").tobytes() for value in values)).hexdigest()
    assert digest == RECORDED[draw.__name__]


# Shapes, ranges, refusals


@pytest.mark.parametrize("draw", [rounded_gaussian, two_sided_geometric])
@pytest.mark.parametrize("size", [0, 1, 2, 1025])
def test_values_are_int64_of_the_asked_shape(
    draw: Callable[[Fraction, int, noise.RandomBytes], np.ndarray], size: int
) -> None:
    drawn = draw(Fraction(5), size, os.urandom)
    assert drawn.dtype == np.int64
    assert drawn.shape == (size,)


@pytest.mark.parametrize("draw", [rounded_gaussian, two_sided_geometric])
def test_scales_that_cannot_be_served_are_refused(
    draw: Sampler,
) -> None:
    for scale in (Fraction(0), Fraction(-3), Fraction(-(10**400))):
        with pytest.raises(OverflowRisk, match="above 0"):
            draw(scale, 3, os.urandom)
    for scale in (Fraction(MAX_SCALE) + Fraction(1, 10**9), Fraction(10) ** 400):
        with pytest.raises(OverflowRisk, match=r"most 2\^44.*larger epsilon"):
            draw(scale, 3, os.urandom)
    assert draw(Fraction(MAX_SCALE), 3, os.urandom).shape == (3,)


@pytest.mark.parametrize("draw", [rounded_gaussian, two_sided_geometric])
@pytest.mark.parametrize("scale", [Fraction(1, 65536), Fraction(1, 10**400)])
def test_noise_far_below_the_grid_is_zero(draw: Sampler, scale: Fraction) -> None:
    # P(not 0) = 2 Phi(-32768) < e^-(5 * 10^8), or e^-65536
    assert not np.any(draw(scale, 2000, os.urandom))


def failing(_: int) -> bytes:
    raise OSError("no entropy")


SYSTEM = os.urandom
FAILURES: list[tuple[noise.RandomBytes, type[Exception]]] = [
    (failing, OSError),
    (lambda _: b"", FastLloydError),
    (lambda size: SYSTEM(size - 1), FastLloydError),
    (lambda size: SYSTEM(size + 8), FastLloydError),
    (lambda size: b"\x00" * size, FastLloydError),
    (lambda size: b"\x42" * size, FastLloydError),
    (lambda size: b"\xff" * size, FastLloydError),
]


@pytest.mark.parametrize("name", ["gaussian", "two_sided_geometric"])
@pytest.mark.parametrize(("source", "error"), FAILURES)
@pytest.mark.parametrize("size", [1, 2, 50])
def test_a_failing_random_source_is_an_error_and_never_zeros(
    name: str,
    source: noise.RandomBytes,
    error: type[Exception],
    size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "urandom", source)
    with pytest.raises(error):
        getattr(SystemNoise(), name)(Fraction(10), size)


def test_a_source_that_gets_stuck_in_a_refinement_is_an_error() -> None:
    with pytest.raises(FastLloydError, match="the same bytes"):
        rounded_gaussian(Fraction(1, 2), 1, bytes)


def test_a_source_that_fails_in_a_refinement_is_an_error() -> None:
    with pytest.raises(FastLloydError, match="0 of 8"):
        rounded_gaussian(Fraction(1, 2), 1, Script([0]))


# Weaknesses of published code that must not come back


def test_w01_noise_has_no_seed() -> None:
    with pytest.raises(TypeError):
        SystemNoise(7)  # type: ignore[call-arg]
    source = SystemNoise()
    assert not hasattr(source, "__dict__")
    with pytest.raises(AttributeError):
        source.seed = 7  # type: ignore[attr-defined]
    for method in (SystemNoise.gaussian, SystemNoise.two_sided_geometric):
        assert list(inspect.signature(method).parameters) == ["self", "scale", "size"]


def test_w01_seeding_the_generators_of_python_and_numpy_changes_nothing() -> None:
    draws = []
    for _ in range(2):
        random.seed(7)
        np.random.seed(7)
        draws.append(SystemNoise().gaussian(Fraction(2) ** 30, 8))
    assert np.all(draws[0] != draws[1])  # by chance one in 8 equal: 1e-8


def test_w01_a_stored_copy_of_the_source_replays_nothing() -> None:
    stored = pickle.dumps(SystemNoise())
    first, second = pickle.loads(stored), pickle.loads(stored)  # noqa: S301 - made one line above
    assert np.all(first.gaussian(Fraction(2) ** 30, 8) != second.gaussian(Fraction(2) ** 30, 8))


def test_w17_rounding_half_up_commutes_with_integers_and_half_even_does_not() -> None:
    # the lemma of the module's docstring on every n and every quarter, ties included; then rint's
    # counterexample
    for n in range(-5, 6):
        for x in (Fraction(i, 4) for i in range(-20, 21)):
            assert n + (x + Fraction(1, 2)).__floor__() == (n + x + Fraction(1, 2)).__floor__()
    assert np.rint(1 + 0.5) != 1 + np.rint(0.5)


@pytest.mark.parametrize("m", [-4, -3, -2, -1])
def test_w17_cells_begin_at_every_half_whether_the_integer_is_even_or_odd(m: int) -> None:
    # all cells of the sampler are (m - 1/2, m + 1/2]: the bits just below and above each end land
    # on either side
    scale = Fraction(5)
    for end, below, above in ((m - 1, m - 1, m), (m, m, m + 1)):
        threshold = normal_threshold(end, scale, 128)
        for number, expected in ((threshold - 9, below), (threshold + 9, above)):
            assert gaussian_from([number >> 64, number % 2**64], scale) == [expected]


# The protocol


def test_the_system_source_is_private_and_the_seeded_one_is_not() -> None:
    sources: list[noise.NoiseSource] = [SystemNoise(), SeededNoise(1)]
    assert [source.private for source in sources] == [True, False]
