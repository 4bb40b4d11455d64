"""End of a command: its exit code, and a sentence on stderr for each fault.

Exit codes: 0 means done. 1 means an error of the program. 2 means a fault that the user can
correct, and no result was written. 130 means interrupted, 143 ended by SIGTERM, and 129 ended by
SIGHUP.
"""

import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from fastlloyd.base.places import whose
from fastlloyd.cli.option_names import as_options, of_option
from fastlloyd.cli.usage import UsageError
from fastlloyd.errors import FastLloydError, Problems

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

DONE, UNEXPECTED, REFUSED, INTERRUPTED = 0, 1, 2, 130


class Interrupted(BaseException):
    """Interruption of a job, with sentences about what was spent and written.

    It is no KeyboardInterrupt, which typer replaces by an exit code.

    code : exit code of the command.
    """

    def __init__(self, sentences: str, code: int = INTERRUPTED) -> None:
        super().__init__(sentences)
        self.code = code


def run_alone(arguments: Sequence[str]) -> int:
    """Run one command line in a process of its own, which leaves no core dump on disk. Return the
    exit code.
    """
    from fastlloyd.base.processes import forbid_core_dumps

    forbid_core_dumps()
    return run(arguments)


def run(arguments: Sequence[str]) -> int:
    """Run one command line, and return its exit code.

    It raises nothing. No message contains a value of a record.
    """
    from fastlloyd.cli.app import app

    _never_fail_to_print()
    try:
        code = typer.main.get_command(app).main(
            list(arguments), prog_name="fastlloyd", standalone_mode=False
        )
        sys.stdout.flush()
    except Problems as problems:
        from fastlloyd.records.recipe.checks import UNUSABLE_RECIPE

        for error in problems.errors:
            said = str(error) if error.code == UNUSABLE_RECIPE else as_options(str(error))
            _say(REFUSED, f"Error: {_sentence(FastLloydError(said))}")
        return REFUSED
    except (FastLloydError, UsageError) as error:
        sentence = _sentence(error)  # empty where a command without arguments has shown its help
        return _say(REFUSED, f"Error: {sentence}") if sentence else REFUSED
    except (Interrupted, KeyboardInterrupt, typer.Abort) as interruption:
        code = getattr(interruption, "code", INTERRUPTED)
        return _say(code, ". ".join(("Interrupted", *map(str, interruption.args))))
    except MemoryError:
        return _say(
            UNEXPECTED,
            "Error: there is not enough memory for this many records, features and clusters",
        )
    except SystemExit as ended:  # a shell has been told how to complete, or click's reader has gone
        return _reader_has_gone() if ended.code else DONE
    except OSError as error:
        return _of_system(error, arguments)
    # the last resort: whatever it is, its message may hold private values
    except Exception as error:  # noqa: BLE001
        return _unexpected(error, debug=_is_debugged(arguments))
    if code == INTERRUPTED:
        return _say(INTERRUPTED, "Interrupted")
    return DONE if code is None else int(code)


def _sentence(error: Exception) -> str:
    """Return the message of an error in one line, without terminal codes.

    A message may quote a file that a stranger sent.
    """
    # click's
    text = of_option(error) if isinstance(error, FastLloydError) else str(error)
    if isinstance(error, UsageError):
        text = error.format_message()  # type: ignore[attr-defined]
    return "".join(
        character if character.isprintable() else "?" for character in " ".join(text.split())
    )


def _say(code: int, sentence: str) -> int:
    with suppress(OSError):  # the disk may be full; the exit code says the same
        typer.echo(sentence, err=True)
    return code


def _of_system(error: OSError, arguments: Sequence[str]) -> int:
    """Print a sentence about an OSError, and return the exit code.

    The error comes from the output or from a step inside the program. Most files that a command
    reads or writes raise a FastLloydError instead.
    """
    if isinstance(error, BrokenPipeError):
        return _reader_has_gone()
    if _Screen.fault:
        _reader_has_gone()
        return _say(REFUSED, f"Error: the output cannot be written ({_Screen.fault})")
    if isinstance(error.filename, str) and error.errno is not None:
        why, owner = os.strerror(error.errno), whose(Path(error.filename))
        return _say(REFUSED, f"Error: {error.filename} cannot be used ({why}){owner}")
    return _unexpected(error, debug=_is_debugged(arguments))


def _is_debugged(arguments: Sequence[str]) -> bool:
    return "--debug" in arguments or os.environ.get("FASTLLOYD_DEBUG") == "1"


def _unexpected(error: Exception, *, debug: bool) -> int:
    """Print the type of an unexpected error, and return the exit code.

    For an OSError it also prints the meaning of the error number. Everything else may contain
    values of records.
    """
    if debug:
        traceback.print_exception(error)
    number = error.errno if isinstance(error, OSError) else None
    why = "" if number is None else f" ({os.strerror(number)})"
    return _say(
        UNEXPECTED,
        f"Error: fastlloyd failed with an unexpected {type(error).__name__}{why}; please report"
        " what you ran. Details may contain values of your records: to see them, run fastlloyd"
        " --debug COMMAND.",
    )


@contextmanager
def dispensable() -> Iterator[None]:
    """Context manager that ignores an error of writing to stdout, for example to a pipe whose
    reader has ended. Everything that the block prints is also in files, so the exit code does not
    change.
    """
    try:
        yield
        sys.stdout.flush()
    except (OSError, SystemExit):  # the latter is Rich's word for a reader that has gone
        _reader_has_gone()


def _reader_has_gone() -> int:
    """Redirect further output to the null device, and return the exit code.

    The reader closed the pipe, and the interpreter would fail when it flushes.
    """
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return UNEXPECTED


def _never_fail_to_print() -> None:
    """Replace stdout and stderr by streams that do not fail on a character or a full disk.

    A character outside the encoding of the terminal becomes a question mark. Notes that stderr
    refuses are dropped. If the parent process closed a stream, its file descriptor is opened on the
    null device. Otherwise a file could get this descriptor, and libraries would print into the
    file.
    """
    for name, number, kind in (("stdout", 1, _Screen), ("stderr", 2, _Notes)):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _closed(number))
        elif stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _over(stream, kind))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


class _Screen(io.FileIO):
    """Output stream that remembers its write error."""

    fault = ""

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except OSError as error:
            type(self).fault = error.strerror or type(error).__name__
            raise


class _Notes(io.FileIO):
    """Output stream that drops text it cannot write, because its reader is gone or its disk is
    full.
    """

    def write(self, data: "ReadableBuffer") -> int:
        written: int | None = None
        with suppress(OSError):
            written = super().write(data)
        return memoryview(data).nbytes if written is None else written


def _over(stream: TextIO, kind: type[io.FileIO]) -> TextIO:
    """Return a text stream of this kind that writes to the destination of `stream`.

    A stream that is not a file, such as a Windows console, is returned unchanged.
    """
    buffer = getattr(stream, "buffer", None)
    if type(getattr(buffer, "raw", buffer)) is not io.FileIO:
        return stream
    written = io.BufferedWriter(kind(stream.fileno(), "w", closefd=False))
    is_live = kind is _Notes or stream.isatty()
    return io.TextIOWrapper(written, encoding=stream.encoding, line_buffering=is_live)


def _closed(number: int) -> TextIO:
    """Return a stream that drops everything, in place of a standard stream that is closed.

    number : file descriptor of the closed stream, which the new stream gets.
    """
    nowhere = os.open(os.devnull, os.O_RDONLY)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    kind = _Screen if number == 1 else _Notes
    return io.TextIOWrapper(io.BufferedWriter(kind(number, "w", closefd=False)))
