"""Where a result goes: a folder that is named, or a new one named after the data, the number of clusters and the time."""

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fastlloyd.cli.options import OutputOptions, ResultOptions
from fastlloyd.errors import OutputError
from fastlloyd.reports import outputs

LONGEST = 60  # characters of the data's name


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """folder : None where nothing is kept. is_new : the folder has a name of ours, and gets another one if it is taken."""

    folder: Path | None
    is_new: bool = False
    force: bool = False

    def write(self, contents: Mapping[str, bytes]) -> list[Path]:
        """The paths of the files, none where nothing is kept. Raises OutputError."""
        if self.folder is None:
            return []
        if self.is_new:
            return outputs.write_new_folder(self.folder, contents)
        return outputs.write_folder(self.folder, contents, force=self.force)


def named(options: OutputOptions) -> Destination:
    """The folder that is named, if one is; refused before anything is computed if it could not be written."""
    if options.out is None:
        if options.plot_data or options.force:
            raise OutputError(
                f"--{'plot-data' if options.plot_data else 'force'} is about the output folder; name it with --out DIR"
            )
        return Destination(folder=None)
    outputs.check_destination(options.out, force=options.force)
    return Destination(folder=options.out, force=options.force)


def of_run(options: ResultOptions, data: Path, n_clusters: int) -> Destination:
    """The folder that is named; or else a new one in the working directory, because a run spends epsilon once.

    Refused before anything is computed if it could not be written.
    """
    if options.no_out and options.out is not None:
        raise OutputError("--no-out keeps nothing, and --out names a folder to keep the result in; leave one of them out")
    if options.no_out or options.out is not None or options.force:
        return named(options)
    folder = Path(f"{_name(data)}-k{n_clusters}-{time.strftime('%Y-%m-%d-%H%M%S')}")
    outputs.check_destination(outputs.free_name(folder), force=False)
    return Destination(folder=folder, is_new=True)


def _name(data: Path) -> str:
    """The name of the data without its suffixes, as the beginning of a folder's name."""
    return data.name.partition(".")[0][:LONGEST].strip(" -") or "records"
