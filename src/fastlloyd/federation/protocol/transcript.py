"""The transcript hash: a chain over the key set, every broadcast and all parameters, bound into every mask.

h_0 = H(start label, plan digest, run id, H(dealer's Hello, names of those present)),  h_i = H(step label, h_{i-1}, message i),

the messages being the broadcasts and parameters in the order in which they are fixed

with H = SHA-256 of its arguments, each after 4 bytes of big-endian length, and messages as `messages.encode` writes them. Two
clients that were shown different things have different hashes, hence different masks, and fail to open the next sum.
"""

import hashlib

from fastlloyd.base.randomness import length_prefixed
from fastlloyd.federation.protocol.messages import Broadcast, KeyBox, Parameters, encode

_START_LABEL = b"fastlloyd/v1/transcript/start"
_STEP_LABEL = b"fastlloyd/v1/transcript/step"


def start_transcript(plan_digest: bytes, run_id: bytes, keys: KeyBox) -> bytes:
    """h_0, 32 bytes; the same for all that were dealt the same set, since the box itself is left out."""
    names = (name.encode() for name in keys.present)
    key_set = _hash(encode(keys.dealer), *names)
    return _hash(_START_LABEL, plan_digest, run_id, key_set)


def extend_transcript(transcript_hash: bytes, message: Broadcast | Parameters) -> bytes:
    """h_i from h_{i-1}, 32 bytes."""
    return _hash(_STEP_LABEL, transcript_hash, encode(message))


def _hash(*fields: bytes) -> bytes:
    return hashlib.sha256(length_prefixed(*fields)).digest()
