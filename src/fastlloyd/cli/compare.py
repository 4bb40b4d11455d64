"""What `--compare-non-private` adds to a command: exact figures beside Lloyd's algorithm, for the owner of the records."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from fastlloyd.cli.options import MechanismOptions
from fastlloyd.cli.settings import chosen_algorithm
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import PlanError
from fastlloyd.evaluation import comparison
from fastlloyd.evaluation.comparison import Comparison
from fastlloyd.reports import outputs, stored_result
from fastlloyd.reports.outputs import NOT_PRIVATE, Result

if TYPE_CHECKING:
    from rich.console import Console

    from fastlloyd.clustering.domain import GridArray

CAUTION = (
    "exact figures of a comparison with lloyd were computed from the records and shown to whoever ran the command "
    f"({stored_result.COMPARISON} if there is an output folder): {NOT_PRIVATE}, and not covered by the guarantee"
)


def check(options: MechanismOptions) -> None:
    """Refuse to compare Lloyd's algorithm with itself."""
    if chosen_algorithm(options).noise is Noise.NONE:
        raise PlanError("--compare-non-private compares a private algorithm with lloyd; name one, or leave the option out")


def compare(result: Result, X: "Iterable[GridArray]") -> Comparison:
    """The exact figures of a result and of Lloyd's algorithm on the same grid points. NOT PRIVATE."""
    return comparison.compare(result, comparison.lloyd(result.mechanism, X), X)


def marked(result: Result, exact: Comparison | None) -> Result:
    """The result with a caution in its privacy statement that there are exact figures of its records; none of them is in it."""
    if exact is None:
        return result
    return msgspec.structs.replace(result, cautions=(*result.cautions, CAUTION))


def files(exact: Comparison | None) -> dict[str, bytes]:
    """The file that the figures go to, apart from those of the result."""
    return {} if exact is None else {stored_result.COMPARISON: outputs.to_json(comparison.to_builtins(exact)).encode()}


def for_machines(exact: Comparison | None) -> dict[str, Any]:
    """What `--json` prints of them beside the result."""
    return {} if exact is None else {"not_private": comparison.to_builtins(exact)}


def show(screen: "Console", exact: Comparison | None) -> None:
    """The figures on the owner's screen, and what they are."""
    if exact is None:
        return
    noisy, plain = exact.with_noise, exact.without_noise
    screen.print(
        f"{NOT_PRIVATE}, for the owner of the records only: {noisy.algorithm} against lloyd without noise, from the same start."
    )
    empty = ", ".join(f"{f.n_empty_clusters} ({f.algorithm})" for f in (noisy, plain) if f.n_empty_clusters)
    screen.print(
        f"- loss (NICV, mean squared distance to the nearest centroid, half widths squared): {noisy.nicv:.6g} against "
        f"{plain.nicv:.6g}\n- distance between matched centroids, root mean square: {exact.centroid_distance:.4g} half widths"
        + (f"\n- clusters without records: {empty}" if empty else "")
    )
    screen.print(
        "These figures are exact. Choosing settings by them, or telling them to anyone, is not covered by the guarantee."
    )
