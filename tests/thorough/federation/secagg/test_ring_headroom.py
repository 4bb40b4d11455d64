"""A plan is accepted only if its opened sums cannot wrap, and the refusal names remedies that work.

All checks are exact (integers, tails with 60 digits), so no power is to be stated.
"""

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastlloyd.dp.noise import Noise
from fastlloyd.errors import OverflowRisk, PlanError
from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks, MaskContext
from fastlloyd.federation.secagg.ring import Load, Ring, RingLoad, _tail_exponent, choose_ring

RINGS = pytest.mark.parametrize("ring", list(Ring))


def array(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


QUIET: dict[str, Any] = {
    "n_records": 1,
    "sum_bound": 1,
    "count_bound": 1,
    "sum_scale": Fraction(0),
    "count_scale": Fraction(0),
    "n_rounding_terms": 0,
    "n_released": 1,
}


def random_load(rng: np.random.Generator) -> RingLoad:
    """A plan between tiny and absurd, log-uniform in every size."""

    def size(low: float, high: float) -> int:
        return int(2 ** rng.uniform(low, high))

    return load_of(
        n_records=size(0, 40),
        sum_bound=size(0, 30),
        count_bound=2 ** int(rng.integers(0, 8)),
        sum_scale=Fraction(size(0, 60), 2**20),
        count_scale=Fraction(size(0, 40), 2**20),
        n_rounding_terms=size(0, 7),
        n_released=size(0, 24),
        noise=Noise.GAUSSIAN if rng.random() < 0.7 else Noise.LAPLACE,
    )


def split(total: int, parts: int, rng: np.random.Generator) -> list[int]:
    """`total` as a sum of `parts` non-negative integers."""
    cuts = sorted(int(cut * total) for cut in rng.random(parts - 1))
    return [high - low for low, high in zip([0, *cuts], [*cuts, total], strict=True)]


def load_of(
    *, sum_bound: int, count_bound: int, sum_scale: Fraction, count_scale: Fraction, **others: Any
) -> RingLoad:
    return RingLoad(
        sums=Load(sum_bound, sum_scale), counts=Load(count_bound, count_scale), **others
    )


def of_bits(bits: int) -> RingLoad:
    load = load_of(**{**QUIET, "n_records": 1 << (bits - 2)})
    assert load.required_bits == bits
    return load


def twice(load: Load) -> list[Load]:
    return [Load(2 * load.bound, load.scale), Load(load.bound, 2 * load.scale)]


def required_bits(**load: Any) -> int:
    return load_of(**load).required_bits


def opened_sum(shares: list[list[int]], ring: Ring) -> list[int]:
    """What clients open when each uploads one row of `shares` under a mask and the server adds the
    uploads up.
    """
    masks, total, nonces = (
        GroupMasks(GroupKey(bytes(range(32))), ring),
        ring.wrap(array(0, 0)),
        dict[str, bytes](),
    )
    context = MaskContext(
        plan_digest=bytes(32),
        run_id=bytes(16),
        round=1,
        transcript_hash=bytes(32),
        centroids_digest=bytes(32),
    )
    for number, share in enumerate(shares):
        client, nonce = f"client {number}", bytes(8)
        total = ring.add(total, masks.hide(ring.wrap(array(*share)), context, client, nonce))
        nonces[client] = nonce
    opened: list[int] = ring.centre(masks.open(total, context, nonces)).tolist()
    return opened


def test_an_accepted_plan_never_wraps_with_worst_data_and_noise_at_its_tail_bound() -> None:
    rng = np.random.default_rng(1)
    accepted = {Ring.Z32: 0, Ring.Z64: 0}
    for _ in range(2000):
        load = random_load(rng)
        ring = Ring.Z32 if load.required_bits <= 32 else Ring.Z64
        if load.required_bits > ring.bits:
            with pytest.raises(OverflowRisk):
                choose_ring(load, ring.bits, 1)
            continue
        assert choose_ring(load, ring.bits, 1) is ring
        accepted[ring] += 1
        n_clients = int(rng.integers(1, 5))
        worst = [
            load.n_records * load.sums.bound + load.noise_reach(load.sums.scale),
            load.n_records * load.counts.bound + load.noise_reach(load.counts.scale),
        ]
        columns = [split(value, n_clients, rng) for value in worst]
        for sign in (1, -1):
            shares = [[sign * value for value in row] for row in zip(*columns, strict=True)]
            assert opened_sum(shares, ring) == [sign * value for value in worst]
    assert min(accepted.values()) >= 100  # both rings were reached


def test_the_required_width_is_the_least() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        load = random_load(rng)
        largest = max(
            load.n_records * load.sums.bound + load.noise_reach(load.sums.scale),
            load.n_records * load.counts.bound + load.noise_reach(load.counts.scale),
        )
        assert 2 ** (load.required_bits - 2) <= largest < 2 ** (load.required_bits - 1)


@RINGS
def test_the_largest_cap_is_accepted_and_one_record_more_is_refused(ring: Ring) -> None:
    rng = np.random.default_rng(3)
    n_boundaries = 0
    for _ in range(2000):
        load = random_load(rng)
        cap = load.largest_n_records(ring)
        if cap:
            n_boundaries += 1
            assert choose_ring(replace(load, n_records=cap), ring.bits, 1) is ring
        with pytest.raises(OverflowRisk):
            choose_ring(replace(load, n_records=cap + 1), ring.bits, 1)
    assert n_boundaries >= 500


def exact_tail(load: RingLoad, scale: Fraction) -> mpmath.mpf:
    """P(noise of one value exceeds `noise_reach`), exact but for the Gaussian's roundings, which
    are the worst.
    """
    first_beyond = load.noise_reach(scale) + 1
    s = mpmath.mpf(scale.numerator) / scale.denominator
    if load.noise is Noise.LAPLACE:
        return 2 * mpmath.exp(-first_beyond / s) / (1 + mpmath.exp(-1 / s))
    return mpmath.erfc(
        (first_beyond - mpmath.mpf(load.n_rounding_terms) / 2) / (s * mpmath.sqrt(2))
    )


def test_any_wrap_in_a_whole_run_is_less_likely_than_two_to_the_minus_40() -> None:
    rng = np.random.default_rng(4)
    with mpmath.workdps(60):
        for _ in range(500):
            load = random_load(rng)
            for scale in (load.sums.scale, load.counts.scale):
                assert load.n_released * exact_tail(load, scale) < mpmath.mpf(2) ** -40


def test_the_noise_reach_is_the_formula_of_the_derivation_never_rounded_down() -> None:
    rng = np.random.default_rng(5)
    with mpmath.workdps(60):
        for _ in range(2000):
            load = random_load(rng)
            exponent = 40 * mpmath.log(2) + mpmath.log(2 * load.n_released)
            scale = mpmath.mpf(load.sums.scale.numerator) / load.sums.scale.denominator
            factor = mpmath.sqrt(2 * exponent) if load.noise is Noise.GAUSSIAN else exponent
            exact = factor * scale + mpmath.mpf(load.n_rounding_terms) / 2
            assert 0 <= load.noise_reach(load.sums.scale) - int(mpmath.floor(exact)) <= 1


@given(n_released=st.integers(1, 2**80))
def test_the_tail_exponent_is_rounded_up_by_a_hair(n_released: int) -> None:
    with mpmath.workdps(60):
        exponent = _tail_exponent(n_released)
        excess = mpmath.mpf(exponent.numerator) / exponent.denominator - mpmath.log(
            2**41 * mpmath.mpf(n_released)
        )
        assert 0 < excess <= mpmath.mpf(2) ** -63


@given(bits=st.integers(1, 63))
def test_a_sum_of_half_the_ring_needs_one_bit_more(bits: int) -> None:
    assert required_bits(**{**QUIET, "n_records": 2**bits - 1}) == bits + 1
    assert required_bits(**{**QUIET, "n_records": 2**bits}) == bits + 2


def test_more_of_anything_never_needs_fewer_bits() -> None:
    rng = np.random.default_rng(6)
    for _ in range(300):
        load = random_load(rng)
        more = [
            replace(load, **{name: 2 * getattr(load, name)})
            for name in ("n_records", "n_rounding_terms", "n_released")
        ]
        more += [replace(load, sums=larger) for larger in twice(load.sums)]
        more += [replace(load, counts=larger) for larger in twice(load.counts)]
        assert len(more) == len(QUIET)
        assert all(larger.required_bits >= load.required_bits for larger in more)


def test_w25_the_sum_that_overflowed_int32_opens_exactly_in_the_planned_ring() -> None:
    scaled = 45_335 << 16
    with pytest.raises(OverflowRisk):
        choose_ring(load_of(**{**QUIET, "n_records": 100_000, "sum_bound": 1 << 16}), 32, 1)
    assert Ring.Z64.centre(Ring.Z64.wrap(array(scaled))).tolist() == [scaled]


def test_w26_counts_are_planned_unscaled() -> None:
    # In the paper's ring of 2^32 counts went through the scaling by 2^16 too: 50,000 records opened
    # as -15,536.
    scaled = Ring.Z32.centre(Ring.Z32.wrap(array(32_768 << 16, 48_842 << 16, 50_000 << 16))) >> 16
    assert scaled.tolist() == [-32_768, -16_694, -15_536]
    assert Ring.Z32.centre(Ring.Z32.wrap(array(32_768, 48_842, 50_000))).tolist() == [
        32_768,
        48_842,
        50_000,
    ]
    assert required_bits(**{**QUIET, "n_records": 50_000}) == 17
    with pytest.raises(OverflowRisk):
        choose_ring(load_of(**{**QUIET, "n_records": 50_000, "count_bound": 1 << 16}), 32, 1)


def test_a_count_can_be_what_needs_the_wider_ring() -> None:
    assert required_bits(**{**QUIET, "count_bound": 2**31}) == 33
    assert required_bits(**{**QUIET, "count_scale": Fraction(2**31)}) > 33


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_records", 0),
        ("sum_bound", -1),
        ("count_bound", -1),
        ("sum_scale", Fraction(-1, 2)),
        ("count_scale", Fraction(-1)),
        ("n_rounding_terms", -1),
        ("n_released", 0),
    ],
)
def test_an_impossible_load_is_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(PlanError, match=f"{field} = "):
        required_bits(**{**QUIET, field: value})


