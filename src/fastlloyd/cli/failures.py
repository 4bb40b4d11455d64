"""End of a command: its exit code, and a sentence on stderr for each fault.

Codes: 0 done, 1 an error of the program, 2 something the user can put right, and no result was
written, 130 interrupted.
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


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Nothing is raised, and no message holds a
    private value.
    """
    from fastlloyd.cli.app import app

    _never_fail_to_print()
    try:
        code = typer.main.get_command(app).main(
            list(arguments), prog_name="fastlloyd", standalone_mode=False
        )
        sys.stdout.flush()
    except Problems as problems:
        for error in problems.errors:
            _say(REFUSED, f"Error: {_sentence(FastLloydError(as_options(str(error))))}")
        return REFUSED
    except (FastLloydError, UsageError) as error:
        sentence = _sentence(error)  # empty where a command without arguments has shown its help
        return _say(REFUSED, f"Error: {sentence}") if sentence else REFUSED
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
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
    """Say what is wrong in one line, without terminal codes: it may quote a file that a stranger
    sent.
    """
    # click's
    text = of_option(error) if isinstance(error, FastLloydError) else str(error)
    if isinstance(error, UsageError):
        text = error.format_message()  # type: ignore[attr-defined]
    return "".join(
        character if character.isprintable() else "?" for character in " ".join(text.split())
    )


def _say(code: int, sentence: str) -> int:
    with suppress(OSError):  # where it goes may be full; the code says it too
        typer.echo(sentence, err=True)
    return code


def _of_system(error: OSError, arguments: Sequence[str]) -> int:
    """Return a sentence about an error of the system: the screen, a file, or an internal one.

    Files that a command reads and writes have their own errors.
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
    """Say the kind of an error, and of one of the system its number in words: all else may hold
    values.
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
    """Ignore a closed screen in the block: the output is also in files, so the exit code stays."""
    try:
        yield
        sys.stdout.flush()
    except (OSError, SystemExit):  # the latter is Rich's word for a reader that has gone
        _reader_has_gone()


def _reader_has_gone() -> int:
    """Redirect further output to nowhere: the pipe is closed, and the interpreter would fail when
    it flushes.
    """
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return UNEXPECTED


def _never_fail_to_print() -> None:
    """Print a question mark for each character outside the terminal's encoding, and drop notes that
    stderr refuses.

    If the parent of this process closed a stream, no file may be opened under its number, because
    output of libraries would go into that file.
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
    """Stream that remembers its write error."""

    fault = ""

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except OSError as error:
            type(self).fault = error.strerror or type(error).__name__
            raise


class _Notes(io.FileIO):
    """Stream that drops text it cannot write, because its reader is gone or its disk is full."""

    def write(self, data: "ReadableBuffer") -> int:
        written: int | None = None
        with suppress(OSError):
            written = super().write(data)
        return memoryview(data).nbytes if written is None else written


def _over(stream: TextIO, kind: type[io.FileIO]) -> TextIO:
    """Return a stream of this kind with the destination of `stream`; a Windows console, which is no
    file, is returned itself.
    """
    buffer = getattr(stream, "buffer", None)
    if type(getattr(buffer, "raw", buffer)) is not io.FileIO:
        return stream
    written = io.BufferedWriter(kind(stream.fileno(), "w", closefd=False))
    is_live = kind is _Notes or stream.isatty()
    return io.TextIOWrapper(written, encoding=stream.encoding, line_buffering=is_live)


def _closed(number: int) -> TextIO:
    """Return a stream that drops everything, under the number of a closed one."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    kind = _Screen if number == 1 else _Notes
    return io.TextIOWrapper(io.BufferedWriter(kind(number, "w", closefd=False)))
