"""Lloyd, SuLloyd, GLloyd and FastLloyd: four records of what differs between them."""

import enum
from fractions import Fraction

import msgspec

from fastlloyd.clustering.update import Postprocessing
from fastlloyd.dp.noise import Noise


class RadiusSchedule(enum.Enum):
    """Which records count (Section 5.6 of the paper)."""

    NONE = "none"  # all; sums are absolute, their sensitivity is that of the domain
    CONSTANT = "constant"  # those within eta_d of their centroid
    STEP = "step"  # half the domain diagonal in the first iteration, eta_d afterwards


class Algorithm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What distinguishes one variant of Lloyd's algorithm from another; every field is an axis of the paper's ablation."""

    name: str
    noise: Noise
    radius: RadiusSchedule
    alpha: Fraction = Fraction(4, 5)  # eta_d as a share of the radius of k equal cubes filling the domain
    clipping: bool = False  # no centroid moves by more than the radius in one iteration
    postprocessing: Postprocessing = Postprocessing.NONE


LLOYD = Algorithm(name="lloyd", noise=Noise.NONE, radius=RadiusSchedule.NONE)
SULLOYD = Algorithm(name="sulloyd", noise=Noise.LAPLACE, radius=RadiusSchedule.NONE)
GLLOYD = Algorithm(name="glloyd", noise=Noise.GAUSSIAN, radius=RadiusSchedule.NONE)
FASTLLOYD = Algorithm(
    name="fastlloyd",
    noise=Noise.GAUSSIAN,
    radius=RadiusSchedule.STEP,
    clipping=True,
    postprocessing=Postprocessing.FOLD,
)
