"""Notes that the library writes without being asked, most of them once."""

import logging
import sys


def note(log: logging.Logger, level: int, sentence: str) -> None:
    """Write a sentence to the log if a handler takes it, otherwise to a terminal if there is one.

    The sentence never goes to a file or a pipe.
    """
    if log.hasHandlers() and log.isEnabledFor(level):
        log.log(level, sentence)
    elif sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"{sentence}\n")
