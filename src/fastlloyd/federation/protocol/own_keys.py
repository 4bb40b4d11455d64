"""Keys of one client in one run: the client's own keys, and a key for each pair with another
client.

Every secret has a name. An earlier process of the client may have stored the secret under this
name.
"""

from collections.abc import Callable, Mapping

from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.protocol.actions import Keep
from fastlloyd.federation.protocol.roster import KeySet
from fastlloyd.federation.secagg.masks import Secret
from fastlloyd.federation.secagg.pairs import CHECKED_BYTES, CIPHERTEXT_BYTES, PairKey, RunKeys

RUN_KEYS = "run-keys"
Encapsulate = Callable[[bytes], tuple[bytes, bytes]]
"""Function of ML-KEM: it takes a public key and returns a secret and its ciphertext, new ones at
every call.
"""


class OwnKeys(Secret):
    """Keys of one client in one run, and the keys that it shares with each other client (pair
    keys).

    run : the client's own keys of the run.
    ciphertexts : ciphertext of each pair secret that the client made, by the name of the secret.

    Parameters
    ----------
    name : name of the client.
    kept : secrets that an earlier process stored, by name. RUN_KEYS must be among them.
    encapsulate : `secagg.pairs.encapsulate`. Tests may pass another function, to know its draws.
    """

    __slots__ = ("_encapsulate", "_fresh", "_kept", "_name", "_pairs", "ciphertexts", "run")

    def __init__(self, name: str, kept: Mapping[str, bytes], encapsulate: Encapsulate) -> None:
        self._name, self._encapsulate = name, encapsulate
        self._kept, self._fresh = dict(kept), list[Keep]()
        self._pairs, self.ciphertexts = dict[str, PairKey](), dict[str, bytes]()
        self.run = RunKeys.from_private_bytes(self.secret(RUN_KEYS))

    def keep(self, known_as: str, secret: bytes) -> None:
        """Add a secret under the name `known_as`."""
        self._kept[known_as] = secret
        self._fresh.append(Keep(known_as, secret))

    def fresh(self) -> list[Keep]:
        """Return the secrets added since the last call, for storage."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def secret(self, known_as: str) -> bytes:
        """Return the secret named `known_as`. Raises LocalProtocolError if it is missing, because
        it was wiped.
        """
        if known_as not in self._kept:
            raise LocalProtocolError(
                "the message log does not say that this run ended, but the secret"
                f" {known_as!r} is gone"
            )
        return self._kept[known_as]

    def make(self, agreed: KeySet, other: str, known_as: str) -> PairKey:
        """Return the pair key with a client that is later in the plan. The secret of the pair is
        drawn at the first call.

        The parameters are those of `with_later`.
        """
        if known_as not in self.ciphertexts:  # otherwise it was made for an earlier Deal
            secret, self.ciphertexts[known_as] = self._encapsulate(
                agreed.hellos[other].encapsulation_key
            )
            self.keep(known_as, secret)
        return self.with_later(agreed, other, known_as)

    def with_later(self, agreed: KeySet, other: str, known_as: str) -> PairKey:
        """Return the pair key with a later client, for whose public key this client made the
        secret.

        agreed : key set of the run.
        other : name of the later client.
        known_as : name under which the secret of the pair is stored.
        """
        if known_as not in self._pairs:
            self._pairs[known_as] = self._agree_with_later(agreed, other, known_as)
        return self._pairs[known_as]

    def _agree_with_later(self, agreed: KeySet, other: str, known_as: str) -> PairKey:
        hello, secret = agreed.hellos[other], self.secret(known_as)
        context = agreed.pair(self._name, other)
        exchanged = self.run.exchange(hello.exchange_key)
        ciphertext = self.ciphertexts[known_as]
        return PairKey.agree(
            context, exchange_secret=exchanged, kem_secret=secret, ciphertext=ciphertext
        )

    def with_earlier(self, agreed: KeySet, other: str, message: bytes) -> PairKey:
        """Return the pair key with an earlier client, which made the secret for this client's
        public key.

        agreed : key set of the run.
        other : name of the earlier client.
        message : ciphertext of the secret, with its HMAC.

        Raises RemoteProtocolError if the HMAC is wrong.
        """
        hello, ciphertext = agreed.hellos[other], message[:CIPHERTEXT_BYTES]
        exchanged = self.run.exchange(hello.exchange_key)
        secret = self.run.decapsulate(ciphertext)
        context = agreed.pair(self._name, other)
        pair = PairKey.agree(
            context, exchange_secret=exchanged, kem_secret=secret, ciphertext=ciphertext
        )
        pair.check(message[:CHECKED_BYTES])
        return pair
