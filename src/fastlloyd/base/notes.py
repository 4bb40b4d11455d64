"""Notes that the library gives unasked, mostly once."""

import logging
import sys


def note(log: logging.Logger, level: int, sentence: str) -> None:
    """Write a sentence to the log if that takes it, else on a terminal if there is one, and never
    to a file or a pipe.
    """
    if log.hasHandlers() and log.isEnabledFor(level):
        log.log(level, sentence)
    elif sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"{sentence}\n")
