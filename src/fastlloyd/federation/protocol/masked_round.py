"""One round's masked sum as its clients see it: what goes into an upload, and what comes out of a broadcast.

Every upload carries one word more than its statistics: a constant that everyone can compute. If the server added up exactly
the uploads it names, and every client masks and unmasks in the same context, the opened word is their number times the
constant. It finds faults and different contexts, with probability 1 - 2**-(ring bits); it is no defence against a server
that adds up this word as it should and the others not, as it is none against offsets (`Plausible` bounds both).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan, ring_load
from fastlloyd.federation.secagg.masks import GroupKey, MaskContext, expand_mask, sum_of_masks
from fastlloyd.federation.secagg.ring import Ring, RingVector
from fastlloyd.mechanisms.rounds import Exchange

_CHECKSUM_LABEL = b"fastlloyd/v1/checksum"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedRound:
    """What all masks of one round are bound to; client and nonce tell them apart.

    The mask of an upload that was hidden here is kept for the broadcast, so that it is derived once.
    """

    group_key: GroupKey
    plan_digest: bytes
    run_id: bytes
    round: int
    transcript_hash: bytes
    centroids_digest: bytes
    ring: Ring
    _own: dict[tuple[str, bytes], RingVector] = field(init=False, repr=False, compare=False, default_factory=dict)

    @property
    def _word(self) -> int:
        return _checksum(self.plan_digest, self.round, self.ring)

    def _context(self, client: str, nonce: bytes) -> MaskContext:
        return MaskContext(
            plan_digest=self.plan_digest,
            run_id=self.run_id,
            round=self.round,
            client=client,
            upload_nonce=nonce,
            transcript_hash=self.transcript_hash,
            centroids_digest=self.centroids_digest,
        )

    def hide(self, values: IntArray, client: str, nonce: bytes) -> bytes:
        """The payload of an upload: `values`, int64 of any shape, and the checksum word, masked."""
        plain = np.append(self.ring.wrap(values.ravel()), self.ring.dtype.type(self._word))
        mask = self._own[client, nonce] = expand_mask(self.group_key, self._context(client, nonce), plain.size, self.ring)
        return self.ring.to_bytes(self.ring.add(plain, mask))

    def total_mask(self, included: Mapping[str, bytes], n_words: int) -> RingVector:
        """The sum of the masks of these uploads, by client and nonce; at least one."""
        uploads = list(included.items())
        derived = [upload for upload in uploads if upload not in self._own]
        total = sum_of_masks(self.group_key, self._context(*uploads[0]), derived, n_words, self.ring)
        for upload in uploads:
            if upload in self._own:
                total = self.ring.add(total, self._own[upload])
        return total

    def open(self, payload: bytes, included: Mapping[str, bytes], n_words: int) -> IntArray:
        """The sum of the values hidden in the uploads of `included`, whose nonces these are, int64 (n_words - 1,).

        RemoteProtocolError if `payload` is not their sum.
        """
        total = self.ring.subtract(self.ring.from_bytes(payload, n_words), self.total_mask(included, n_words))
        if int(total[-1]) != len(included) * self._word % (1 << self.ring.bits):
            raise RemoteProtocolError(
                f"the sum of round {self.round} does not open: it is not the sum of the uploads it names, "
                "or clients were shown different messages"
            )
        return self.ring.centre(total[:-1])


@lru_cache(maxsize=64)  # of public numbers; every client asks twice a round
def _checksum(plan_digest: bytes, round: int, ring: Ring) -> int:
    """An odd ring element: sums over different numbers of clients have different checksums."""
    seed = hashlib.sha256(length_prefixed(_CHECKSUM_LABEL, plan_digest, round.to_bytes(8, "big"))).digest()
    return int(np.frombuffer(seed[: ring.itemsize], dtype=ring.dtype)[0]) | 1


@dataclass(frozen=True, slots=True)
class Plausible:
    """How large an honest noisy answer can be, for the records that are in it.

    bounds, reaches : per round, and per column of its answer, what one record adds at most, and what the noise adds at most,
    but for a probability below 2**-40 in the whole run (`RingLoad`): int64 (n_columns,) each.
    """

    bounds: tuple[IntArray, ...]
    reaches: tuple[IntArray, ...]

    @classmethod
    @lru_cache(maxsize=16)  # all clients of a simulation ask
    def of(cls, plan: Plan) -> Self:
        """Bounds for the rounds of `plan`."""
        load, exchanges = ring_load(plan), plan.mechanism.exchanges

        def columns(exchange: Exchange) -> tuple[IntArray, IntArray]:
            parts, reaches = plan.mechanism.parts(exchange), map(load.noise_reach, plan.total_scales(exchange))
            of_parts = np.array([[part.bound for part in parts], [*reaches]], dtype=np.int64)
            bounds, of_noise = np.repeat(of_parts, [part.n_columns for part in parts], axis=1)
            return bounds, of_noise

        of_each = {exchange: columns(exchange) for exchange in set(exchanges)}  # most rounds are alike
        bounds, reaches = zip(*(of_each[exchange] for exchange in exchanges), strict=True)
        return cls(bounds, reaches)

    def check(self, answer: IntArray, n_records: int, round: int) -> None:
        """Raise RemoteProtocolError unless this can be the answer of that round over at most `n_records` records."""
        limits = n_records * self.bounds[round - 1] + self.reaches[round - 1]  # fits: the ring holds it
        if ((answer > limits) | (answer < -limits)).any():
            raise RemoteProtocolError(
                f"the opened sum of round {round} is larger than its clients' caps and the noise allow; it was tampered with"
            )
