"""First look at a file of records, in a process of its own, with limits of time and memory.

A file may be a pipe without an end, or a single line of a gigabyte. The process returns no value of
a cell. It returns only names, kinds of columns and sentences about the format.
"""

import os
import re
import stat
import subprocess  # nosec B404 - runs this very program
import sys
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from fastlloyd.errors import DataError, FastLloydError
from fastlloyd.federation.store.noted import DataFiles
from fastlloyd.jobs.data_files import files_of
from fastlloyd.records.layout import YES, Layout
from fastlloyd.records.recipe_proposal import ColumnLook, look_at

Answer = TypeVar("Answer")

SECONDS: Final = 20.0
_MEMORY: Final = 3 << 30  # bytes
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # one letter and a colon is a drive
_NUMBER: Final = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?")
_YEAR: Final = re.compile(r"(19|20)[0-9]{2}")  # which may be the name of a column
_NETWORK: Final = re.compile(r"[\\/]{2}")


class FileQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Question about a file.

    path : full path of the file.
    header : "yes" if its first line names the columns, "no" if it is a record.
    """

    path: str
    header: str


class FileLook(msgspec.Struct, frozen=True, kw_only=True):
    """Facts from the first look at a file.

    fault : sentence that says why the file cannot be used, or "".
    field : field of `FileQuestion` that is at fault.
    files : facts by which the file is recognised.
    layout : proposed format of a text file, or None.
    doubts : a sentence for each guess.
    columns : columns, in their order.
    """

    fault: str = ""
    field: str = "path"
    files: DataFiles | None = None
    layout: Layout | None = None
    doubts: tuple[str, ...] = ()
    columns: tuple[ColumnLook, ...] = ()


def check_path(text: str) -> None:
    """Raise DataError unless a text is the full path of a file on this machine. Nothing is
    opened.
    """
    wanted = "Choose the file in the list, or write its full path, such as /data/records.csv."
    if not text:
        raise DataError(wanted)
    if _NETWORK.match(text) or _ADDRESS.match(text):
        raise DataError(
            "The app opens files of this machine only. For other places use the command line."
        )
    if "\0" in text or not os.path.isabs(text):  # noqa: PTH117 - not a path yet
        raise DataError(wanted)


def seen_in_a_process(asked: FileQuestion, seconds: float = SECONDS) -> FileLook:
    """Return the facts from a first look at a file. Another process looks, which is stopped after
    `seconds`.
    """
    try:
        check_path(asked.path)
        return answered_in_a_process("fastlloyd.app.looking", asked, FileLook, seconds)
    except DataError as error:
        return FileLook(fault=str(error))
    except (subprocess.TimeoutExpired, ValueError):
        return FileLook(
            fault=f"Looking at the file took more than {seconds:.0f} seconds, or more memory than"
            " is allowed. Is it a table with one record in each line?"
        )


def answered_in_a_process(
    module: str, asked: msgspec.Struct, kind: type[Answer], seconds: float
) -> Answer:
    """Return the answer of a module of this program that runs as a process.

    module : name of the module, which reads a question and writes an answer, both as JSON.
    asked : the question.
    kind : type of the answer.
    seconds : seconds after which the process is stopped.

    Raises subprocess.TimeoutExpired after that time, and ValueError for no answer.
    """
    # this very program
    done = subprocess.run(  # noqa: S603  # nosec B603
        [sys.executable, "-P", "-m", module],
        input=msgspec.json.encode(asked),
        capture_output=True,
        timeout=seconds,
        check=False,
    )
    return msgspec.json.decode(done.stdout, type=kind)


def check_is_plain_file(path: str) -> None:
    """Raise DataError unless a path leads to a regular file that can be read. The check never
    blocks.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise DataError(f"The file cannot be opened: {error.strerror}.") from None
    try:
        mode = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise DataError("This is a folder. Name one file in it.")
    if not stat.S_ISREG(mode):
        raise DataError("This is a pipe or a device, not a file. Save the records as a file.")


def _look(asked: FileQuestion) -> FileLook:
    try:
        check_path(asked.path)
        check_is_plain_file(asked.path)
        files = files_of(asked.path)
        look = look_at(asked.path, asked.header)
    except FastLloydError as error:
        return FileLook(fault=str(error).removeprefix(f"{asked.path}: "))
    names = [each.name for each in look.columns]
    if asked.header == YES and look.layout is not None and any(map(_is_number, names)):
        # no cell is shown as a name
        return FileLook(
            fault="The first line has numbers where names are expected, so it seems to be a record."
            " If it is not, give those columns names in the file.",
            field="header",
        )
    return FileLook(
        files=files,
        layout=look.layout,
        doubts=tuple(look.doubts),
        columns=tuple(look.columns),
    )


def _is_number(name: str) -> bool:
    return bool(_NUMBER.fullmatch(name.strip())) and not _YEAR.fullmatch(name.strip())


def _limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))


def main() -> None:
    """Read a question on standard input, and write its answer to standard output."""
    _limit_memory()
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=FileQuestion)
    try:
        seen = _look(asked)
    except MemoryError:
        seen = FileLook(fault="A line of the file takes more memory than is allowed for it.")
    sys.stdout.buffer.write(msgspec.json.encode(seen))


if __name__ == "__main__":
    main()
