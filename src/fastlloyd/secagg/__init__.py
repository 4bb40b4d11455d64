"""Masked secure aggregation: rings, one-time masks and the keys behind them. Integers in, integers out."""

from fastlloyd.secagg.keys import (
    EphemeralKey,
    Identity,
    check_confirmation,
    confirmation,
    open_sealed,
    seal,
    verify,
)
from fastlloyd.secagg.masks import GroupKey, MaskContext, expand_mask
from fastlloyd.secagg.ring import NoiseTail, Ring, RingLoad, RingVector, choose_ring, headroom

__all__ = [
    "EphemeralKey",
    "GroupKey",
    "Identity",
    "MaskContext",
    "NoiseTail",
    "Ring",
    "RingLoad",
    "RingVector",
    "check_confirmation",
    "choose_ring",
    "confirmation",
    "expand_mask",
    "headroom",
    "open_sealed",
    "seal",
    "verify",
]
