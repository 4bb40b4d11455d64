"""The mechanisms there are, and reading one without knowing which."""

from typing import Any

from fastlloyd.base.sealed_toml import from_toml
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism

AnyMechanism = LloydMechanism | MomentMechanism


def read_mechanism(text: str, source: str = "mechanism.toml") -> AnyMechanism:
    """Read `mechanism.toml`; raises PlanError if it was changed or cannot give the guarantee it states."""
    kinds: Any = AnyMechanism
    mechanism: AnyMechanism = from_toml(text, kinds, source)
    return mechanism
