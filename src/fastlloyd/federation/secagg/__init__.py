"""Masked secure aggregation: rings, one-time masks and the keys behind them. Integers in, integers out."""

from fastlloyd.federation.secagg.keys import (
    EphemeralKey,
    Identity,
    confirmation,
    confirmations,
    differing,
    open_sealed,
    seal,
    verify,
)
from fastlloyd.federation.secagg.masks import GroupKey, MaskContext, expand_mask, sum_of_masks
from fastlloyd.federation.secagg.ring import NoiseTail, Ring, RingLoad, RingVector, choose_ring, headroom

__all__ = [
    "EphemeralKey",
    "GroupKey",
    "Identity",
    "MaskContext",
    "NoiseTail",
    "Ring",
    "RingLoad",
    "RingVector",
    "choose_ring",
    "confirmation",
    "confirmations",
    "differing",
    "expand_mask",
    "headroom",
    "open_sealed",
    "seal",
    "sum_of_masks",
    "verify",
]
