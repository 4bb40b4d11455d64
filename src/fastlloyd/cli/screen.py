"""What a command leaves on the screen and in the output folder."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import typer
from rich.console import Console

from fastlloyd.base import precision
from fastlloyd.base.arrays import FloatArray
from fastlloyd.cli import tables
from fastlloyd.cli.destination import Destination
from fastlloyd.cli.options import OutputOptions
from fastlloyd.clustering.update import Postprocessing
from fastlloyd.errors import OutputError
from fastlloyd.federation.plan.plan import TrustMode
from fastlloyd.mechanisms import accuracy
from fastlloyd.mechanisms.lloyd.mechanism import LloydMechanism
from fastlloyd.mechanisms.uncertainty import NOISE_DOMINATES, LossEstimate, Verdict
from fastlloyd.records import RecordFile, Table
from fastlloyd.reports import outputs, pictures, profiles, stored_result
from fastlloyd.reports.outputs import NOT_PRIVATE, Result
from fastlloyd.reports.statement import coalition

Records = Table | RecordFile

SHOWN_FEATURES, SHOWN_CLIENTS = 6, 12
RELATIONS = {
    "add_or_remove_one": "whether any single record is in the data",
    "replace_one": "what any single record says",
}


DROPPED = (
    "clients were dropped from a simulation that deals records by position: the guarantee compares runs in which every other "
    "record stays at its client; do not publish this result"
)
SHOWS_RECORDS = "clusters.png beside this statement shows the records themselves: NOT PRIVATE"


def warn(sentences: Iterable[str]) -> None:
    """One line on stderr per sentence."""
    for sentence in sentences:
        typer.echo(f"Warning: {sentence}", err=True)


def on_stderr(sentence: str) -> None:
    """How the owner is told."""
    typer.echo(sentence, err=True)


def left_out(dropped: int, say: Callable[[str], None] = on_stderr) -> None:
    """Tell the owner, on the owner's screen only, how many records had missing cells."""
    if dropped:
        say(
            f"Note: {_of_your_records(dropped, 'missing cells')} and {'was' if dropped == 1 else 'were'} left out. This number "
            "is exact: keep it to yourself."
        )


def unlabelled(n: int) -> None:
    """Tell the owner, on the owner's screen only, how many records got no label."""
    if n:
        typer.echo(
            f"Note: {_of_your_records(n, 'missing cells')} and no label. This number is exact: keep it to yourself.", err=True
        )


def clipped(n: int, say: Callable[[str], None] = on_stderr) -> None:
    """Tell the owner, on the owner's screen only, how many records the bounds cut."""
    if n:
        say(
            f"Note: {_of_your_records(n, 'values outside the bounds')}, which were clipped. This number is exact: keep it to "
            "yourself."
        )


def _of_your_records(n: int, what: str) -> str:
    return f"{n} of your records {'has' if n == 1 else 'have'} {what}"


def console(options: OutputOptions) -> Console:
    """Where people read: stdout, or stderr if stdout is for machines. Names are printed as they are, never as markup."""
    return Console(stderr=options.json, markup=False, highlight=False, emoji=False)


def write(
    result: Result, options: OutputOptions, place: Destination, records: Records, more: Mapping[str, bytes] | None = None
) -> list[Path]:
    """Write the output folder, if there is one, before anything is shown: whoever stops reading loses nothing.

    `more` are files beside those of the result, by name; `stored_result.FILES` lists them too.
    """
    if place.folder is None:
        return []
    if options.plot_data:
        result = msgspec.structs.replace(result, cautions=(*result.cautions, SHOWS_RECORDS))
    contents = outputs.files(result) | dict(more or {})
    try:
        contents[stored_result.PICTURE] = profiles.draw(picture(result, _shown(records) if options.plot_data else None))
    except OutputError as error:
        warn([str(error)])
    paths = place.write(contents)
    if options.plot_data and stored_result.PICTURE in contents:
        warn([f"{paths[0].parent / stored_result.PICTURE} shows the records themselves and is {NOT_PRIVATE}"])
    return paths


def _shown(records: Records) -> FloatArray:
    """What a picture shows of the records: all, or the first block of a file with very many."""
    return np.asarray(next(records.blocks()), dtype=np.float64)


