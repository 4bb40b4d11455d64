"""Output of commands: warnings, notes for the owner only, and a result in words and tables."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import typer
from rich.console import Console

from fastlloyd.base import precision
from fastlloyd.base.names import listing
from fastlloyd.cli import terminal
from fastlloyd.clustering.outside import Clipped
from fastlloyd.dp.noise import Noise
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.mechanisms import estimand, uncertainty
from fastlloyd.mechanisms.mechanism import Mechanism
from fastlloyd.mechanisms.uncertainty import LossEstimate, Verdict, noise_dominates
from fastlloyd.reports.bounds_result import BoundsResult
from fastlloyd.reports.coalitions import holds_against
from fastlloyd.reports.explain import bounds, simulated
from fastlloyd.reports.result import Result
from fastlloyd.reports.run_result import NOT_PRIVATE, RunResult
from fastlloyd.reports.statement import whole_person

if TYPE_CHECKING:
    from fastlloyd.evaluation.comparison import Comparison

SHOWN_FEATURES, SHOWN_CLIENTS = 6, 12
RELATIONS = {
    "add_or_remove_one": "whether any single {one} is in the data",
    "replace_one": "what any single {one} says",
}
OF_PERSONS = {**RELATIONS, "replace_one": "what the rows of any single {one} say"}


def warn(sentences: Iterable[str]) -> None:
    """Print each sentence as a warning on stderr."""
    for sentence in sentences:
        typer.echo(f"Warning: {sentence}", err=True)


def of_workers(engine: str, n_workers: int) -> str:
    """Say that workers elsewhere handle the records."""
    return (
        f"Engine: {engine}, {n_workers} worker{'s' * (n_workers != 1)}. Scheduler, workers, their"
        " logs and disks handle your records and exact sums: they must be yours alone."
    )


def on_stderr(sentence: str) -> None:
    """Print a sentence on stderr."""
    typer.echo(sentence, err=True)


class OwnersScreen(NamedTuple):
    """Notes for the owner of the records, with exact numbers: the one way for commands to say them.

    as_json : the result goes to a program, so nothing is said: others may read what stderr leaves
    in a log. say : prints a sentence.
    """

    as_json: bool
    say: Callable[[str], None] = on_stderr

    def left_out(self, n: int) -> None:
        """Say how many records had missing cells."""
        self.counted(n, f"missing cells and {'was' if n == 1 else 'were'} left out")

    def clipped(self, found: Clipped, features: Sequence[str], *, ends: str = "the bounds") -> None:
        """Say how many records the bounds cut, and name the features with many cut values.

        ends : name of the ends that values are clipped to, for messages.
        """
        self.counted(found.n_outside, f"values outside {ends}, which were clipped")
        for name, share in found.often(features).items():
            self._tell(
                f"Warning: {share:.1%} of the values of {name!r} lie outside {ends} and count as"
                " the bound. Centroids and intervals are for the clipped values. State wider bounds"
                " from public knowledge if you can. This share is exact: keep it to yourself."
            )

    def counted(self, n: int, what: str) -> None:
        """Say how many records have something, if any has."""
        if n:
            have = "has" if n == 1 else "have"
            self._tell(
                f"Note: {n} of your records {have} {what}. This number is exact: keep it to"
                " yourself."
            )

    def _tell(self, sentence: str) -> None:
        if not self.as_json:
            self.say(sentence)


def show(screen: Console, result: RunResult) -> None:
    """Print what was found, what is guaranteed, and how far to trust it."""
    show_found, trustworthy = _SHOWN[type(result)]
    show_found(screen, result)
    if not result.has_noise:
        screen.print(
            f"{NOT_PRIVATE}: {result.mechanism.name} adds no noise and protects nobody.",
            style="bold red",
        )
        return
    screen.print(guarantee(result), style="bold red" if result.leaks else None)
    if result.plan is not None:
        screen.print(_trust(result))
    for sentence in trustworthy(result):
        screen.print(sentence)


def rounds(result: RunResult) -> list[str]:
    """Say who was included in each round of a federated run, a line each; no lines for a run of one
    holder.
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
    """Print a table of centroids in original units with their standard errors, and noisy counts."""
    m = result.mechanism
    shown = m.domain.features[:SHOWN_FEATURES]
    hidden = m.n_features - len(shown)
    numbers = range(len(result.centroids))  # as labels are numbered
    columns = [terminal.Column(heading="cluster", cells=[str(number) for number in numbers])]
    for name, values, errors in zip(shown, result.centroids.T, result.errors.T, strict=False):
        columns.append(terminal.Column(heading=name, cells=list(map(measured, values, errors))))
    if hidden:
        columns.append(terminal.Column(heading=f"{hidden} more", cells=["..." for _ in numbers]))
    cells = [
        measured(count, result.count_error) if result.has_noise else f"{count:.0f}"
        for count in result.noisy_counts
    ]
    columns.append(terminal.Column(heading=_counted(m), cells=cells))
    if not uncertainty.settled(result.accuracy.status).all():
        columns.append(
            terminal.Column(
                heading="status", cells=[status.value for status in result.accuracy.status]
            )
        )
    errors = " ± standard error" if result.has_noise else ""
    terminal.show(screen, f"{m.name}: centroids in original units{errors}", columns)
    if result.first is not None:
        screen.print(f"Bounds found, to which values are clipped: {bounds(m, SHOWN_FEATURES)}.")
    if result.loss is not None:
        screen.print(loss(result, result.loss))


