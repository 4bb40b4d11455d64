"""Federated and central k-means clustering with differential privacy, and with secure aggregation
of masked sums.

Importing the package is cheap. A name is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from fastlloyd.base.version import __version__

if TYPE_CHECKING:
    from fastlloyd.clustering.domain import Domain
    from fastlloyd.errors import (
        ClippedRecordsWarning,
        FastLloydError,
        LedgerWarning,
        NoisyResultWarning,
        PrivacyLeakWarning,
        UncountedFitWarning,
        WeakGuaranteeWarning,
    )
    from fastlloyd.estimators.charging import dataset
    from fastlloyd.estimators.estimators import FastLloyd, GLloyd, Lloyd, MomentLloyd, SuLloyd
    from fastlloyd.estimators.pipelines import check_private_pipeline
    from fastlloyd.estimators.transformer import RecipeTransformer
    from fastlloyd.federation.plan.plan import Plan
    from fastlloyd.federation.protocol.client import ClientSession
    from fastlloyd.federation.protocol.server import ServerSession
    from fastlloyd.mechanisms.catalogue import read_mechanism
    from fastlloyd.mechanisms.mechanism import Mechanism
    from fastlloyd.records.recipe import Recipe
    from fastlloyd.reports.advising import advise

__all__ = [
    "ClientSession",
    "ClippedRecordsWarning",
    "Domain",
    "FastLloyd",
    "FastLloydError",
    "GLloyd",
    "LedgerWarning",
    "Lloyd",
    "Mechanism",
    "MomentLloyd",
    "NoisyResultWarning",
    "Plan",
    "PrivacyLeakWarning",
    "Recipe",
    "RecipeTransformer",
    "ServerSession",
    "SuLloyd",
    "UncountedFitWarning",
    "WeakGuaranteeWarning",
    "__version__",
    "advise",
    "check_private_pipeline",
    "dataset",
    "read_mechanism",
]

_HOME = {
    **dict.fromkeys(
        ("FastLloyd", "GLloyd", "Lloyd", "MomentLloyd", "SuLloyd"), "fastlloyd.estimators"
    ),
    **dict.fromkeys(
        (
            "ClippedRecordsWarning",
            "FastLloydError",
            "LedgerWarning",
            "NoisyResultWarning",
            "PrivacyLeakWarning",
            "UncountedFitWarning",
            "WeakGuaranteeWarning",
        ),
        "fastlloyd.errors",
    ),
    "ClientSession": "fastlloyd.federation.protocol.client",
    "Domain": "fastlloyd.clustering.domain",
    "Mechanism": "fastlloyd.mechanisms.mechanism",
    "Plan": "fastlloyd.federation.plan.plan",
    "Recipe": "fastlloyd.records.recipe",
    "RecipeTransformer": "fastlloyd.estimators.transformer",
    "ServerSession": "fastlloyd.federation.protocol.server",
    "advise": "fastlloyd.reports.advising",
    "check_private_pipeline": "fastlloyd.estimators.pipelines",
    "dataset": "fastlloyd.estimators.charging",
    "read_mechanism": "fastlloyd.mechanisms.catalogue",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fastlloyd' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
