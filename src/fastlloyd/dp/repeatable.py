"""Noise that can be repeated protects nobody: it is refused, unless `testing.repeatable_noise` lets it pass.

Whoever adds noise to answers about records asks here first, once, when it is given the source: the sessions, when they are
made, and `central.cluster`. The permission belongs to a context: it is not there in another thread, nor after the `with`.
"""

from contextvars import ContextVar
from typing import Final

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import LocalProtocolError

ALLOWED: Final[ContextVar[bool]] = ContextVar("ALLOWED", default=False)
"""Set by `testing.repeatable_noise` and nobody else."""


def check_private(source: NoiseSource) -> None:
    """Raise LocalProtocolError unless the noise says that it is private, or this context may do without."""
    if source.private is not True and not ALLOWED.get():
        raise LocalProtocolError(
            f"noise from {type(source).__name__} protects nobody; pass dp.noise.SystemNoise(). On made-up or public records a "
            "test may use it within `with fastlloyd.testing.repeatable_noise():`"
        )
