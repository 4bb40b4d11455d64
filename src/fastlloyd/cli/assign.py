"""`fastlloyd assign`: which cluster of a finished clustering each of the caller's records belongs to. NOT PRIVATE."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.cli.options import OUTPUT, Data

if TYPE_CHECKING:
    from fastlloyd.labels import FittedClustering

HEADING = "record,cluster"  # how every file of labels begins, so that --force replaces nothing else
WARNING = "labels are exact facts about single records, NOT PRIVATE: keep them where the records are kept"

ResultPath = Annotated[
    Path,
    typer.Argument(help="A folder that fit or simulate left, or its centroids.csv.", metavar="RESULT", show_default=False),
]
LabelFile = Annotated[
    Path | None,
    typer.Option(help="File to make. Default: the screen.", metavar="FILE", rich_help_panel=OUTPUT, show_default=False),
]
Distance = Annotated[
    bool,
    typer.Option(
        "--distance",
        help="Add the distance to the centroid, in half widths of the bounds.",
        rich_help_panel=OUTPUT,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an earlier file of labels.", rich_help_panel=OUTPUT)]


def assign(result: ResultPath, data: Data, out: LabelFile = None, distance: Distance = False, force: Force = False) -> None:
    """Label records of your own by the nearest centroid of a result: NOT PRIVATE. Columns are found by name."""
    from fastlloyd import outputs
    from fastlloyd.cli import report
    from fastlloyd.errors import OutputError
    from fastlloyd.labels import FittedClustering

    if out is not None and out.suffix.lower() not in ("", ".csv", ".txt"):
        raise OutputError(f"{out}: labels are written as CSV; name the file {out.with_suffix('.csv')}")
    if out is not None:
        outputs.check_file(out, heading=HEADING, force=force)
    elif force:
        raise OutputError("--force is about the file of labels; name it with --out FILE")
    tally = _Tally()
    chunks = _csv(FittedClustering.read(result), data, tally, distance=distance)
    if out is None:
        for chunk in chunks:
            typer.echo(chunk, nl=False)
    else:
        outputs.write_chunks(out, chunks)
        typer.echo(f"Written to {out}.")
    report.warn([WARNING])
    report.clipped(tally.n_clipped)


class _Tally:
    """How many records had values outside the bounds so far: for the owner's screen only."""

    n_clipped = 0


def _csv(fitted: "FittedClustering", data: Path, tally: _Tally, *, distance: bool) -> Iterator[str]:
    """The file of labels, block by block: record and cluster from 1, and in every row that it is not private."""
    from fastlloyd.labels import record_blocks
    from fastlloyd.outputs import NOT_PRIVATE

    number = 0
    for values in record_blocks(data, fitted.domain.features):
        if number == 0:
            yield HEADING + (",distance" if distance else "") + ",privacy\n"
        labels = fitted.label(values)
        tally.n_clipped += labels.n_clipped
        clusters = (labels.clusters + 1).tolist()
        cells = [f",{d!r}" for d in labels.distances.tolist()] if distance else [""] * len(clusters)
        rows = zip(range(number + 1, number + 1 + len(clusters)), clusters, cells, strict=True)
        yield "".join(f"{record},{cluster}{cell},{NOT_PRIVATE}\n" for record, cluster, cell in rows)
        number += len(clusters)
