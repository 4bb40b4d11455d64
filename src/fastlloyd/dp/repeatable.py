"""Noise that can be repeated protects nobody: it is refused, unless `testing.repeatable_noise` lets
it pass.

Whoever adds noise to answers about records asks here first, once, when it is given the source: the
sessions, when they are made, and `central.cluster`. The permission belongs to a context: no other
thread has it. Whoever copies the context, as tasks and `asyncio.to_thread` do, has it as well, but
never after the `with`.
"""

from contextvars import ContextVar
from typing import Final

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import LocalProtocolError


class Permission:
    """What `testing.repeatable_noise` gives, and withdraws at the end of its `with`."""

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds = True


ALLOWED: Final[ContextVar[Permission | None]] = ContextVar("ALLOWED", default=None)
"""Set by `testing.repeatable_noise` and nobody else."""


def check_private(source: NoiseSource) -> None:
    """Raise LocalProtocolError unless the noise says that it is private, or this context may do
    without.
    """
    permission = ALLOWED.get()
    if source.private is not True and (permission is None or not permission.holds):
        raise LocalProtocolError(
            f"noise from {type(source).__name__} protects nobody; pass dp.noise.SystemNoise(). On"
            " made-up or public records a test may use it within `with"
            " fastlloyd.testing.repeatable_noise():`"
        )
