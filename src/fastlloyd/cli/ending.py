"""How `fit` and `simulate` end: what the owner must know, what is written, and then what is shown."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fastlloyd.cli import compare
from fastlloyd.cli import screen as report
from fastlloyd.cli.destination import Destination
from fastlloyd.cli.options import ResultOptions
from fastlloyd.clustering.grid_records import GridRecords
from fastlloyd.errors import OutputError
from fastlloyd.reports.outputs import Result
from fastlloyd.reports.statement import cautions

if TYPE_CHECKING:
    from fastlloyd.cli.screen import Records


def end(
    result: Result, output: ResultOptions, place: Destination, records: "Records", X: GridRecords, *, with_comparison: bool
) -> None:
    """Write the result and show it. One that cannot be written is shown all the same, and then OutputError is raised."""
    taken = result.leaks if result.has_noise else ()
    report.warn([*taken, *cautions(result.mechanism), *result.cautions])
    report.left_out(records.dropped or 0)
    report.clipped(X.n_outside)
    exact = compare.compare(result, X) if with_comparison else None
    result = compare.marked(result, exact)
    failure: OutputError | None = None
    paths: Sequence[Path] = ()
    try:
        paths = report.write(result, output, place, records, compare.files(exact))
    except OutputError as error:
        failure = error
    screen = report.console(output)
    for line in report.rounds(result) if result.plan else ():
        screen.print(line)
    report.show(screen, result)
    compare.show(screen, exact)
    if failure is None:
        report.say_where(output, paths, "Nothing was written, as --no-out says: what is on the screen is all there is.")
    report.for_machines(result, output, paths, compare.for_machines(exact))
    if failure is not None:
        raise OutputError(f"{failure}; the result was shown, and its epsilon is spent") from None
