"""Uploads hide, their exact sum opens, anything else does not; and what opens is of a believable
size.
"""

import hashlib
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fastlloyd.base.arrays import IntArray
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import TrustMode, ring_load
from fastlloyd.federation.protocol.masked_round import MaskedRound, Plausible
from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks, MaskContext
from fastlloyd.federation.secagg.ring import Ring
from fastlloyd.federation.transport.in_process import run_in_process
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD
from fastlloyd.mechanisms.settings import AnyAlgorithm
from federation import CAP, make_federation, make_plan, starts_cheaply
from kinds import lloyd_of
from masks import MaskedUpload, expand_mask

N_VALUES = 6
RINGS = pytest.mark.parametrize("ring", Ring)


def make_round(ring: Ring, key: bytes = bytes(32)) -> MaskedRound:
    context = MaskContext(
        plan_digest=b"d" * 32,
        run_id=b"r" * 16,
        round=2,
        transcript_hash=b"t" * 32,
        centroids_digest=b"c" * 32,
    )
    return MaskedRound(GroupMasks(GroupKey(key), ring), context, ring)


def within(masked: MaskedRound, **changed: bytes | int) -> MaskedRound:
    # of any field
    return replace(masked, context=replace(masked.context, **changed))  # type: ignore[arg-type]


def summed(ring: Ring, *payloads: bytes) -> bytes:
    total = ring.from_bytes(payloads[0], N_VALUES + 1)
    for payload in payloads[1:]:
        total = ring.add(total, ring.from_bytes(payload, N_VALUES + 1))
    return ring.to_bytes(total)


def included(n: int) -> dict[str, bytes]:
    return {f"c{i}": bytes([b"01234567"[i]] * 8) for i in range(n)}


def values_in(ring: Ring) -> st.SearchStrategy[list[IntArray]]:
    limit = (1 << (ring.bits - 1)) // 8
    return st.lists(
        hnp.arrays(np.int64, N_VALUES, elements=st.integers(-limit, limit)), min_size=1, max_size=7
    )


@RINGS
def test_the_sum_of_uploads_opens_to_the_sum_of_their_values(ring: Ring) -> None:
    @given(values_in(ring))
    def check(values: list[IntArray]) -> None:
        masked = make_round(ring)
        payloads = [
            masked.hide(one, f"c{i}", bytes([b"01234567"[i]] * 8)) for i, one in enumerate(values)
        ]
        opened = masked.open(summed(ring, *payloads), included(len(payloads)), N_VALUES + 1)
        assert opened.dtype == np.int64
        assert opened.tolist() == [sum(int(one[j]) for one in values) for j in range(N_VALUES)]

    check()


@RINGS
def test_who_hid_an_upload_and_who_did_not_open_the_same_sum(ring: Ring) -> None:
    """The one kept the mask of its own upload, the other derives all of them."""
    first, second = make_round(ring), make_round(ring)
    a = first.hide(np.arange(N_VALUES), "c0", b"0" * 8)
    b = second.hide(np.arange(N_VALUES) ** 2, "c1", b"1" * 8)
    for masked in (first, second, make_round(ring)):
        assert masked.open(summed(ring, a, b), included(2), N_VALUES + 1).tolist() == [
            i + i * i for i in range(N_VALUES)
        ]
    assert repr(first) == repr(make_round(ring))  # the mask is as secret as the key


@RINGS
def test_an_upload_is_the_documented_one(ring: Ring) -> None:
    """By hand: values and checksum word modulo 2**w, plus the mask in the full context."""
    values = [5, -7, 0, 1 << 30, -(1 << 30), 1]
    label = b"fastlloyd/v1/checksum"
    framed = b"".join(
        len(part).to_bytes(4, "big") + part for part in (label, b"d" * 32, (2).to_bytes(8, "big"))
    )
    checksum = int.from_bytes(hashlib.sha256(framed).digest()[: ring.itemsize], "little") | 1
    upload = MaskedUpload(
        plan_digest=b"d" * 32,
        run_id=b"r" * 16,
        round=2,
        client="c0",
        upload_nonce=b"n" * 8,
        transcript_hash=b"t" * 32,
        centroids_digest=b"c" * 32,
    )
    mask = expand_mask(GroupKey(bytes(32)), upload, N_VALUES + 1, ring)
    expected = [
        (value + int(word)) % 2**ring.bits
        for value, word in zip([*values, checksum], mask, strict=True)
    ]
    payload = make_round(ring).hide(np.array(values), "c0", b"n" * 8)
    assert np.frombuffer(payload, ring.dtype).tolist() == expected