def for_machines(result: Result, options: OutputOptions, paths: Sequence[Path], more: Mapping[str, Any] | None = None) -> None:
    """With --json print the result, and `more`, to stdout."""
    if options.json:
        content = outputs.summary(result) | dict(more or {}) | {"files": [str(path) for path in paths]}
        typer.echo(outputs.to_json(content), nl=False)


def say_where(options: OutputOptions, paths: Sequence[Path], nothing: str) -> None:
    """Say where the result went; `nothing` where it went nowhere."""
    if paths:
        console(options).print(f"Written to {paths[0].parent}: {', '.join(path.name for path in paths)}.", soft_wrap=True)
    elif not options.json:
        console(options).print(nothing)


def picture(result: Result, records: FloatArray | None = None) -> pictures.Picture:
    """What `clusters.png` shows; with the records only on request."""
    return pictures.Picture.of(
        result.mechanism,
        private=result.private,
        records=records,
        centroids=result.centroids,
        errors=result.errors,
        settled=accuracy.settled(result.accuracy.status),
        noisy_counts=result.noisy_counts,
    )


def show(screen: Console, result: Result) -> None:
    """The centroids, what is guaranteed, and how far to trust the centroids."""
    show_centroids(screen, result)
    if result.loss is not None:
        screen.print(loss(result, result.loss))
    if not result.has_noise:
        screen.print(f"{NOT_PRIVATE}: {result.mechanism.name} adds no noise and protects nobody.", style="bold red")
        return
    screen.print(guarantee(result), style="bold red" if result.leaks else None)
    if result.plan is not None:
        screen.print(_trust(result))
    for sentence in reliability(result):
        screen.print(sentence)


def rounds(result: Result) -> list[str]:
    """Who was included in each round of a federated run."""
    if result.plan is None:
        raise AssertionError("only a federated run has rounds with clients")
    names, lines = result.plan.names, []
    for number, included in enumerate(result.included, 1):
        missing = [name for name in names if name not in included]
        who = ", ".join(included) if len(included) <= SHOWN_CLIENTS else f"{len(included)} of {len(names)} clients"
        name = f"Round {number}" if number <= len(result.mechanism.clustering_rounds) else "Loss"
        lines.append(f"{name}: {who}" + (f"; without {', '.join(missing)}" if missing else ""))
    return lines


def show_centroids(screen: Console, result: Result) -> None:
    """A table of centroids in original units with their standard errors, and noisy counts."""
    m = result.mechanism
    shown = m.domain.features[:SHOWN_FEATURES]
    hidden = m.n_features - len(shown)
    numbers = range(len(result.centroids))  # as labels are numbered
    columns = [tables.Column(heading="cluster", cells=[str(number) for number in numbers])]
    for name, values, errors in zip(shown, result.centroids.T, result.errors.T, strict=False):
        columns.append(tables.Column(heading=name, cells=list(map(measured, values, errors))))
    if hidden:
        columns.append(tables.Column(heading=f"{hidden} more", cells=["..." for _ in numbers]))
    cells = [measured(count, result.count_error) if result.has_noise else f"{count:.0f}" for count in result.noisy_counts]
    columns.append(tables.Column(heading="noisy count" if result.has_noise else "count", cells=cells))
    if not accuracy.settled(result.accuracy.status).all():
        columns.append(tables.Column(heading="status", cells=[status.value for status in result.accuracy.status]))
    errors = " ± standard error" if result.has_noise else ""
    tables.show(screen, f"{m.name}: centroids in original units{errors}", columns)


def loss(result: Result, estimate: LossEstimate) -> str:
    """The estimate of the loss and what it means; no exact number of records is involved."""
    m, n = result.mechanism, result.mechanism.n_expected
    cap = m.loss.cap * m.loss.unit(m.domain.fraction_bits) if m.loss else math.nan
    name = "Private estimate of the loss" if result.has_noise else f"Loss, {NOT_PRIVATE}"
    per_record = measured(estimate.value / n, estimate.standard_error / n)
    remarks = " It is negative because the noise is larger than the loss." if estimate.value < 0 else ""
    if result.plan is not None and len(result.included[-1]) < result.plan.n_clients:
        remarks += f" It is the loss of the records of {len(result.included[-1])} of {result.plan.n_clients} clients."
    return (
        f"{name}: {measured(estimate.value, estimate.standard_error)}, the sum of squared distances to the nearest centroid "
        f"in squared half widths of the domain; {per_record} for each of {n} expected records. Records farther away than "
        f"{math.sqrt(cap):.4g} half widths count as {cap:.4g}.{remarks}"
    )