def show_bounds(screen: Console, result: BoundsResult) -> None:
    """Print a table of the bounds, with digits that they can be told apart by."""
    lower, upper = zip(*result.ends.values(), strict=True)
    places = [
        precision.decimals((high - low) / 100) or 0 for low, high in zip(lower, upper, strict=True)
    ]
    columns = [
        terminal.Column(heading="feature", cells=list(result.ends), justify="left", is_text=True)
    ]
    for heading, ends in (("lower", lower), ("upper", upper)):
        cells = [
            f"{round(end, at):.{max(at, 0)}f}" if abs(at) <= 6 else f"{end:.6g}"
            for end, at in zip(ends, places, strict=True)
        ]
        columns.append(terminal.Column(heading=heading, cells=cells))
    terminal.show(screen, "bounds in original units", columns)


def of_bounds(result: BoundsResult) -> list[str]:
    """Say which bounds were not found, and whether the others can be trusted."""
    said = [f"Warning: {doubt}." for doubt in result.doubts]
    if result.not_found:
        said.append(
            f"Noise hides where the records are in {listing(result.not_found)}: the outer range"
            " stands there. A larger epsilon or more records would help."
        )
    return said


def _counted(m: Mechanism) -> str:
    count = "count" if m.noise is Noise.NONE else "noisy count"
    return count if m.persons is None else f"{count} of {m.unit.many}"


def loss(result: Result, estimate: LossEstimate) -> str:
    """Say the estimate of the loss and what it means; no exact number of records is involved."""
    m, n = result.mechanism, result.mechanism.n_expected
    cap = m.loss.cap * m.loss.unit(m.domain.fraction_bits) if m.loss else math.nan
    name = "Private estimate of the loss" if result.has_noise else f"Loss, {NOT_PRIVATE}"
    per_record = measured(estimate.value / n, estimate.standard_error / n)
    remarks = (
        " It is negative because the noise is larger than the loss." if estimate.value < 0 else ""
    )
    if result.plan is not None and len(result.included[-1]) < result.plan.n_clients:
        remarks += (
            f" It is the loss of the records of {len(result.included[-1])} of"
            f" {result.plan.n_clients} clients."
        )
    return (
        f"{name}: {measured(estimate.value, estimate.standard_error)}, the sum of squared distances"
        f" to the nearest centroid in squared half widths of the domain; {per_record} for each of"
        f" {n} expected {m.unit.many}. Records farther away than {math.sqrt(cap):.4g} half widths"
        f" count as {cap:.4g}.{remarks}"
    )


def guarantee(result: RunResult) -> str:
    """Say the guarantee in a sentence."""
    m = result.mechanism
    delta = f", delta = {precision.delta_up(m.delta)}" if m.delta else ""
    parameters = f"epsilon = {precision.epsilon_up(result.epsilon)}{delta}"
    hidden = (OF_PERSONS if m.persons else RELATIONS)[m.neighboring_relation.value].format(
        one=m.unit.one
    )
    whole = (
        ""
        if m.persons is None
        else f" {whole_person(m.persons, federated=result.plan is not None)}."
    )
    hides = "would hide" if result.leaks else "hides"
    said = (
        f"{NOT_PRIVATE}: settings were taken from the data (see the warnings). If they were public,"
        " the guarantee would be "
        if result.leaks
        else "Guarantee: "
    )
    return (
        f"{said}differential privacy with {parameters}, over all {result.rounds_in_words} together."
        f" It {hides} {hidden} (neighbouring relation {m.neighboring_relation.value}).{whole}"
    )


