"""Command `fastlloyd assign`: find the cluster of each record in a finished result. NOT PRIVATE."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fastlloyd.base.files import check_file, write_chunks
from fastlloyd.base.names import choose
from fastlloyd.cli.layout_options import LayoutOptions
from fastlloyd.cli.options import Data, UnitColumn, in_output
from fastlloyd.cli.recipes import OwnRecipeFile
from fastlloyd.errors import OutputError

if TYPE_CHECKING:
    from fastlloyd.base.arrays import RealArray
    from fastlloyd.evaluation.labels import FittedClustering

HEADING = "record,cluster"  # how every file of labels begins, so that --force replaces nothing else

ResultPath = Annotated[
    Path,
    typer.Argument(
        help="Folder of a result of fit, simulate or join, or its centroids.csv.", metavar="RESULT"
    ),
]
LabelFile = Annotated[
    Path | None, in_output(help="File to make. Default: the screen.", metavar="FILE")
]
Distance = Annotated[
    bool,
    in_output("--distance", help="Add the distance to the centroid, in half widths of the bounds."),
]
Force = Annotated[bool, in_output("--force", help="Replace an earlier file of labels.")]


MissingCells = Annotated[
    str,
    typer.Option(
        "--missing",
        help=(
            "What to do with a record with a missing cell: refuse the file, or drop the record, so"
            " that its label is empty."
        ),
        metavar="refuse|drop",
    ),
]


def assign(
    result: ResultPath,
    data: Data,
    layout: LayoutOptions,
    missing: MissingCells = "refuse",
    recipe: OwnRecipeFile = None,
    unit_column: UnitColumn = None,
    out: LabelFile = None,
    distance: Distance = False,
    force: Force = False,
) -> None:
    """Label your records by the nearest centroid of a result: NOT PRIVATE. Columns are found by
    name.
    """
    from fastlloyd.cli import recipes, screen
    from fastlloyd.evaluation.labels import FittedClustering, record_blocks
    from fastlloyd.records import Missing
    from fastlloyd.reports.facts import sentence
    from fastlloyd.reports.outside import EXACT_OUTPUTS

    if out is not None and out.suffix.lower() not in ("", ".csv", ".txt"):
        raise OutputError(
            f"{out}: labels are written as CSV; name the file {out.with_suffix('.csv')}"
        )
    if out is not None:
        check_file(out, heading=HEADING, force=force)
    elif force:
        raise OutputError("--force needs a file of labels; name it with --out FILE")
    tally = _Tally()
    fitted = FittedClustering.read(result)
    using = recipes.own_recipe(recipe, fitted.domain.recipe)
    treatment = choose(Missing, missing, "missing")
    unit = unit_column if using is not None and using.is_per_person else None
    stated = layout.layout()
    blocks = record_blocks(data, fitted.domain.features, treatment, using, unit, stated)
    chunks = _csv(fitted, blocks, tally, distance=distance)
    if out is None:
        for chunk in chunks:
            typer.echo(chunk, nl=False)
    else:
        write_chunks(out, chunks)
        typer.echo(f"Written to {out}.")
    screen.warn([f"NOT PRIVATE. Outside the guarantee are {sentence(EXACT_OUTPUTS)}"])
    owner = screen.OwnersScreen(as_json=False)
    owner.counted(
        tally.n_unlabelled,
        "1 of your records has missing cells, and so no label",
        f"{tally.n_unlabelled} of your records have missing cells, and so no label",
    )
    owner.clipped(tally.clipped, fitted.domain.features)


class _Tally:
    """Counts of records with values outside the bounds, and of records with missing cells. They are
    exact, for the owner only.
    """

    def __init__(self) -> None:
        from fastlloyd.clustering.outside import Clipped

        self.clipped, self.n_unlabelled = Clipped(), 0


def _csv(
    fitted: "FittedClustering", blocks: "Iterable[RealArray]", tally: _Tally, *, distance: bool
) -> Iterator[str]:
    """Yield the file of labels, block by block. Every row says NOT PRIVATE.

    Records are numbered from 1, clusters from 0. A record with a missing cell has a row without
    cluster and distance.

    fitted : estimator of the result.
    blocks : records.
    tally : counts of records with special values, updated here.
    distance : whether to add the distance to the centroid.
    """
    import numpy as np

    from fastlloyd.reports.run_result import NOT_PRIVATE

    number = 0
    for values in blocks:
        if number == 0:
            yield HEADING + (",distance" if distance else "") + ",privacy\n"
        whole = np.asarray(~np.isnan(values).any(axis=1))
        found = iter(
            _labels(fitted, values[whole], tally, distance=distance) if whole.any() else []
        )
        cells = [next(found) if is_whole else "," * distance for is_whole in whole]
        yield "".join(
            f"{record},{cell},{NOT_PRIVATE}\n" for record, cell in enumerate(cells, number + 1)
        )
        tally.n_unlabelled += len(cells) - int(whole.sum())
        number += len(cells)


def _labels(
    fitted: "FittedClustering", values: "RealArray", tally: _Tally, *, distance: bool
) -> list[str]:
    """Return the cells of the output for records without missing values: the cluster, and the
    distance if `distance` is set.
    """
    labels = fitted.label(values)
    tally.clipped += labels.clipped
    clusters = [str(cluster) for cluster in labels.clusters.tolist()]
    if not distance:
        return clusters
    return [
        f"{cluster},{d!r}" for cluster, d in zip(clusters, labels.distances.tolist(), strict=True)
    ]
