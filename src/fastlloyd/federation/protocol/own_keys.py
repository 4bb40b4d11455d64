"""Keys that one client made in one run, for itself and for its pairs.

Every secret has a name, under which an earlier process of the client may have kept it.
"""

from collections.abc import Callable, Mapping

from fastlloyd.errors import LocalProtocolError
from fastlloyd.federation.protocol.actions import Keep
from fastlloyd.federation.protocol.roster import KeySet
from fastlloyd.federation.secagg.masks import Secret
from fastlloyd.federation.secagg.pairs import CHECKED_BYTES, CIPHERTEXT_BYTES, PairKey, RunKeys

RUN_KEYS = "run-keys"
Encapsulate = Callable[[bytes], tuple[bytes, bytes]]
"""ML-KEM: (public key) -> (secret, ciphertext), fresh ones at every call."""


class OwnKeys(Secret):
    """Keys of client `name` in one run, and of its pairs with others.

    run : its own keys of the run. ciphertexts : those that it made, by the name of the secret in
        each.

    Parameters
    ----------
    kept : the secrets that an earlier process kept, by name, at least RUN_KEYS.
    encapsulate : `secagg.pairs.encapsulate`. Tests may replace it to know its draws.
    """

    __slots__ = ("_encapsulate", "_fresh", "_kept", "_name", "_pairs", "ciphertexts", "run")

    def __init__(self, name: str, kept: Mapping[str, bytes], encapsulate: Encapsulate) -> None:
        self._name, self._encapsulate = name, encapsulate
        self._kept, self._fresh = dict(kept), list[Keep]()
        self._pairs, self.ciphertexts = dict[str, PairKey](), dict[str, bytes]()
        self.run = RunKeys.from_private_bytes(self.secret(RUN_KEYS))

    def keep(self, known_as: str, secret: bytes) -> None:
        """Remember a secret under this name."""
        self._kept[known_as] = secret
        self._fresh.append(Keep(known_as, secret))

    def fresh(self) -> list[Keep]:
        """Return the secrets added since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def secret(self, known_as: str) -> bytes:
        """Return the secret of this name. Raises LocalProtocolError if it was wiped."""
        if known_as not in self._kept:
            raise LocalProtocolError(
                "the message log does not say that this run ended, but the secret"
                f" {known_as!r} is gone"
            )
        return self._kept[known_as]

    def make(self, agreed: KeySet, other: str, known_as: str) -> PairKey:
        """Return the key of the pair with a client after this one; its secret is made once."""
        if known_as not in self.ciphertexts:  # else made for a Deal before, which named more
            secret, self.ciphertexts[known_as] = self._encapsulate(
                agreed.hellos[other].encapsulation_key
            )
            self.keep(known_as, secret)
        return self.with_later(agreed, other, known_as)

    def with_later(self, agreed: KeySet, other: str, known_as: str) -> PairKey:
        """Return the pair key with a later client, to whose public key this client encapsulated.

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
        """Return the key of the pair with a client that encapsulated to this one.

        Raises RemoteProtocolError if its HMAC does not fit.
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
