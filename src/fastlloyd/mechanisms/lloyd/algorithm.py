"""The algorithms Lloyd, SuLloyd, GLloyd and FastLloyd, as four values of one class."""

import enum
from fractions import Fraction
from typing import Any, ClassVar

import msgspec

from fastlloyd.base.names import choose, fraction
from fastlloyd.clustering.update import Postprocessing
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.settings import AnyAlgorithm

MIN_ITERATIONS, MAX_ITERATIONS = 2, 7  # Section 5.5: fewer are useless, more are not needed
VARIED = ("noise", "radius", "postprocessing", "clipping", "alpha")  # by the ablation


class RadiusSchedule(enum.Enum):
    """Schedule of the radius within which records count (Section 5.6 of the paper)."""

    NONE = "none"  # all; sums are absolute, their sensitivity is that of the domain
    CONSTANT = "constant"  # those within the planned radius eta_d of their centroid
    STEP = "step"  # half the domain diagonal in the first iteration, eta_d afterwards


class Algorithm(AnyAlgorithm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Variant of Lloyd's algorithm. Every field is an axis of the paper's ablation."""

    radius: RadiusSchedule
    # the planned radius, as a share of that of k equal cubes filling the domain
    alpha: Fraction = Fraction(4, 5)
    clipping: bool = False  # no centroid moves by more than the radius in one iteration
    postprocessing: Postprocessing = Postprocessing.NONE

    fewest_iterations: ClassVar[int] = MIN_ITERATIONS

    def check(self) -> None:
        """Raise PlanError if alpha is out of range."""
        if not 0 < self.alpha <= 4:
            raise PlanError(
                f"alpha is {self.alpha}; expected a number above 0 and at most 4 (the paper uses"
                " 0.8)"
            )

    def varied(self, **fields: Any) -> "Algorithm":
        """Return the algorithm with some fields replaced. Raises PlanError for a wrong value.

        fields : new values as words and numbers. None keeps the value of a field.
        """
        kinds = {"noise": Noise, "radius": RadiusSchedule, "postprocessing": Postprocessing}
        changed = {name: value for name, value in fields.items() if value is not None}
        changed |= {
            name: choose(kinds[name], changed[name], name) for name in kinds.keys() & changed
        }
        if "alpha" in changed:
            changed["alpha"] = fraction(changed["alpha"], "alpha")
        if self.noise is not Noise.NONE and changed.get("noise") is Noise.NONE:
            raise PlanError(
                "noise is 'none'; expected gaussian or laplace: for a run without protection use"
                " the algorithm lloyd"
            )
        return msgspec.structs.replace(self, **changed)


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
