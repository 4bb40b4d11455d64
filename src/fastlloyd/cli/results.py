"""Show and store the result of a run, and show it again: the folder, its files, the screen, and
JSON for programs.
"""

import re
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fastlloyd.base.files import (
    check_destination,
    free_name,
    to_json,
    write_folder,
    write_new_folder,
)
from fastlloyd.base.sealed_toml import load_text
from fastlloyd.cli import screen, terminal
from fastlloyd.cli.failures import dispensable
from fastlloyd.cli.mechanism_options import MechanismOptions
from fastlloyd.cli.options import OutputOptions, ResultOptions
from fastlloyd.cli.requests import chosen_algorithm
from fastlloyd.clustering.grid_records import Outside
from fastlloyd.clustering.outside import Clipped
from fastlloyd.dp.noise import Noise
from fastlloyd.errors import DataError, OutputError, PlanError, StateError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.jobs.source import ArrayRecords, TableSource
from fastlloyd.records import RecordFile, Table
from fastlloyd.reports import pictures
from fastlloyd.reports.facts import said
from fastlloyd.reports.page.frame import page_of
from fastlloyd.reports.plan_facts import cautions
from fastlloyd.reports.result import MARK, Result
from fastlloyd.reports.run_result import (
    BOUNDS,
    COMPARISON,
    EXACT,
    FILES,
    NOT_PRIVATE,
    PAGE,
    PICTURE,
    PLAN,
    ROUNDS,
    SHOWS_RECORDS,
    UNFINISHED,
    RunResult,
)
from fastlloyd.reports.stored_files import StoredFiles
from fastlloyd.reports.stored_result import StoredResult
from fastlloyd.reports.stored_statement import SealedSettings, stored_statement

Records = Table | RecordFile | ArrayRecords

# what one of them leaves, at least
_OF_RUNS = (PLAN, EXACT, ROUNDS), (PLAN, BOUNDS, ROUNDS), (PLAN, UNFINISHED)
LONGEST = 60  # characters of the data's name
COMPARED = (
    "exact figures of a comparison with lloyd were computed from the records and shown on the"
    f" screen (and written to {COMPARISON} if there is an output folder): {NOT_PRIVATE}, and not"
    " covered by the guarantee"
)


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """Destination of a result.

    folder : folder for the files, or None if nothing is written.
    is_new : whether the command chose the name of the folder. If the folder exists, another name is
        taken.
    force : whether an earlier result in the folder is replaced.
    """

    folder: Path | None
    is_new: bool = False
    force: bool = False

    def write(self, contents: Mapping[str, bytes]) -> list[Path]:
        """Write the files, and return their paths. Without a folder, return an empty list.

        contents : content of each file by its name.

        Raises OutputError if the folder cannot be written, or has other files.
        """
        if self.folder is None:
            return []
        if self.is_new:
            return write_new_folder(self.folder, contents)
        return write_folder(self.folder, contents, force=self.force, files=FILES)


NOWHERE = Destination(folder=None)


def named(options: OutputOptions) -> Destination:
    """Return the destination in --out, or a destination without a folder if there is no --out.

    Raises OutputError before anything is computed, if the folder cannot be written.
    """
    if options.out is None:
        if options.plot_data or options.force:
            raise OutputError(
                f"--{'plot-data' if options.plot_data else 'force'} needs an output folder; name"
                " it with --out DIR"
            )
        return NOWHERE
    check_destination(options.out, force=options.force, files=FILES)
    return Destination(folder=options.out, force=options.force)


def of_network(options: OutputOptions, plan: Plan) -> Destination:
    """Return the destination of the result of a run over a network: the folder in --out. It may
    already contain files of this run.

    Raises OutputError as `named` does, if it contains other files.
    """
    if holds_run(options.out, plan):
        return Destination(folder=options.out, force=options.force)
    return named(options)


def of_run(options: ResultOptions, data: str, n_clusters: int) -> Destination:
    """Return the destination of a result: the folder in --out, or by default a new folder in the
    working directory. With --no-out there is no folder.

    A run spends epsilon, so its result is kept by default.

    data : name of the data file, for the name of a new folder.
    n_clusters : number of clusters, for the name of a new folder.

    Raises OutputError before anything is computed, if the folder cannot be written.
    """
    if options.no_out and options.out is not None:
        raise OutputError(
            "--no-out keeps nothing, and --out names a folder to keep the result in; leave one of"
            " them out"
        )
    if options.no_out or options.out is not None or options.force:
        return named(options)
    plain = re.split(r"[*?[]", data)[0]  # of a pattern
    name = Path(plain).name.partition(".")[0][:LONGEST].strip(" -") or "records"
    folder = Path(f"{name}-k{n_clusters}-{time.strftime('%Y-%m-%d-%H%M%S')}")
    check_destination(free_name(folder), force=False)
    return Destination(folder=folder, is_new=True)


