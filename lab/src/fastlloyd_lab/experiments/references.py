"""Load objects of code that a specification names, as FILE.py:NAME or as package.module:NAME.

FILE.py is relative to the folder of the specification.
"""

import hashlib
import importlib
import importlib.util
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from fastlloyd.errors import FastLloydError, PlanError

# by code of others; where a process runs trials, Ctrl-C is none of it
RAISED = Exception, SystemExit, KeyboardInterrupt


def is_reference(text: str) -> bool:
    """Return whether a name in a specification refers to an object of code."""
    return ":" in text


def resolve(text: str, folder: Path) -> Any:
    """Return the object that a reference names. Its file is run once per process.

    A file may import its neighbours, because the specification's folder is searched last.

    Raises PlanError if the object does not exist, or its code fails.
    """
    where, _, name = text.partition(":")
    if not where or not name:
        raise PlanError(f"{text!r:.200} is not of the form FILE.py:NAME or package.module:NAME")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    with guarded(f"{text!r:.200} cannot be loaded"):
        module = _file(folder / where) if where.endswith(".py") else importlib.import_module(where)
    try:
        return getattr(module, name)
    except AttributeError:
        raise PlanError(f"{text!r:.200}: there is no {name!r} in {where}") from None


@contextmanager
def guarded(wrong: str) -> Iterator[None]:
    """Context manager that turns an exception of a user's code into a PlanError.

    Errors of fastlloyd, and Ctrl-C, pass unchanged.

    wrong : beginning of the message of the PlanError.
    """
    with _interrupts() as pressed:
        try:
            yield
        except FastLloydError:
            raise
        except RAISED as error:
            if pressed:
                raise
            raise PlanError(f"{wrong}: {said(error)}") from error


def code_digest(text: str, folder: Path) -> str:
    """Return the SHA-256 of the file in a reference, hex, or "" for a module of an installed
    package.
    """
    path = folder / text.partition(":")[0]
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.suffix == ".py" else ""


def said(error: BaseException) -> str:
    """Return the message of an exception in one line. The type of the exception is left out if the
    message was written for people.
    """
    text = " ".join(str(error).split())
    if isinstance(error, FastLloydError):
        return text
    if isinstance(error, SystemExit):
        return (
            f"the code asked to end the process, sys.exit({error.code!r:.80}), where it should"
            " return or raise an error"
        )
    return f"{type(error).__name__}: {text:.500}" if text else type(error).__name__


@contextmanager
def _interrupts() -> Iterator[list[bool]]:
    """Context manager that notes Ctrl-C, to distinguish it from a KeyboardInterrupt that a user's
    code raises.
    """
    pressed: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield pressed
        return

    def note(number: int, frame: FrameType | None) -> None:
        pressed.append(True)
        before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _file(path: Path) -> ModuleType:
    path = path.resolve()
    name = f"fastlloyd_experiment_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    if not path.is_file():
        raise PlanError(
            f"{path} does not exist; a specification names files of code relative to its own folder"
        )
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise PlanError(f"{path} is not a file of Python code")
    module = sys.modules[name] = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
