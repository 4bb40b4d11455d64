"""Print warnings, notes for the owner of the records, and results in words and tables."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.console import Console

from fastlloyd.base import precision
from fastlloyd.cli import terminal
from fastlloyd.clustering.outside import Clipped
from fastlloyd.dp.noise import Noise
from fastlloyd.mechanisms import uncertainty
from fastlloyd.mechanisms.facts import Fact, Facts
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.records.recipe.scales import Scale
from fastlloyd.reports.bounds_result import BoundsResult
from fastlloyd.reports.facts import said, sentence, sentences
from fastlloyd.reports.plan_facts import ranges
from fastlloyd.reports.result import Result
from fastlloyd.reports.result_facts import guarantee, loss, of_bounds, reliability, trust
from fastlloyd.reports.run_result import NOT_PRIVATE, RunResult
from fastlloyd.reports.units import SIDES, units_of

if TYPE_CHECKING:
    from fastlloyd.evaluation.comparison import Comparison

SHOWN_FEATURES, SHOWN_BOUNDS, SHOWN_CLIENTS = 20, 6, 12


def warn(warnings: Iterable[str]) -> None:
    """Print each sentence as a warning on stderr."""
    for warning in warnings:
        typer.echo(f"Warning: {warning}", err=True)


def of_workers(engine: str, n_workers: int) -> str:
    """Return a sentence about the workers on other machines that handle the records."""
    return (
        f"Engine: {engine}, {n_workers} worker{'s' * (n_workers != 1)}. Scheduler, workers, their"
        " logs and disks handle your records and exact sums: they must be yours alone."
    )


def on_stderr(sentence: str) -> None:
    """Print a sentence on stderr."""
    typer.echo(sentence, err=True)


class OwnersScreen(NamedTuple):
    """Notes with exact numbers for the owner of the records. Commands print exact numbers nowhere
    else.

    as_json : whether the result is printed as JSON. Then nothing is printed here, because others
        may read stderr in a log.
    say : function that prints a sentence.
    """

    as_json: bool
    say: Callable[[str], None] = on_stderr

    def left_out(self, n: int) -> None:
        """Print the number of records that were left out because of missing cells."""
        self.counted(
            n,
            "1 of your records has missing cells and was left out",
            f"{n} of your records have missing cells and were left out",
        )

    def clipped(self, found: Clipped, features: Sequence[str], *, ends: str = "the bounds") -> None:
        """Print the number of records with clipped values, and the features with many clipped
        values.

        found : exact counts of records and values outside the limits.
        features : names of the features.
        ends : name of the limits in the message, such as "the bounds".
        """
        n = found.n_outside
        self.counted(
            n,
            f"1 of your records has values outside {ends}, which were clipped",
            f"{n} of your records have values outside {ends}, which were clipped",
        )
        self.often_clipped(found, features, ends=ends)

    def often_clipped(
        self, found: Clipped, features: Sequence[str], *, ends: str = "the bounds"
    ) -> None:
        """Print a warning for each feature with many clipped values. The parameters are those of
        `clipped`.
        """
        for name, share in found.often(features).items():
            self._tell(
                f"Warning: {share:.1%} of the values of {name!r} lie outside {ends} and count as"
                " the bound. Centroids and intervals are for the clipped values. State wider bounds"
                " from public knowledge if you can. This share is exact: keep it to yourself."
            )

    def counted(self, n: int, one: str, many: str) -> None:
        """Print a note with the clause `one` if n is 1, or `many` if n is larger. If n is 0, print
        nothing.
        """
        if n:
            said = one if n == 1 else many
            self._tell(f"Note: {said}. This number is exact: keep it to yourself.")

    def _tell(self, sentence: str) -> None:
        if not self.as_json:
            self.say(sentence)


def show(screen: Console, result: RunResult) -> None:
    """Print the result, its guarantee, and its reliability."""
    show_found, trustworthy = _SHOWN[type(result)]
    show_found(screen, result)
    m = result.mechanism
    if not result.has_noise:
        screen.print(sentence(Fact.of("protects_nobody", name=m.name)), style="bold red")
        return
    screen.print(sentences(guarantee(result), m.unit), style="bold red" if result.leaks else None)
    for line in said([*trust(result), *trustworthy(result)], m.unit):
        screen.print(line)


def rounds(result: RunResult) -> list[str]:
    """Return a list with one line: the clients of each round of a federated run. The list is empty
    for one organisation.
    """
    if result.plan is None:
        return []
    names, lines = result.plan.names, []
    for number, included in enumerate(result.included, 1):
        missing = [name for name in names if name not in included]
        who = (
            ", ".join(included)
            if len(included) <= SHOWN_CLIENTS
            else f"{len(included)} of {len(names)} clients"
        )
        name = f"Round {number}" if number <= len(result.mechanism.rounds) else "Loss"
        lines.append(f"{name}: {who}" + (f"; without {', '.join(missing)}" if missing else ""))
    return lines


def show_centroids(screen: Console, result: Result) -> None:
    """Print a table of centroids in original units, and of noisy counts, each with two standard
    errors.
    """
    m = result.mechanism
    shown = m.domain.features[:SHOWN_FEATURES]
    hidden = m.n_features - len(shown)
    numbers = range(len(result.centroids))  # as labels are numbered
    columns = [terminal.Column(heading="cluster", cells=[str(number) for number in numbers])]
    of_features = zip(shown, units_of(m.domain), result.centroids.T, result.errors.T, strict=False)
    for name, units, values, errors in of_features:
        cells = list(map(units.measured, values.tolist(), errors.tolist()))
        columns.append(terminal.Column(heading=name, cells=cells))
    if hidden:
        columns.append(terminal.Column(heading=f"{hidden} more", cells=["..." for _ in numbers]))
    cells = [
        precision.counted(count, SIDES * result.count_error) if result.has_noise else f"{count:.0f}"
        for count in result.noisy_counts
    ]
    columns.append(terminal.Column(heading=_counted(m), cells=cells))
    if not uncertainty.settled(result.accuracy.status).all():
        columns.append(
            terminal.Column(
                heading="status", cells=[status.value for status in result.accuracy.status]
            )
        )
    errors = " ± two standard errors" if result.has_noise else ""
    terminal.show(screen, f"{m.name}: centroids in original units{errors}", columns)
    if result.first is not None:
        screen.print(f"Bounds found, to which values are clipped: {ranges(m, SHOWN_BOUNDS)}.")
    if result.loss is not None:
        screen.print(sentences(loss(result, result.loss), m.unit))


def show_bounds(screen: Console, result: BoundsResult) -> None:
    """Print a table of the bounds, with enough digits to distinguish them."""
    columns = [
        terminal.Column(heading="feature", cells=list(result.ends), justify="left", is_text=True)
    ]
    scales = [column.scale for column in result.mechanism.domain.columns]
    cells = [
        _ends(ends[0], ends[1], scale)
        for ends, scale in zip(result.ends.values(), scales, strict=True)
    ]
    columns += [
        terminal.Column(heading=heading, cells=[each[i] for each in cells])
        for i, heading in enumerate(("lower", "upper"))
    ]
    terminal.show(screen, "bounds in original units", columns)


def _ends(lower: Any, upper: Any, scale: Scale) -> list[str]:
    """Return both bounds of a feature in words, with enough digits to distinguish them."""
    if scale is not Scale.LINEAR:
        return [end if isinstance(end, str) else f"{end:.4g}" for end in (lower, upper)]
    at = precision.decimals((upper - lower) / 100) or 0
    return [
        f"{round(end, at):.{max(at, 0)}f}" if abs(at) <= 6 else f"{end:.6g}"
        for end in (lower, upper)
    ]


def _counted(m: Mechanism) -> str:
    count = "count" if m.noise is Noise.NONE else "noisy count"
    return count if m.persons is None else f"{count} of {m.unit.many}"


def show_comparison(console: Console, exact: "Comparison") -> None:
    """Print exact numbers that compare the result with that of Lloyd's algorithm, and their
    meaning, for the owner only.
    """
    noisy, plain = exact.with_noise, exact.without_noise
    console.print(
        f"{NOT_PRIVATE}, for the owner of the records only: {noisy.algorithm} against lloyd without"
        " noise, from the same start."
    )
    empty = ", ".join(
        f"{f.n_empty_clusters} ({f.algorithm})" for f in (noisy, plain) if f.n_empty_clusters
    )
    console.print(
        "- loss (NICV, mean squared distance to the nearest centroid, half widths squared):"
        f" {noisy.nicv:.6g} against {plain.nicv:.6g}\n- distance between matched centroids, root"
        f" mean square: {exact.centroid_distance:.4g} half widths"
        + (f"\n- clusters without records: {empty}" if empty else "")
    )
    console.print(
        "These figures are exact. Choosing settings by them, or telling them to anyone, is not"
        " covered by the guarantee."
    )


_SHOWN: dict[
    type[RunResult], tuple[Callable[[Console, Any], None], Callable[[Any], list[Fact | Facts]]]
] = {
    Result: (show_centroids, reliability),
    BoundsResult: (show_bounds, of_bounds),
}