# ------------------------------------------- the table of the ring's derivation


def noise_multiplier(epsilon: float, delta: float) -> float:
    """1 / mu of the Gaussian mechanism that is exactly (epsilon, delta)-DP, by bisection in
    float64.
    """

    def normal_cdf(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    low, high = 1e-6, 10.0
    for _ in range(200):
        mu = (low + high) / 2
        reached = normal_cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * normal_cdf(
            -epsilon / mu - mu / 2
        )
        low, high = (mu, high) if reached <= delta else (low, mu)
    return 1 / low


def first_round(
    n_records: int, n_features: int, n_clusters: int, log10_delta: int, q: int
) -> RingLoad:
    """Ten clients with eight noise shares that always arrive, eps = .1, T = 7, radius sqrt d,
    domain [-1, 1]^d.
    """
    d, n_rounds, excess = n_features, 7, math.sqrt(10 / 8)
    sigma = noise_multiplier(0.1, 10.0**-log10_delta)
    sum_scale = (
        sigma
        * math.sqrt(1 + math.sqrt(4 * d))
        / (4 * d) ** 0.25
        * math.sqrt(d)
        * math.sqrt(n_rounds)
        * excess
    )
    count_scale = sigma * math.sqrt(1 + math.sqrt(4 * d)) * math.sqrt(n_rounds) * excess
    return load_of(
        n_records=n_records,
        sum_bound=min(math.isqrt(d * 4**q), 2 * 2**q),
        count_bound=1,
        sum_scale=Fraction(sum_scale) * 2**q,
        count_scale=Fraction(count_scale),
        n_rounding_terms=10,
        n_released=n_rounds * n_clusters * (d + 1),
    )


@pytest.mark.parametrize(
    ("n_records", "d", "k", "log10_delta", "bits_16", "largest_32", "bits_12"),
    [
        pytest.param(150, 4, 3, 5, 28, 15_556, 24, id="Iris"),
        pytest.param(5_000, 2, 15, 6, 31, 22_137, 27, id="S1"),
        pytest.param(25_000, 2, 100, 6, 33, 22_109, 29, id="Birch2"),
        pytest.param(48_842, 6, 3, 7, 34, 15_040, 30, id="Adult"),
        pytest.param(10_000, 784, 10, 6, 33, 2_930, 29, id="MNIST"),
        pytest.param(100_000, 5, 5, 7, 35, 15_141, 31, id="100K"),
        pytest.param(10**7, 64, 100, 9, 42, 10_965, 38, id="1e7 x 64"),
        pytest.param(10**9, 1024, 100, 11, 48, 0, 44, id="1e9 x 1024"),
    ],
)
def test_known_data_sets_need_the_widths_of_the_design_table(
    n_records: int, d: int, k: int, log10_delta: int, bits_16: int, largest_32: int, bits_12: int
) -> None:
    load = first_round(n_records, d, k, log10_delta, q=16)
    assert load.required_bits == bits_16
    assert load.largest_n_records(Ring.Z32) == largest_32
    assert first_round(n_records, d, k, log10_delta, q=12).required_bits == bits_12


def test_a_trillion_records_at_24_fractional_bits_fit_no_ring() -> None:
    load = first_round(10**12, 1024, 100, 14, q=24)
    assert load.required_bits == 66
    with pytest.raises(OverflowRisk, match=r"66 bits.*22 fractional"):
        choose_ring(load, 64, 24)


# ------------------------------------------------------------- choice of a ring


def test_a_ring_is_the_one_that_was_asked_for_if_it_is_wide_enough() -> None:
    assert choose_ring(of_bits(64), 64, 1) is Ring.Z64
    assert choose_ring(of_bits(32), 32, 1) is Ring.Z32
    assert choose_ring(of_bits(17), 64, 1) is Ring.Z64
    with pytest.raises(PlanError, match="ring_bits = 48"):
        choose_ring(of_bits(17), 48, 1)


def test_the_refusal_says_how_many_bits_are_needed_and_what_to_do() -> None:
    with pytest.raises(
        OverflowRisk,
        match=r"33 bits.*ring_bits=64.*cap n_records",
    ):
        choose_ring(of_bits(33), 32, 1)
    hopeless = load_of(**{**QUIET, "n_records": 1, "sum_bound": 1 << 63})
    with pytest.raises(OverflowRisk, match=r"65 bits.*fewer fractional"):
        choose_ring(hopeless, 64, 1)


def test_every_remedy_the_refusal_names_works() -> None:
    rng = np.random.default_rng(7)
    named = {"q": 0, "cap": 0, "wider": 0}
    for _ in range(1000):
        q, requested = int(rng.integers(4, 33)), int(rng.choice([32, 64]))
        radius, sigma, n_records = (
            Fraction(rng.uniform(0.01, 2)),
            rng.uniform(1, 1e5),
            int(2 ** rng.uniform(5, 45)),
        )

        def load_at(
            q: int,
            n_records: int,
            radius: Fraction = radius,
            sigma: float = sigma,
            c: int = int(rng.integers(0, 6)),
        ) -> RingLoad:
            return load_of(
                n_records=n_records,
                sum_bound=min(math.isqrt(math.floor(radius**2 * 4**q)), 2 * 2**q),
                count_bound=2**c,
                sum_scale=Fraction(math.ceil(Fraction(sigma) * 2**q)),
                count_scale=Fraction(math.ceil(sigma * 2**c)),
                n_rounding_terms=10,
                n_released=1000,
            )

        load = load_at(q, n_records)
        for fewer in range(q + 1):
            coarser, exact = load.with_fewer_fractional_bits(fewer), load_at(q - fewer, n_records)
            assert coarser.sums.bound >= exact.sums.bound
            assert coarser.sums.scale >= exact.sums.scale
        if load.required_bits <= requested:
            continue
        with pytest.raises(OverflowRisk) as refusal:
            choose_ring(load, requested, q)
        sentence = str(refusal.value)
        assert f"a ring of {load.required_bits} bits" in sentence
        if better := re.search(r"use (\d+) fractional bits instead", sentence):
            named["q"] += 1
            assert int(better[1]) >= 1  # a domain takes no less
            assert load_at(int(better[1]), n_records).required_bits <= requested
        if cap := re.search(r"cap n_records at (\d+) instead", sentence):
            named["cap"] += 1
            assert load_at(q, int(cap[1])).required_bits <= requested
        assert ("pass ring_bits=64" in sentence) == (requested == 32 and load.required_bits <= 64)
        named["wider"] += "pass ring_bits=64" in sentence
    assert min(named.values()) >= 50
