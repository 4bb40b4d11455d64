"""A clustering as whoever takes part in a federated run follows it: from query to answer, and on.

Where the next query follows from the answers alone, by integers, everyone goes on at once. Where it takes arithmetic that
machines do differently, one client works it out and all go on from what it found: the *parameters*, bytes of a length known
beforehand.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Protocol

from fastlloyd.errors import LocalProtocolError
from fastlloyd.mechanisms.lloyd.algorithm import Answer, Clustering
from fastlloyd.mechanisms.queries.relative import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known of a noisy answer beside its numbers.

    deviations : of the noise in it, one per part, in units of the answer. share : the caps of the clients in it, together, over
    those of the clients in the first answer of the run.
    """

    deviations: tuple[float, ...]
    share: float


class Course(Protocol):
    """Where a clustering is. At any time there is a query, or parameters are awaited, or it has ended."""

    @property
    def query(self) -> Query:
        """What is asked now."""

    @property
    def awaits_parameters(self) -> bool:
        """Whether it goes on with `settle`."""

    @property
    def clustering(self) -> Clustering | None:
        """Where it ended; None before."""

    def take(self, answer: Answer, circumstances: Circumstances) -> None:
        """The noisy answer to the query."""

    def work_out(self) -> bytes:
        """The parameters that follow from the last answer; anyone may ask, one client's are used."""

    def settle(self, parameters: bytes) -> None:
        """Go on from these. Raises OverflowRisk if a number is out of its range."""


class LoopCourse:
    """A loop whose every query follows from the answers before it, on every machine alike."""

    __slots__ = ("_clustering", "_loop", "_query")

    def __init__(self, loop: Generator[Query, Answer, Clustering]) -> None:
        self._loop, self._query = loop, next(loop)
        self._clustering: Clustering | None = None

    @property
    def query(self) -> Query:
        """What is asked now."""
        return self._query

    @property
    def awaits_parameters(self) -> bool:
        """Never."""
        return False

    @property
    def clustering(self) -> Clustering | None:
        """Where it ended."""
        return self._clustering

    def take(self, answer: Answer, circumstances: Circumstances) -> None:  # noqa: ARG002 - Lloyd's loops need no more
        """Go on."""
        try:
            self._query = self._loop.send(answer)
        except StopIteration as end:
            self._clustering = end.value

    def work_out(self) -> bytes:
        """Nothing."""
        raise LocalProtocolError("this algorithm has no parameters to work out")

    def settle(self, parameters: bytes) -> None:  # noqa: ARG002 - there are none
        """Nothing."""
        raise LocalProtocolError("this algorithm has no parameters to go on from")
