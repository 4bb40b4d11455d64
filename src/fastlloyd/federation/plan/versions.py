"""Versions of the format of plans."""

from fastlloyd.mechanisms.catalogue import AnyPlanned

PROTOCOL_VERSION = 5
"""Version of the messages, and of a plan without a recipe."""
RECIPE_VERSION = 6
"""Version of a plan with a recipe. A program that cannot read recipes must refuse it. The messages
are those of `PROTOCOL_VERSION`.
"""


def version_of(mechanism: AnyPlanned) -> int:
    """Return the version of the plans of a mechanism. A mechanism with a recipe needs another
    version.
    """
    return PROTOCOL_VERSION if mechanism.domain.recipe is None else RECIPE_VERSION
