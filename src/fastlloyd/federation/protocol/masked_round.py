"""Masked sum of one round, as the clients see it: the content of uploads and broadcasts.

Every upload has one more word than its statistics: the checksum word, a constant that every party
can compute. Suppose that the server added up exactly the uploads that it names, and that every
client masks and unmasks in the same context. Then the checksum word of the opened sum is the number
of uploads times the constant. This check finds faults and different contexts, with probability 1 -
2**-(ring bits). It does not stop a server that adds up this word correctly and changes others.
`Plausible` limits how much the server can change.

The transcript hash chains the clients that share keys, every broadcast and all parameters. Every
mask is bound to it:

    h_0 = H(start label, plan digest, run id, n, Deal with its number and the Hellos of the n
    clients that share keys, the dealer's commitment to the group key)
    h_i = H(step label, h_{i-1}, message i)

The messages are the broadcasts and parameters, in the order in which the server fixes them, and
encoded by `messages.encode`. H is the SHA-256 of its arguments, each after its length as 4 bytes,
big-endian. If two clients see different messages, their hashes and masks differ, and they cannot
open the next sum.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import length_prefixed
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan, ring_load
from fastlloyd.federation.protocol.messages import Broadcast, Deal, Parameters, encode
from fastlloyd.federation.secagg.masks import MaskContext, MaskScheme
from fastlloyd.federation.secagg.ring import Ring
from fastlloyd.mechanisms.rounds import Round

_CHECKSUM_LABEL = b"fastlloyd/v1/checksum"
_START_LABEL = b"fastlloyd/v1/transcript/start"
_STEP_LABEL = b"fastlloyd/v1/transcript/step"


@dataclass(frozen=True, slots=True)
class MaskedRound:
    """One round of a client: its masks, the context to which they are bound, and the ring in which
    uploads are added up.
    """

    masks: MaskScheme
    context: MaskContext
    ring: Ring

    def hide(self, values: IntArray, client: str, nonce: bytes) -> bytes:
        """Return the payload of an upload of `client`: the values and the checksum word, masked.

        values : int64, any shape.
        nonce : 8 random bytes, to which the mask is bound.
        """
        plain = np.append(self.ring.wrap(values.ravel()), self.ring.dtype.type(self._word))
        return self.ring.to_bytes(self.masks.hide(plain, self.context, client, nonce))

    def open(self, payload: bytes, included: Mapping[str, bytes], n_words: int) -> IntArray:
        """Return the sum of the values in the included uploads, int64 (n_words - 1,).

        included : nonce of each client whose upload is in the sum `payload`, by name.

        Raises RemoteProtocolError if the checksum word shows that `payload` is not their sum.
        """
        total = self.masks.open(self.ring.from_bytes(payload, n_words), self.context, included)
        if int(total[-1]) != len(included) * self._word % (1 << self.ring.bits):
            raise RemoteProtocolError(
                f"the sum of round {self.context.round} does not open: it is not the sum of the"
                " uploads that it names, or the clients were sent different messages"
            )
        return self.ring.centre(total[:-1])

    @property
    def _word(self) -> int:
        return _checksum(self.context.plan_digest, self.context.round, self.ring)


@lru_cache(maxsize=64)  # the arguments are public; every client calls this twice in a round
def _checksum(plan_digest: bytes, round: int, ring: Ring) -> int:
    """Return the checksum word of an upload: an odd ring element, so sums of different numbers of
    uploads have different checksums.
    """
    seed = _hash(_CHECKSUM_LABEL, plan_digest, round.to_bytes(8, "big"))
    return int(np.frombuffer(seed[: ring.itemsize], dtype=ring.dtype)[0]) | 1


@dataclass(frozen=True, slots=True)
class Plausible:
    """Largest answer of each round that honest parties can cause, for a number of records.

    bounds : for each round and column of its answer, the largest absolute value that one record
        adds, int64 (n_columns,) each.
    reaches : bounds on the absolute value of the noise, in the same form. The noise of the whole
        run exceeds any of them with a probability below 2**-40 (`RingLoad`).
    """

    bounds: tuple[IntArray, ...]
    reaches: tuple[IntArray, ...]

    @classmethod
    @lru_cache(maxsize=16)  # all clients of a simulation call this
    def of(cls, plan: Plan) -> Self:
        """Return the largest answers in the rounds of `plan`."""
        load, rounds = ring_load(plan), plan.mechanism.all_rounds

        def columns(round: Round) -> tuple[IntArray, IntArray]:
            parts, reaches = (
                plan.mechanism.parts(round),
                map(load.noise_reach, plan.total_scales(round)),
            )
            of_parts = np.array([[part.bound for part in parts], [*reaches]], dtype=np.int64)
            bounds, of_noise = np.repeat(of_parts, [part.n_columns for part in parts], axis=1)
            return bounds, of_noise

        of_each = {round: columns(round) for round in set(rounds)}  # most rounds are alike
        bounds, reaches = zip(*(of_each[round] for round in rounds), strict=True)
        return cls(bounds, reaches)

    def check(self, answer: IntArray, n_records: int, round: int) -> None:
        """Raise RemoteProtocolError unless `n_records` records and the noise can cause this answer
        in that round, counted from 1.
        """
        # no overflow, because the ring can represent the limits
        limits = n_records * self.bounds[round - 1] + self.reaches[round - 1]
        if ((answer > limits) | (answer < -limits)).any():
            raise RemoteProtocolError(
                f"the opened sum of round {round} is larger than its clients' caps and the noise"
                " allow; it was tampered with"
            )


def start_transcript(plan_digest: bytes, run_id: bytes, deal: Deal, commitment: bytes) -> bytes:
    """Return the first transcript hash h_0, equal for all clients in `deal` with this group key."""
    n = len(deal.hellos).to_bytes(8, "big")
    return _hash(_START_LABEL, plan_digest, run_id, n, encode(deal), commitment)


def extend_transcript(transcript_hash: bytes, message: Broadcast | Parameters) -> bytes:
    """Return the transcript hash h_i, given h_{i-1} and the next message. Each hash has 32
    bytes.
    """
    return _hash(_STEP_LABEL, transcript_hash, encode(message))


def _hash(*fields: bytes) -> bytes:
    return hashlib.sha256(length_prefixed(*fields)).digest()