def check_comparison(options: MechanismOptions) -> None:
    """Raise PlanError if Lloyd's algorithm would be compared with itself."""
    if chosen_algorithm(options).noise is Noise.NONE:
        raise PlanError(
            "--compare-non-private compares a private algorithm with lloyd; choose a private"
            " algorithm with --algorithm, or leave --compare-non-private out"
        )


def end(
    result: Result,
    output: ResultOptions,
    place: Destination,
    source: TableSource,
    *,
    with_comparison: bool,
    remarks: Sequence[str] = (),
    clipped_by_range: Clipped | None = None,
) -> None:
    """Write and show the result of `fit` or `simulate`, and print the remarks.

    A result that cannot be written is shown before OutputError is raised.

    result : result of the run.
    output : options of the output.
    place : destination of the files.
    source : source of the records.
    with_comparison : whether to compare with Lloyd's algorithm, without privacy.
    remarks : sentences to print at the end.
    clipped_by_range : exact counts (`Clipped`) of the records and values that --range clipped, or
        None.
    """
    taken = result.leaks if result.has_noise else ()
    screen.warn(
        [*taken, *said(cautions(result.mechanism), result.mechanism.unit), *result.cautions]
    )
    owner = screen.OwnersScreen(as_json=output.json)
    owner.left_out(source.dropped)
    if clipped_by_range is not None and result.first is not None:
        searched = result.first.mechanism.domain.features
        owner.clipped(clipped_by_range, searched, ends="--range")
    owner.clipped(source.clipped, result.mechanism.domain.features)
    exact, figures = None, dict[str, Any]()
    if with_comparison:
        from fastlloyd.evaluation import comparison

        X = source.on_grid(result.mechanism.domain, Outside.CLIP)
        exact = comparison.compare(result, comparison.lloyd(result.mechanism, X), X)
        figures = comparison.to_builtins(exact)
        result = msgspec.structs.replace(result, cautions=(*result.cautions, COMPARED))
    failure: OutputError | None = None
    paths: Sequence[Path] = ()
    try:
        paths = write(
            result,
            output,
            place,
            source.records,
            {COMPARISON: to_json(figures).encode()} if figures else {},
        )
    except OutputError as error:
        failure = error
    show(result, output)
    for remark in remarks:
        terminal.console(stderr=output.json).print(remark)
    if exact is not None:
        screen.show_comparison(terminal.console(stderr=output.json), exact)
    if failure is None:
        say_where(
            output,
            paths,
            "Nothing was written, because of --no-out. The result is only on this screen.",
        )
    for_machines(result, output, paths, {"not_private": figures} if figures else {})
    if failure is not None:
        raise OutputError(f"{failure}; the result was shown, and its epsilon is spent") from None


def write(
    result: RunResult,
    options: OutputOptions,
    place: Destination,
    records: Records,
    more: Mapping[str, bytes] | None = None,
) -> list[Path]:
    """Write the output folder if there is one, and return the paths of its files.

    Call this function before anything is shown. The files are then written even if the output is
    closed early, as by a pipe to `head`.

    records : records for the picture, with --plot-data.
    more : further files by name. `run_result.FILES` must contain their names.
    """
    if place.folder is None:
        return []
    shown = None
    if options.plot_data:
        result = msgspec.structs.replace(result, cautions=(*result.cautions, SHOWS_RECORDS))
        # all, or the first block of a file with very many
        shown = np.asarray(next(records.blocks()), dtype=np.float64)
    contents = result.files()
    contents |= {PAGE: page_of(StoredFiles(place.folder, contents))} | dict(more or {})
    if (picture := result.picture(shown)) is not None:
        try:
            contents[PICTURE] = pictures.draw(picture)
        except OutputError as error:
            screen.warn([str(error)])
    paths = place.write(contents)
    if options.plot_data and PICTURE in contents:
        screen.warn(
            [f"{paths[0].parent / PICTURE} shows the records themselves and is {NOT_PRIVATE}"]
        )
    return paths