def _trust(result: RunResult) -> str:
    plan = result.plan
    if plan is None:
        raise AssertionError("only a federated run has a trust mode")
    if plan.simulated:
        return simulated(plan)
    if plan.trust is TrustMode.SERVER_NOISE:
        return (
            "Trust: server-noise. The server adds the noise, and the guarantee holds only while it"
            " never sees a result: keep these files from it for ever."
        )
    n = len(result.included[-1])
    h = plan.quorum(n).shares
    return (
        f"Trust: client-noise. Each client adds a share of the noise, and {h} of {n}"
        f" {'shares are' if h > 1 else 'is'} enough. The guarantee holds against"
        f" {holds_against(plan)}."
    )


def reliability(result: Result) -> list[str]:
    """Say how far to trust the centroids, and compare their errors with the radius of a cluster;
    from noisy answers only.
    """
    m, K = result.mechanism, len(result.updated)
    sentences = [*(f"Warning: {doubt}." for doubt in result.doubts), *beyond_bounds(result)]
    if stayed := int((~result.updated).sum()):
        sentences.append(
            f"{stayed} of {K} centroids stayed in the last iteration because their noisy counts"
            " were too small; nothing is known about how good they are. Often two groups of"
            " records then share another centroid; another start costs the budget again, tighter"
            " bounds help."
        )
    sentences += uncertainty.cautions(result.accuracy.status, result.count_error)
    sentences += intervals(result)
    typical = uncertainty.typical_error(m, result.accuracy, result.noisy_counts, result.count_error)
    if math.isfinite(typical):
        size = f"about {typical:.0%}" if typical >= 0.01 else "less than 1%"
        sentences.append(
            f"Standard error of a typical centroid: {size} of the radius of a cluster, which is"
            f" planned as {m.planned_radius / 2**m.domain.fraction_bits:.3g} half widths of the"
            " bounds."
        )
    if Verdict.on(typical) is Verdict.MOSTLY_NOISE:
        sentences.append(noise_dominates(m.unit))
    return [*sentences, *split(result)]


def intervals(result: Result) -> list[str]:
    """Say what the intervals of settled clusters cover, and how far out the means may lie."""
    m, found = result.mechanism, result.accuracy
    if not uncertainty.settled(found.status).any():
        return []
    said = [m.promise]
    if found.radius is not None:
        said.append(estimand.radius_in_words(m.domain.features, found.radius))
    if found.beyond is not None:
        said += estimand.means_in_words(m.domain.features, found.beyond)
    elif found.radius is not None:
        said.append(estimand.CANNOT_BE_TOLD)
    return [" ".join(said)]


def split(result: Result) -> list[str]:
    """Say which groups the noisy votes show, or nothing if they cannot tell."""
    found = result.split
    if found is None:
        return []
    if found.clearest is None:
        return ["The released numbers show no clear groups."]
    said = f"The clearest split of what was released has {found.clearest} groups"
    if found.finer is not None:
        return [f"{said}; finer groups may exist inside them (next: {found.finer})."]
    return [f"{said}; finer groups may exist inside them."]


def beyond_bounds(result: Result) -> list[str]:
    """Say how many centroids noise has put outside the bounds, if the algorithm leaves them there.
    The number is noisy, too.
    """
    m = result.mechanism
    n = int(
        ((result.centroids < m.domain.lower) | (result.centroids > m.domain.upper))
        .any(axis=1)
        .sum()
    )
    if n == 0 or not m.may_leave_bounds:
        return []
    how = "--postprocessing truncate or fold would have moved them inside, at no cost"
    return [
        (
            f"{n} of {m.n_clusters} centroids lie outside the bounds, where {m.name} leaves them;"
            f" {how}."
        )
    ]


def measured(value: float, error: float) -> str:
    """Format a value and its standard error to the second digit of the error: 12.34 ± 0.56, 30270 ±
    170, (1.20 ± 0.34)e-09.
    """
    places = precision.decimals(error)
    if places is None:
        return f"{value:.{precision.WITHOUT_ERROR}g}"
    if -6 <= places <= 6:
        return (
            f"{round(value, places):.{max(places, 0)}f} ± {round(error, places):.{max(places, 0)}f}"
        )
    power = math.floor(math.log10(max(abs(value), error)))
    shown = min(max(places + power, 0), 15)
    return f"({value / 10.0**power:.{shown}f} ± {error / 10.0**power:.{shown}f})e{power:+03d}"


def show_comparison(console: Console, exact: "Comparison") -> None:
    """Print exact figures of both algorithms on the owner's screen, and what they are."""
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


_SHOWN: dict[type[RunResult], tuple[Callable[[Console, Any], None], Callable[[Any], list[str]]]] = {
    Result: (show_centroids, reliability),
    BoundsResult: (show_bounds, of_bounds),
}
