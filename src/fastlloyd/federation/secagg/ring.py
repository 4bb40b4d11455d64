"""Rings Z_2^32 and Z_2^64 in which masked sums are added up, and the proof that no opened sum
wraps.

A mask is uniform on the whole ring, so every masked value is uniform. This needs arithmetic that
wraps, as uint32 and uint64 do. The opened sum is read as the representative nearest to zero. The
representative is the true sum if its magnitude is below half the ring. `RingLoad` computes, from
public numbers only, how many bits this takes.

Departs from the paper, whose ring always has 32 bits: 64 is the default, and a width that could
wrap is refused.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fastlloyd.dp.noise import Noise
from fastlloyd.errors import LocalProtocolError, OverflowRisk, PlanError, RemoteProtocolError

RingVector = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]

WRAP_PROBABILITY_BITS: Final = 40
"""Base-2 logarithm of the allowed probability, negated. A plan is accepted if the probability
that some opened value of the run wraps is below 2**-40.
"""


class Ring(enum.Enum):
    """Integers modulo 2**bits, in little-endian unsigned arrays.

    bits, itemsize : width of an element in bits and in bytes.
    dtype : little-endian unsigned integers of this width.
    """

    Z32 = 32
    Z64 = 64

    bits: int
    itemsize: int
    dtype: np.dtype[np.unsignedinteger]

    def __init__(self, bits: int) -> None:
        self.bits, self.itemsize, self.dtype = bits, bits // 8, np.dtype(f"<u{bits // 8}")

    @classmethod
    def of(cls, bits: int) -> "Ring":
        """Return the ring with `bits` bits. Raises PlanError unless they are 32 or 64."""
        for ring in cls:
            if ring.bits == bits:
                return ring
        raise PlanError(f"ring_bits = {bits} is not supported; choose 32 or 64")

    def wrap(self, values: npt.NDArray[np.int64]) -> RingVector:
        """Return the int64 values modulo 2**bits, in the same shape.

        Raises LocalProtocolError for any other dtype, because values in floats or narrower integers
        may already have been rounded or truncated.
        """
        if values.dtype != np.int64:
            raise LocalProtocolError(
                f"values have dtype {values.dtype}; only int64 is wrapped into a ring"
            )
        # Conversion between unsigned types is reduction modulo 2**bits.
        return values.view(np.uint64).astype(self.dtype)

    def centre(self, elements: RingVector) -> npt.NDArray[np.int64]:
        """Return the representative of each element in [-2**(bits - 1), 2**(bits - 1)), in the same
        shape.
        """
        self._check(elements)
        return elements.view(f"<i{self.itemsize}").astype(np.int64)

    def add(self, left: RingVector, right: RingVector) -> RingVector:
        """Return the sum modulo 2**bits, element by element. The shapes must be equal."""
        self._check(left, right)
        return np.asarray(np.add(left, right, dtype=self.dtype))

    def accumulate(self, total: RingVector, data: bytes) -> None:
        """Add an encoded vector to `total`, modulo 2**bits and in place.

        data : vector, encoded as for `from_bytes`.
        """
        words = self.from_bytes(data, total.size)
        self._check(total, words)
        np.add(total, words, out=total)

    def subtract(self, left: RingVector, right: RingVector) -> RingVector:
        """Return the difference modulo 2**bits, element by element. The shapes must be equal."""
        self._check(left, right)
        return np.asarray(np.subtract(left, right, dtype=self.dtype))

    def to_bytes(self, elements: RingVector) -> bytes:
        """Return the elements as bytes, little-endian in C order, `itemsize` bytes each."""
        self._check(elements)
        return elements.tobytes()

    def from_bytes(self, data: bytes, length: int) -> RingVector:
        """Return exactly `length` elements, as a read-only vector over `data`."""
        if len(data) != length * self.itemsize:
            raise RemoteProtocolError(
                f"a vector of {length} {self.bits}-bit elements is {length * self.itemsize} bytes"
                f" long, not {len(data)}"
            )
        return np.frombuffer(data, dtype=self.dtype)

    def zeros(self, length: int) -> RingVector:
        """Return a vector of `length` zeros."""
        return np.zeros(length, dtype=self.dtype)

    def sum_of_bytes(self, vectors: Sequence[bytes], length: int) -> RingVector:
        """Return the sum of encoded vectors modulo 2**bits.

        vectors : vectors of exactly `length` elements, each encoded as for `from_bytes`.
        """
        rows = self.from_bytes(b"".join(vectors), len(vectors) * length).reshape(
            len(vectors), length
        )
        return np.asarray(np.add.reduce(rows, axis=0, dtype=self.dtype))

    def _check(self, *arrays: RingVector) -> None:
        for array in arrays:
            if array.dtype != self.dtype:
                raise LocalProtocolError(
                    f"an array of dtype {array.dtype} is not of the {self.bits}-bit ring"
                )
        # Broadcasting would use one word of a mask more than once.
        if arrays[0].shape != arrays[-1].shape:
            raise LocalProtocolError(
                f"arrays of shapes {[array.shape for array in arrays]} do not match"
            )


class Load(NamedTuple):
    """Largest numbers that one entry of an answer can have, over all rounds.

    bound : largest magnitude that one record adds to the entry.
    scale : scale of the entry's total noise, of all clients together, in the same units.
    """

    bound: int
    scale: Fraction


NOTHING: Final = Load(0, Fraction(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class RingLoad:
    """Public numbers that bound the opened sums of a run.

    With K = `n_released`, L = 40 ln 2 + ln 2K and M = `n_rounding_terms`, an opened value exceeds

        n_records * bound + sqrt(2 L) * scale + M / 2        (Gaussian)
        n_records * bound + L * scale + M / 2                (geometric)

    in magnitude with probability below 2**-40 / K. The first term is a strict bound of the exact
    sum. A Gaussian X of standard deviation s has P(|X| > z s) < 2 exp(-z**2 / 2). A two-sided
    geometric X has P(|X| > t) < 2 exp(-t / b). Both right sides equal 2**-40 / K here. M roundings
    shift a sum by at most M / 2. So any of the K values of the run exceeds its bound with
    probability below 2**-40 (union bound). If clients are missing, there are fewer records and less
    noise. So the bound is valid for every included set.

    n_records : public cap on the records of all clients together.
    sums : largest numbers (`Load`) of one coordinate of a sum, in grid units.
    counts : largest numbers of a count, in units of 2**-c records, so that one record is 2**c.
    loss : largest numbers of the loss, in its own units, or 0 if no loss is estimated.
    others : largest numbers of all other parts of answers, each in its own units.
    n_rounding_terms : number of separately rounded draws in one value. It is the number of clients
        in `client-noise`, and 1 in `server-noise`.
    n_released : number of values opened in the whole run.
    noise : distribution of the noise. GAUSSIAN: a sum of Gaussians, each rounded to an integer, and
        the scale is the standard deviation. LAPLACE: one two-sided geometric draw, P(x)
        proportional to exp(-abs(x) / b), and the scale is b.
    """

    n_records: int
    sums: Load
    counts: Load
    n_rounding_terms: int
    n_released: int
    noise: Noise = Noise.GAUSSIAN
    loss: Load = NOTHING
    others: tuple[Load, ...] = ()

    def __post_init__(self) -> None:
        values: dict[str, int | Fraction] = {
            "n_records": self.n_records,
            "n_released": self.n_released,
        }
        values["n_rounding_terms"] = self.n_rounding_terms
        for name, load in (("sum", self.sums), ("count", self.counts), ("loss", self.loss)):
            values |= {f"{name}_bound": load.bound, f"{name}_scale": load.scale}
        for name, value in values.items():
            if value < (minimum := int(name in ("n_records", "n_released"))):
                raise PlanError(
                    f"{name} = {value} cannot be planned for; it must be at least {minimum}"
                )

    @property
    def required_bits(self) -> int:
        """Smallest width w of a ring in which no opened value wraps, except with probability
        2**-40.

        Opened values are below 2**(w - 1) in magnitude.
        """
        largest = max(
            self.n_records * bound + self.noise_reach(scale) for bound, scale in self._coordinates()
        )
        return largest.bit_length() + 1

    def largest_n_records(self, ring: Ring) -> int:
        """Return the largest cap on records with which no opened sum wraps in this ring, or 0 if
        there is none.
        """
        room = (1 << (ring.bits - 1)) - 1
        caps = [
            (room - self.noise_reach(scale)) // bound
            for bound, scale in self._coordinates()
            if bound
        ]
        return max(0, min(caps, default=0))

    def with_fewer_fractional_bits(self, fewer: int) -> "RingLoad":
        """Return an upper bound on these numbers for the same run on a grid that is coarser by the
        factor 2**fewer.

        On the coarser grid, the largest sum and the scale of its noise are rounded up by at most
        one unit. Counts have a grid of their own, which stays the same. The bound of the loss
        becomes at most that of a sum, and the noise of the loss is scaled in the same proportion.
        """
        sums = Load(-(-self.sums.bound >> fewer), Fraction(self.sums.scale) / 2**fewer + 1)
        bound, scale = min(self.loss.bound, sums.bound), self.loss.scale
        loss = Load(bound, scale * bound / self.loss.bound + 1) if self.loss.bound else NOTHING
        return replace(self, sums=sums, loss=loss)

    def noise_reach(self, scale: Fraction) -> int:
        """Return an integer that the noise of one opened value rarely exceeds in magnitude.

        The probability is below 2**-40 / n_released.
        """
        exponent = _tail_exponent(self.n_released)
        if self.noise is Noise.LAPLACE:
            return int(exponent * scale + Fraction(self.n_rounding_terms, 2))
        # The noise is an integer, so the floor of its bound is one too:
        # floor(z s + M/2) = floor((floor(sqrt(4 z^2 s^2)) + M) / 2), where z^2 = 2 L.
        return (isqrt(int(8 * exponent * Fraction(scale) ** 2)) + self.n_rounding_terms) // 2

    def _coordinates(self) -> tuple[Load, ...]:
        return self.sums, self.counts, self.loss, *self.others


def choose_ring(load: RingLoad, bits: int, fractional_bits: int) -> Ring:
    """Return the ring with `bits` bits, if no opened sum can wrap in it.

    fractional_bits : number of fractional bits in the plan.

    Raises OverflowRisk if an opened sum can wrap. The message names a cap on records and a number
    of fractional bits with which no sum can wrap.
    """
    ring, required_bits = Ring.of(bits), load.required_bits
    if required_bits <= ring.bits:
        return ring
    remedies = ["pass ring_bits=64"] if required_bits <= Ring.Z64.bits else []
    working = (
        fractional_bits - fewer
        for fewer in range(1, fractional_bits)  # a domain has at least one
        if load.with_fewer_fractional_bits(fewer).required_bits <= ring.bits
    )
    if (q := next(working, None)) is not None:
        remedies.append(f"use {q} fractional bits instead of {fractional_bits}")
    if cap := load.largest_n_records(ring):
        remedies.append(f"cap n_records at {cap} instead of {load.n_records}")
    advice = (
        ", or ".join(remedies)
        or "use fewer fractional bits, a smaller n_records or a larger epsilon"
    )
    raise OverflowRisk(
        f"the sums of this plan need a ring of {required_bits} bits, but ring_bits is"
        f" {ring.bits}; {advice}"
    )


@lru_cache(maxsize=64)  # asked for once per round of a run
def _tail_exponent(n_released: int) -> Fraction:
    """Return L = 40 ln 2 + ln 2K (`RingLoad`), rounded up to a multiple of 2**-64, plus 2**-64
    more.
    """
    n = n_released << (WRAP_PROBABILITY_BITS + 1)
    octaves, power = n.bit_length() - 1, 1 << (n.bit_length() - 1)
    # ln 2 is 2 artanh(1/3)
    logarithm = octaves * 2 * _artanh(1, 3) + 2 * _artanh(n - power, n + power)
    # the unit is far more than what the sums leave out
    return Fraction(-(-logarithm >> (_LOG_BITS - 64)) + 1, 2**64)


_LOG_BITS: Final = 192


def _artanh(numerator: int, denominator: int) -> int:
    """Return artanh(z) = z + z**3 / 3 + ... for 0 <= z <= 1/3, in units of 2**-192.

    The result is too small by less than 200 units.
    """
    power, total, k = (numerator << _LOG_BITS) // denominator, 0, 1
    while power:
        total += power // k
        power = power * numerator**2 // denominator**2
        k += 2
    return total