@RINGS
@pytest.mark.parametrize(
    "change",
    [
        lambda r: replace(r, masks=GroupMasks(GroupKey(b"k" * 32), r.ring)),
        lambda r: within(r, plan_digest=bytes(32)),
        lambda r: within(r, run_id=bytes(16)),
        lambda r: within(r, round=3),
        lambda r: within(r, transcript_hash=bytes(32)),
        lambda r: within(r, centroids_digest=bytes(32)),
    ],
)
def test_a_sum_does_not_open_in_another_context(ring: Ring, change: object) -> None:
    assert callable(change)
    masked = make_round(ring)
    zeros = np.zeros(N_VALUES, dtype=np.int64)
    payloads = [masked.hide(zeros, f"c{i}", bytes([b"01"[i]] * 8)) for i in range(2)]
    with pytest.raises(RemoteProtocolError, match="does not open"):
        change(masked).open(summed(ring, *payloads), included(2), N_VALUES + 1)


@RINGS
def test_a_sum_of_other_uploads_than_it_names_does_not_open(ring: Ring) -> None:
    masked = make_round(ring)
    zeros = np.zeros(N_VALUES, dtype=np.int64)
    a, b, c = (masked.hide(zeros, f"c{i}", bytes([b"012"[i]] * 8)) for i in range(3))
    honest = summed(ring, a, b)
    assert masked.open(honest, included(2), N_VALUES + 1).tolist() == [0] * N_VALUES
    lies = [
        (summed(ring, a, b, c), included(2)),  # one too many
        (a, included(2)),  # one missing
        (summed(ring, a, a, b), included(2)),  # one twice
        (honest, {"c0": b"0" * 8, "c2": b"2" * 8}),  # another client
        (honest, {"c0": b"0" * 8, "c1": b"x" * 8}),  # another nonce
        (honest, {"c1": b"0" * 8, "c0": b"1" * 8}),  # nonces exchanged
    ]
    for payload, named in lies:
        with pytest.raises(RemoteProtocolError, match="does not open"):
            masked.open(payload, named, N_VALUES + 1)


@RINGS
def test_every_number_of_clients_has_its_own_checksum(ring: Ring) -> None:
    checksum = int(make_round(ring)._word)
    assert checksum % 2 == 1  # so n * checksum = m * checksum modulo 2**w only if n = m modulo 2**w
    assert int(within(make_round(ring), round=3)._word) != checksum


@pytest.mark.parametrize("trust", TrustMode)
def test_the_largest_honest_answer_is_believed_and_one_more_is_not(trust: TrustMode) -> None:
    plan = make_plan(3, trust=trust)
    bounds = Plausible.of(plan)
    m = lloyd_of(plan)
    n = 2 * CAP
    for number, r in enumerate(m.rounds, 1):
        sum_reach, _, count_reach = bounds.reaches[number - 1]
        sums = n * m.parts(r)[0].bound + sum_reach
        counts = n * 2**m.count_bits + count_reach
        largest = np.array([[sums, -sums, counts], [-sums, sums, -counts]])
        bounds.check(largest, n, number)
        for i, j in np.ndindex(largest.shape):
            for one_more in (
                largest[i, j] + np.sign(largest[i, j]),
                np.iinfo(np.int64).min,
                np.iinfo(np.int64).max,
            ):
                tampered = largest.copy()
                tampered[i, j] = one_more
                with pytest.raises(RemoteProtocolError, match=f"round {number} is larger"):
                    bounds.check(tampered, n, number)


