"""Refusal of noise that can be repeated, because it protects no record.

`testing.repeatable_noise` permits such noise. Sessions check the permission when they are made, and
`central.cluster` checks it before it adds noise. The permission belongs to a context, so other
threads do not have it. Copies of the context, as in tasks and `asyncio.to_thread`, also have the
permission, but only until the `with` ends.
"""

from contextvars import ContextVar
from typing import Final

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import LocalProtocolError


class Permission:
    """Permission that `testing.repeatable_noise` gives, and withdraws at the end of its `with`
    block.

    holds : whether the permission still holds.
    """

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds = True


ALLOWED: Final[ContextVar[Permission | None]] = ContextVar("ALLOWED", default=None)
"""Permission of the current context, or None. Only `testing.repeatable_noise` sets it."""


def check_private(source: NoiseSource) -> None:
    """Raise LocalProtocolError for repeatable noise, unless this context may use it."""
    permission = ALLOWED.get()
    if source.private is not True and (permission is None or not permission.holds):
        raise LocalProtocolError(
            f"noise from {type(source).__name__} can be repeated, so it protects no record; pass"
            " dp.noise.SystemNoise(). A test on made-up or public records may use it within `with"
            " fastlloyd.testing.repeatable_noise():`"
        )