def for_machines(
    result: RunResult,
    options: OutputOptions,
    paths: Sequence[Path],
    more: Mapping[str, Any] | None = None,
) -> None:
    """Print the result and the entries in `more` as JSON to stdout, if --json is given."""
    if options.json:
        terminal.print_json(
            result.summary() | dict(more or {}) | {"files": [str(path) for path in paths]}
        )


def show(result: RunResult, options: OutputOptions) -> None:
    """Print the clients of each round of a federated run, and the result."""
    console = terminal.console(stderr=options.json)
    for line in screen.rounds(result):
        console.print(line)
    screen.show(console, result)


def say_where(options: OutputOptions, paths: Sequence[Path], nothing: str) -> None:
    """Print the folder of the result, or the sentence `nothing` if the result was not written."""
    console = terminal.console(stderr=options.json)
    if paths:
        console.print(
            f"Written to {paths[0].parent}: {', '.join(path.name for path in paths)}.",
            soft_wrap=True,
        )
    elif not options.json:
        console.print(nothing)


def holds_run(folder: Path | None, plan: Plan) -> bool:
    """Return whether the folder contains the files of this run.

    A process may have written them and then have been killed.
    """
    if folder is None or not any(
        all((folder / name).is_file() for name in names) for names in _OF_RUNS
    ):
        return False
    try:
        return Plan.from_toml(load_text(folder / PLAN)).digest == plan.digest
    except PlanError:
        return False


def files_there(folder: Path) -> list[Path]:
    """Return the files of a result in the folder."""
    return [path for name in FILES if (path := folder / name).is_file()]


def written_before(folder: Path | None, contents: Mapping[str, bytes]) -> list[Path]:
    """Return the files in the folder if their contents equal `contents`, or an empty list."""
    try:
        if folder is None or any(
            (folder / name).read_bytes() != contents[name]
            for name in set().union(*_OF_RUNS) & contents.keys()
        ):
            return []
        return files_there(folder)
    except OSError:
        return []


def finished_before(folder: Path | None, plan: Plan) -> dict[str, Any] | None:
    """Return the finished result of this run in the form that `--json` prints, or None if the
    folder lacks a part of it.

    A store deletes the content of a finished run, so only the folder has the result.
    """
    if folder is None or not holds_run(folder, plan):
        return None
    try:
        files = StoredFiles.read(folder)
        privacy = stored_statement(files, SealedSettings(plan.mechanism, plan))
        return {
            "private": privacy["private"],
            **_found_before(files, privacy),
            "leaks": privacy["taken_from_the_data"],
            "privacy": privacy,
            "rounds": files.json(ROUNDS),
            "files": [str(path) for path in files_there(folder)],
        }
    except (OSError, ValueError, KeyError, TypeError, DataError, PlanError):
        return None


def _found_before(files: StoredFiles, privacy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored result in the form of `RunResult.found`.

    privacy : privacy statement of the result.

    Raises an error if files are missing, or do not belong together.
    """
    if BOUNDS in files.contents:
        return {
            "bounds": tomllib.loads(files.contents[BOUNDS].decode())["bounds"],
            "not_found": privacy["not_found"],
        }
    StoredResult.of(files)  # that centroids and settings belong together
    exact: dict[str, Any] = msgspec.json.decode(files.contents[EXACT])
    return {name: value for name, value in exact.items() if name != MARK}


def say_again(
    plan: Plan, output: OutputOptions, written: Callable[[Sequence[Path]], None] | None
) -> None:
    """Print the folder of a finished run's result, or the result itself with --json. If `written`
    is given, call it and print nothing.

    written : function of the files of the result, or None.

    Raises StateError if the folder does not contain the result.
    """
    found = finished_before(output.out, plan)
    if found is None:
        raise StateError(
            f"run {plan.run_id} has ended for this client (it finished); for another run, renew"
            f" the plan. {output.out} does not contain the result of this run; to see the result,"
            " pass its folder as --out"
        )
    if written is not None:
        written([Path(file) for file in found["files"]])
        return
    with dispensable():
        terminal.console(stderr=output.json).print(
            f"Run {plan.run_id} had already finished; this is its result."
        )
        say_where(output, [Path(file) for file in found["files"]], "")
        if output.json:
            terminal.print_json(found)