@pytest.mark.parametrize("trust", TrustMode)
def test_the_largest_honest_loss_is_believed_and_one_more_is_not(trust: TrustMode) -> None:
    plan = make_plan(3, trust=trust, estimate_loss=True)
    bounds, loss = Plausible.of(plan), plan.clustering.loss
    assert loss is not None
    (reach,) = bounds.reaches[-1]
    largest, number = 2 * CAP * loss.cap + reach, plan.mechanism.n_rounds
    for sign in (1, -1):
        bounds.check(np.array([[sign * largest]]), 2 * CAP, number)
        with pytest.raises(RemoteProtocolError, match=f"round {number} is larger"):
            bounds.check(np.array([[sign * (largest + 1)]]), 2 * CAP, number)


@pytest.mark.parametrize("trust", TrustMode)
def test_honest_noise_stays_believable_but_for_two_to_the_minus_40(trust: TrustMode) -> None:
    """Second route: the two-sided normal tail at the reach, in standard deviations, times all
    released values.
    """
    from mpmath import mp

    plan = make_plan(3, trust=trust, estimate_loss=True)
    bounds, m = Plausible.of(plan), plan.mechanism
    shared = trust is TrustMode.CLIENT_NOISE
    n_terms = plan.n_clients if shared else 1
    reaches, scales = [], []
    for number, exchange in enumerate(m.all_rounds):
        reaches += [bounds.reaches[number][0], bounds.reaches[number][-1]]
        drawn = (
            plan.share_scales(exchange, plan.n_clients)
            if shared
            else [part.scale for part in m.parts(exchange)]
        )
        scales += [drawn[0], drawn[-1]]
    for reach, scale in zip(reaches, scales, strict=True):
        deviation = mp.sqrt(n_terms) * float(scale)
        tail = mp.erfc((reach + 1 - Fraction(n_terms, 2).__float__()) / deviation / mp.sqrt(2))
        assert m.n_released * tail < 2**-40
        # and it is not so generous that tampering passes: within a factor 2 of the least reach that
        # would do
        assert m.n_released * mp.erfc(reach / 2 / deviation / mp.sqrt(2)) > 2**-40


@pytest.mark.parametrize("estimate_loss", [False, True])
@pytest.mark.parametrize(
    "algorithm", [FASTLLOYD, MOMENTLLOYD], ids=lambda algorithm: algorithm.name
)
def test_as_many_values_are_opened_in_a_run_as_the_proofs_reckon_with(
    algorithm: AnyAlgorithm, estimate_loss: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K of the ring's bound and of the shares of noise, for both kinds of mechanism; and no value
    is above its part's bound.
    """
    starts_cheaply(monkeypatch)
    federation = make_federation(make_plan(3, algorithm=algorithm, estimate_loss=estimate_loss))
    plan, open_sum = federation.plan, MaskedRound.open
    opened: list[IntArray] = []

    def noted(
        masked: MaskedRound, payload: bytes, included: dict[str, bytes], n_words: int
    ) -> IntArray:
        opened.append(open_sum(masked, payload, included, n_words))
        return opened[-1]

    monkeypatch.setattr(MaskedRound, "open", noted)
    clients = federation.clients()
    run_in_process(federation.server(), clients)
    of_one = opened[:: len(clients)]
    assert len(of_one) == plan.mechanism.n_rounds
    assert sum(values.size for values in of_one) == plan.mechanism.n_released
    load = ring_load(plan)
    for exchange, values in zip(plan.mechanism.all_rounds, of_one, strict=True):
        parts, scales = plan.mechanism.parts(exchange), plan.total_scales(exchange)
        limits = [
            load.n_records * part.bound + load.noise_reach(scale)
            for part, scale in zip(parts, scales, strict=True)
        ]
        columns = np.repeat(limits, [part.n_columns for part in parts])
        assert (abs(values.reshape(plan.mechanism.shape(exchange))) <= columns).all()
        assert max(limits) < 2 ** (load.required_bits - 1) <= 2 ** (plan.ring_bits - 1)
