"""NOT PRIVATE. Stand-ins for tests: noise that can be repeated, which protects no record.

Do not use anything in this module with real records.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import ArrayLike, NDArray

from fastlloyd.dp.noise import rounded_gaussian, two_sided_geometric
from fastlloyd.dp.repeatable import ALLOWED, Permission
from fastlloyd.errors import LocalProtocolError


@contextmanager
def repeatable_noise() -> Iterator[None]:
    """Context manager that allows repeatable noise in sessions and `central.cluster`. NOT PRIVATE.

    It must be entered in the thread or task that makes the session or calls `cluster`. Sessions
    that were made inside keep their noise after the block.
    """
    permission = Permission()
    before = ALLOWED.set(permission)
    try:
        yield
    finally:
        permission.holds = False  # also for tasks that copied the context and go on
        ALLOWED.reset(before)


class SeededNoise:
    """NOT PRIVATE. Noise of the production samplers, from a ChaCha20 keystream that a seed
    determines.

    seed : any integer. Equal seeds give equal noise for equal calls in equal order.
    """

    private = False

    def __init__(self, seed: int) -> None:
        key = hashlib.sha256(f"fastlloyd.testing.SeededNoise {seed}".encode()).digest()
        self._key_stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()

    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Return the result of `fastlloyd.dp.noise.rounded_gaussian`."""
        return rounded_gaussian(scale, size, self._bytes)

    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:
        """Return the result of `fastlloyd.dp.noise.two_sided_geometric`."""
        return two_sided_geometric(scale, size, self._bytes)

    def _bytes(self, size: int) -> bytes:
        return self._key_stream.update(bytes(size))


class InjectedNoise:
    """NOT PRIVATE. Noise source that returns given arrays, one at each call. Law and scale have no
    effect.

    values : int64 arrays, one of shape (size,) for each expected call.
    """

    private = False

    def __init__(self, values: Sequence[ArrayLike]) -> None:
        self._values = [np.array(array, dtype=np.int64) for array in values]
        self._given = 0

    # the interface of NoiseSource
    def gaussian(self, scale: Fraction, size: int) -> NDArray[np.int64]:  # noqa: ARG002
        """Return the next of the given arrays of noise, with `size` entries."""
        return self._next(size)

    # the same
    def two_sided_geometric(self, scale: Fraction, size: int) -> NDArray[np.int64]:  # noqa: ARG002
        """Return the next of the given arrays of noise, with `size` entries."""
        return self._next(size)

    def _next(self, size: int) -> NDArray[np.int64]:
        if self._given == len(self._values):
            raise LocalProtocolError(
                f"all {self._given} injected noise arrays are used up; inject one per call"
            )
        array = self._values[self._given]
        if array.shape != (size,):
            raise LocalProtocolError(
                f"injected noise array {self._given} has shape {array.shape}; expected ({size},)"
            )
        self._given += 1
        return array.copy()


UNREPEATABLE_CHECKS = {
    "check_clustering": (
        "the check clusters 50 records and expects an adjusted Rand index above 0.4; noise"
        " that hides one record can prevent this"
    ),
    "check_fit_idempotent": (
        "the check expects equal results of two fits with one random_state; the noise"
        " is new in every fit"
    ),
}


def expected_failed_checks(estimator: Any) -> dict[str, str]:
    """Return scikit-learn's checks that noise may fail, each with the reason.

    For an estimator without noise the result is empty. Pass the result as the argument
    `expected_failed_checks` to `check_estimator` or `parametrize_with_checks`, both in
    `sklearn.utils.estimator_checks` (1.6 or later). A check named here may pass by chance, so do
    not require it to fail (`xfail_strict`). All other checks pass with certainty. scikit-learn
    skips checks that do not suit the tag `non_deterministic`. The remaining checks compare types,
    shapes and messages, or outputs of the same fit.
    """
    return dict(UNREPEATABLE_CHECKS) if estimator.__sklearn_tags__().non_deterministic else {}
