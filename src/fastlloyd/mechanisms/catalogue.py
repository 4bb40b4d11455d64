"""The algorithms, mechanisms and presets there are, by name; words turned into settings, and files into mechanisms."""

import enum
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from fastlloyd.base.names import nearest
from fastlloyd.base.sealed_toml import from_toml
from fastlloyd.clustering.packing import RadiusSearch
from fastlloyd.clustering.update import Postprocessing
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.mechanisms.lloyd.algorithm import FASTLLOYD, GLLOYD, LLOYD, SULLOYD, Algorithm, RadiusSchedule
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism
from fastlloyd.mechanisms.moment_lloyd.rounds import MOMENTLLOYD, MomentAlgorithm

E = TypeVar("E", bound=enum.Enum)
AnyAlgorithm = Algorithm | MomentAlgorithm
ALGORITHMS: dict[str, AnyAlgorithm] = {
    algorithm.name: algorithm for algorithm in (MOMENTLLOYD, FASTLLOYD, GLLOYD, SULLOYD, LLOYD)
}
AnyMechanism = LloydMechanism | MomentMechanism


def read_mechanism(text: str, source: str = "mechanism.toml") -> AnyMechanism:
    """Read `mechanism.toml`; raises PlanError if it was changed or cannot give the guarantee it states."""
    kinds: Any = AnyMechanism
    mechanism: AnyMechanism = from_toml(text, kinds, source)
    return mechanism


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """What a preset decides where the user does not.

    algorithm : where none is named. min_count None: the planner's floor under noisy counts. paper_delta: delta = 1 / (N ln N)
    instead of 1 / (100 N).
    """

    initialization: RadiusSearch
    min_count: Fraction | None
    paper_delta: bool
    algorithm: str

    def delta(self, n_records: int) -> float | None:
        """The preset's delta for a public cap on the number of records; None leaves it to the planner.

        The paper's, 1 / (N ln N), lets one record in ln N data sets' worth be exposed on average: for comparison only.
        """
        return 1 / (n_records * math.log(n_records)) if self.paper_delta and n_records > 2 else None


PRESETS = {
    "default": Preset(initialization=RadiusSearch.BISECTION, min_count=None, paper_delta=False, algorithm="momentlloyd"),
    "paper": Preset(initialization=RadiusSearch.HALVING, min_count=Fraction(0), paper_delta=True, algorithm="fastlloyd"),
}


def preset(name: str) -> Preset:
    """The preset of that name, or PlanError suggesting the nearest."""
    if name not in PRESETS:
        raise PlanError(_unknown("preset", name, list(PRESETS)))
    return PRESETS[name]


def algorithm(name: str) -> AnyAlgorithm:
    """The algorithm of that name (any case), or PlanError suggesting the nearest."""
    if name.lower() not in ALGORITHMS:
        raise PlanError(_unknown("algorithm", name, list(ALGORITHMS)))
    return ALGORITHMS[name.lower()]


def choose(kind: type[E], value: str | E, field: str) -> E:
    """The member of an enum by its value, or PlanError that names the field and the words it knows."""
    if isinstance(value, kind):
        return value
    words = [str(member.value) for member in kind]
    if value not in words:
        raise PlanError(_unknown(field, str(value), words))
    return kind(value)


def specialise(
    base: Algorithm,
    *,
    noise: str | Noise | None = None,
    radius: str | RadiusSchedule | None = None,
    postprocessing: str | Postprocessing | None = None,
    clipping: bool | None = None,
    alpha: float | Fraction | None = None,
) -> Algorithm:
    """An algorithm with some of its fields replaced, as the ablation does; None keeps the algorithm's own."""
    fields = {
        "noise": None if noise is None else choose(Noise, noise, "noise"),
        "radius": None if radius is None else choose(RadiusSchedule, radius, "radius"),
        "postprocessing": None if postprocessing is None else choose(Postprocessing, postprocessing, "postprocessing"),
        "clipping": clipping,
        "alpha": None if alpha is None else fraction(alpha, "alpha"),
    }
    changed = {name: value for name, value in fields.items() if value is not None and value != getattr(base, name)}
    if base.noise is not Noise.NONE and changed.get("noise") is Noise.NONE:
        raise PlanError("noise is 'none'; expected gaussian or laplace: use the algorithm lloyd for a run that protects nobody")
    return msgspec.structs.replace(base, **changed)


def variant(base: AnyAlgorithm, **fields: Any) -> AnyAlgorithm:
    """`specialise`, or MomentLloyd itself. Raises PlanError for a field that says something of it: it has none."""
    if isinstance(base, Algorithm):
        return specialise(base, **fields)
    check_no_effect(base, fields)
    return base


def check_no_effect(algorithm: MomentAlgorithm, settings: Mapping[str, object]) -> None:
    """Refuse what MomentLloyd has no use for: whoever says it means another algorithm."""
    for name, value in settings.items():
        if value is not None:
            raise PlanError(
                f"{name} has no effect: {algorithm.name} plans by itself; leave it out, or name an algorithm of the paper, "
                "such as fastlloyd"
            )


def fraction(value: float | Fraction | str, field: str) -> Fraction:
    """The decimal number a person wrote, exactly (0.8 is 4/5), or PlanError naming the field."""
    text = str(value)
    if re.fullmatch(r"[-+]?[0-9.]{1,40}(e[-+]?[0-9]{1,3})?|[0-9]{1,40}/[0-9]{1,40}", text, re.IGNORECASE):
        with suppress(ValueError, ZeroDivisionError):
            return Fraction(text)
    raise PlanError(f"{field} is {text!r:.40}; expected a number such as 0.8")


def check_expected(n_expected: int | None, n_records: int) -> None:
    """Refuse a guess above the cap that stands beside it; the cap, which may have been taken from the data, is not shown."""
    if n_expected is not None and n_expected > n_records:
        raise PlanError(
            f"n_expected is {n_expected}, above n_records, the cap on the number of records; expect fewer, or raise the cap"
        )


def _unknown(field: str, value: str, known: list[str]) -> str:
    meant = nearest(value.lower(), known)
    hint = f"did you mean {meant!r}? " if meant else ""
    return f"{field} {value!r:.40} is unknown; {hint}expected one of: {', '.join(known)}"
