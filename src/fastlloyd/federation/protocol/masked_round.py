"""One round's masked sum as its clients see it: what goes into an upload, and what comes out of a
broadcast.

Every upload carries one word more than its statistics: a constant that everyone can compute. If the
server added up exactly the uploads it names, and every client masks and unmasks in the same
context, the opened word is their number times the constant. It finds faults and different contexts,
with probability 1 - 2**-(ring bits); it is no defence against a server that adds up this word
correctly and other words wrongly, or adds something to them; `Plausible` bounds how much.

The transcript hash, a chain over the key set, every broadcast and all parameters, is bound into
every mask:

    h_0 = H(start label, plan digest, run id, n, Deal with its number and the Hellos of the n
    clients that share keys, the dealer's commitment to the group key)
    h_i = H(step label, h_{i-1}, message i)

with the broadcasts and parameters as messages, in the order in which they are fixed and as
`messages.encode` writes them, and H = SHA-256 of its arguments, each after 4 bytes of big-endian
length. Two clients that were shown different things have different hashes, hence different masks,
and fail to open the next sum.
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
    """One round of a client: its masks, what they are bound to in this round, and the ring in which
    uploads are added up.
    """

    masks: MaskScheme
    context: MaskContext
    ring: Ring

    def hide(self, values: IntArray, client: str, nonce: bytes) -> bytes:
        """The payload of an upload: `values`, int64 of any shape, and the checksum word, masked."""
        plain = np.append(self.ring.wrap(values.ravel()), self.ring.dtype.type(self._word))
        return self.ring.to_bytes(self.masks.hide(plain, self.context, client, nonce))

    def open(self, payload: bytes, included: Mapping[str, bytes], n_words: int) -> IntArray:
        """The sum of the values hidden in the uploads of `included`, nonces by client: int64
        (n_words - 1,).

        RemoteProtocolError if `payload` is not their sum.
        """
        total = self.masks.open(self.ring.from_bytes(payload, n_words), self.context, included)
        if int(total[-1]) != len(included) * self._word % (1 << self.ring.bits):
            raise RemoteProtocolError(
                f"the sum of round {self.context.round} does not open: it is not the sum of the"
                " uploads it names, or clients were shown different messages"
            )
        return self.ring.centre(total[:-1])

    @property
    def _word(self) -> int:
        return _checksum(self.context.plan_digest, self.context.round, self.ring)


@lru_cache(maxsize=64)  # of public numbers; every client asks twice a round
def _checksum(plan_digest: bytes, round: int, ring: Ring) -> int:
    """An odd ring element: sums over different numbers of clients have different checksums."""
    seed = _hash(_CHECKSUM_LABEL, plan_digest, round.to_bytes(8, "big"))
    return int(np.frombuffer(seed[: ring.itemsize], dtype=ring.dtype)[0]) | 1


@dataclass(frozen=True, slots=True)
class Plausible:
    """How large an honest noisy answer can be, for the records that are in it.

    bounds, reaches : per round, and per column of its answer, what one record adds at most, and
    what the noise adds at most, but for a probability below 2**-40 in the whole run (`RingLoad`):
    int64 (n_columns,) each.
    """

    bounds: tuple[IntArray, ...]
    reaches: tuple[IntArray, ...]

    @classmethod
    @lru_cache(maxsize=16)  # all clients of a simulation ask
    def of(cls, plan: Plan) -> Self:
        """Bounds for the rounds of `plan`."""
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
        """Raise RemoteProtocolError unless this can be the answer of that round over at most
        `n_records` records.
        """
        limits = (
            n_records * self.bounds[round - 1] + self.reaches[round - 1]
        )  # fits: the ring holds it
        if ((answer > limits) | (answer < -limits)).any():
            raise RemoteProtocolError(
                f"the opened sum of round {round} is larger than its clients' caps and the noise"
                " allow; it was tampered with"
            )


def start_transcript(plan_digest: bytes, run_id: bytes, deal: Deal, commitment: bytes) -> bytes:
    """h_0, 32 bytes; the same for all clients that `deal` names and that hold the group key of
    that commitment.
    """
    n = len(deal.hellos).to_bytes(8, "big")
    return _hash(_START_LABEL, plan_digest, run_id, n, encode(deal), commitment)


def extend_transcript(transcript_hash: bytes, message: Broadcast | Parameters) -> bytes:
    """h_i from h_{i-1}, 32 bytes."""
    return _hash(_STEP_LABEL, transcript_hash, encode(message))


def _hash(*fields: bytes) -> bytes:
    return hashlib.sha256(length_prefixed(*fields)).digest()