def guarantee(result: Result) -> str:
    """The guarantee in a sentence."""
    m = result.mechanism
    parameters = f"epsilon = {m.epsilon:.6g}" + (f", delta = {m.delta:.3g}" if m.delta else "")
    hidden = RELATIONS[m.neighboring_relation.value]
    n_rounds = len(m.clustering_rounds)
    what = "iterations" if n_rounds == m.n_iterations else f"rounds ({m.n_iterations} of them move the centroids)"
    loss = " and the loss" if m.loss else ""
    hides = "would hide" if result.leaks else "hides"
    said = (
        f"{NOT_PRIVATE}: settings were taken from the data (see the warnings). If they were public, the guarantee would be "
        if result.leaks
        else "Guarantee: "
    )
    return (
        f"{said}differential privacy with {parameters}, over all {n_rounds} {what}{loss} together. It {hides} {hidden} "
        f"(neighbouring relation {m.neighboring_relation.value})."
    )


def _trust(result: Result) -> str:
    plan = result.plan
    if plan is None:
        raise AssertionError("only a federated run has a trust mode")
    if plan.trust is TrustMode.SERVER_NOISE:
        return (
            "Trust: server-noise. The server adds the noise, and the guarantee holds only while it never sees a result; "
            "in a real run keep these files from it for ever."
        )
    return (
        f"Trust: client-noise. Each client adds a share of the noise, and {plan.n_shares} of {plan.n_clients} shares are "
        f"enough: the guarantee holds against the server, and against {coalition(plan.max_colluding)}, but not against both "
        "together."
    )


def reliability(result: Result) -> list[str]:
    """How far to trust the centroids, and their errors compared with the radius of a cluster; from noisy answers only."""
    m, K = result.mechanism, len(result.updated)
    sentences = beyond_bounds(result)
    if stayed := int((~result.updated).sum()):
        sentences.append(
            f"{stayed} of {K} centroids stayed in the last iteration because their noisy counts were too small; nothing is "
            "known about how good they are. Often two groups of records then share another centroid; another start costs the "
            "budget again, tighter bounds help."
        )
    sentences += accuracy.cautions(result.accuracy.status, result.count_error)
    typical = accuracy.typical_error(m, result.accuracy, result.noisy_counts, result.count_error)
    if math.isfinite(typical):
        size = f"about {typical:.0%}" if typical >= 0.01 else "less than 1%"
        sentences.append(
            f"Standard error of a typical centroid: {size} of the radius of a cluster, which is planned as "
            f"{m.planned_radius / 2**m.domain.fraction_bits:.3g} half widths of the bounds."
        )
    if Verdict.on(typical) is Verdict.MOSTLY_NOISE:
        sentences.append(NOISE_DOMINATES)
    return sentences


def beyond_bounds(result: Result) -> list[str]:
    """That noise has put centroids outside the bounds, where the algorithm leaves them. They are noisy, and so is this."""
    m = result.mechanism
    n = int(((result.centroids < m.domain.lower) | (result.centroids > m.domain.upper)).any(axis=1).sum())
    if n == 0 or not isinstance(m, LloydMechanism) or m.algorithm.postprocessing is not Postprocessing.NONE:
        return []
    how = "--postprocessing truncate or fold would have moved them inside, at no cost"
    return [f"{n} of {m.n_clusters} centroids lie outside the bounds, where {m.name} leaves them; {how}."]


def measured(value: float, error: float) -> str:
    """A value and its standard error, to the second digit of the error: 12.34 ± 0.56, 30270 ± 170, (1.20 ± 0.34)e-09."""
    places = precision.decimals(error)
    if places is None:
        return f"{value:.{precision.WITHOUT_ERROR}g}"
    if -6 <= places <= 6:
        return f"{round(value, places):.{max(places, 0)}f} ± {round(error, places):.{max(places, 0)}f}"
    power = math.floor(math.log10(max(abs(value), error)))
    shown = min(max(places + power, 0), 15)
    return f"({value / 10.0**power:.{shown}f} ± {error / 10.0**power:.{shown}f})e{power:+03d}"
