"""Log that one peer cannot fill: the first lines of each kind about it are written, those of a
flood are only counted.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partialmethod
from typing import Final

# of one kind about one peer; more than an honest one makes in an hour of bad luck
FIRST_LINES: Final = 20
SECONDS_PER_LINE: Final = 30.0  # in which one more may be written


@dataclass(slots=True)
class _Allowance:
    """Number of lines of one kind that may be written now, the time of that number, and the number
    of lines left out.
    """

    lines: float
    since: float
    left_out: int = 0


class SparingLog:
    """Logger for lines about peers, with a count for each peer and each kind of line.

    A kind is one of the caller's few format strings, and peers are the clients of a plan, so the
    counts need little memory. The next line, or `close`, tells how many were left out.

    Parameters
    ----------
    logger : target of the lines.
    clock : seconds, rising.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock = logger, clock
        self._allowances: dict[tuple[str, str], _Allowance] = {}

    def close(self) -> None:
        """Write how many lines were left out since the last one."""
        for (peer, line), allowance in self._allowances.items():
            self._count(peer, line, allowance)

    def _write(self, level: int, peer: str, line: str, *values: object) -> None:
        """Write `line` with these values, unless there were too many of its kind about this
        peer.
        """
        now = self._clock()
        allowance = self._allowances.setdefault((peer, line), _Allowance(FIRST_LINES, now))
        allowance.lines = min(
            FIRST_LINES, allowance.lines + (now - allowance.since) / SECONDS_PER_LINE
        )
        allowance.since = now
        if allowance.lines < 1:
            allowance.left_out += 1
            return
        allowance.lines -= 1
        self._count(peer, line, allowance)
        self._logger.log(level, line, *values)

    info, warning = partialmethod(_write, logging.INFO), partialmethod(_write, logging.WARNING)

    def _count(self, peer: str, line: str, allowance: _Allowance) -> None:
        if allowance.left_out:
            like = line.replace("%s", "...")
            self._logger.warning(
                '%s: %d more lines like "%s" were left out', peer, allowance.left_out, like
            )
            allowance.left_out = 0
