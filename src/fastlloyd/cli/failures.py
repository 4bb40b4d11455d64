"""How a command ends: its exit code, and one sentence on stderr when something is wrong.

0 done; 1 an error of the program; 2 something the user can put right, and no result was written;
130 interrupted.
"""

import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import typer

from fastlloyd.cli.usage import UsageError
from fastlloyd.errors import FastLloydError

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
    except BrokenPipeError:
        return _reader_has_gone()
    except OSError as error:  # of the screen: files are written with errors of their own
        _reader_has_gone()
        return _say(REFUSED, f"Error: the output cannot be written ({error.strerror})")
    # the last resort: whatever it is, its message may hold private values
    except Exception as error:  # noqa: BLE001
        return _unexpected(
            error, debug="--debug" in arguments or os.environ.get("FASTLLOYD_DEBUG") == "1"
        )
    if code == INTERRUPTED:
        return _say(INTERRUPTED, "Interrupted")
    return DONE if code is None else int(code)


def _sentence(error: Exception) -> str:
    """Say what is wrong in one line, without terminal codes: it may quote a file that a stranger
    sent.
    """
    # click's
    text = error.format_message() if isinstance(error, UsageError) else str(error)  # type: ignore[attr-defined]
    return "".join(
        character if character.isprintable() else "?" for character in " ".join(text.split())
    )


def _say(code: int, sentence: str) -> int:
    with suppress(OSError):  # where it goes may be full; the code says it too
        typer.echo(sentence, err=True)
    return code


def _unexpected(error: Exception, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    return _say(
        UNEXPECTED,
        f"Error: fastlloyd failed with an unexpected {type(error).__name__}; please report what you"
        " ran. Details are withheld because they may hold values of your records: fastlloyd"
        " --debug COMMAND shows them.",
    )


def _reader_has_gone() -> int:
    """Send further output nowhere: the pipe is closed, and the interpreter would fail when it
    flushes.
    """
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - a device, not a path
        os.dup2(nowhere.fileno(), sys.__stdout__.fileno() if sys.__stdout__ else 1)
    return UNEXPECTED


def _never_fail_to_print() -> None:
    """Print a question mark for every character that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
