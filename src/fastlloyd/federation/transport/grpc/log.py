"""Log of limited length, so that a single peer cannot fill it. The first lines of each kind about a
peer are written. Lines that follow too fast are only counted.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partialmethod
from typing import Final

# lines of one kind about one peer; an honest peer causes fewer even in a bad hour
FIRST_LINES: Final = 20
SECONDS_PER_LINE: Final = 30.0  # after this time one more line may be written


@dataclass(slots=True)
class _Allowance:
    """Allowance for one kind of line about one peer.

    lines : number of lines that may be written now.
    since : time at which `lines` was computed, in seconds of the clock.
    left_out : number of lines left out since the last written one.
    """

    lines: float
    since: float
    left_out: int = 0


class SparingLog:
    """Logger for lines about peers. It counts the lines of each kind about each peer.

    A kind is one of the caller's few format strings, and peers are the clients of a plan, so the
    counts need little memory. The next line of the kind, or `close`, tells how many lines were left
    out.

    Parameters
    ----------
    logger : receives the lines.
    clock : function that returns rising seconds.
    """

    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._logger, self._clock = logger, clock
        self._allowances: dict[tuple[str, str], _Allowance] = {}

    def close(self) -> None:
        """Write how many lines of each kind were left out since the last one."""
        for (peer, line), allowance in self._allowances.items():
            self._count(peer, line, allowance)

    def _write(self, level: int, peer: str, line: str, *values: object) -> None:
        """Write `line` with these values, unless too many lines of this kind about this peer came
        before.

        level : level of the line, as in `logging`.
        peer : name of the peer.
        line : format string, which is the kind of the line.
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
