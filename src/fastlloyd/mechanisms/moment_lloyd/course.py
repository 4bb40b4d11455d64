"""MomentLloyd as a client of a federated run follows it: `loop.advance` is worked out by one of them, from there all go on."""

from typing import TYPE_CHECKING

import msgspec

from fastlloyd.errors import LocalProtocolError
from fastlloyd.mechanisms.course import Circumstances
from fastlloyd.mechanisms.lloyd.algorithm import Answer, Clustering
from fastlloyd.mechanisms.moment_lloyd import box
from fastlloyd.mechanisms.moment_lloyd.advance import advance, clustering, look, query
from fastlloyd.mechanisms.moment_lloyd.seen import Seen
from fastlloyd.mechanisms.moment_lloyd.state import State
from fastlloyd.mechanisms.queries.relative import ClippedLoss, Query

if TYPE_CHECKING:
    from fastlloyd.mechanisms.moment_lloyd.mechanism import MomentMechanism


class MomentCourse:
    """See `course.Course`. A state, and the answer after it, from which the next state is to be worked out."""

    __slots__ = ("_answer", "_circumstances", "_clustering", "_index", "_m", "_query", "_seen", "_state")

    def __init__(self, m: "MomentMechanism") -> None:
        self._m, self._index, self._state = m, 0, State.start(m)
        self._query: Query = query(m, m.rounds[0], self._state)
        self._answer: Answer | None = None
        self._circumstances: Circumstances | None = None
        self._clustering: Clustering | None = None
        self._seen = Seen()

    @property
    def query(self) -> Query:
        """What is asked now."""
        return self._query

    @property
    def awaits_parameters(self) -> bool:
        """After every answer of a round."""
        return self._answer is not None

    @property
    def clustering(self) -> Clustering | None:
        """Where it ended."""
        ended = self._clustering
        return None if ended is None or (self._m.loss is not None and ended.loss is None) else ended

    def take(self, answer: Answer, circumstances: Circumstances) -> None:
        """Keep it until the parameters are there; that of the loss is the last thing."""
        if self._clustering is not None:
            self._clustering = msgspec.structs.replace(self._clustering, loss=int(answer[0, 0]))
            return
        self._answer, self._circumstances = answer, circumstances

    def work_out(self) -> bytes:
        """The next state."""
        if self._answer is None or self._circumstances is None:
            raise LocalProtocolError("no answer has come from which parameters could follow")
        state = advance(self._m, self._index, self._state, self._answer, self._circumstances)
        return box.encode(self._m, self._index + 1, state)

    def settle(self, parameters: bytes) -> None:
        """Go on from the state in these bytes, whoever worked it out."""
        m, before, answer, circumstances = self._m, self._state, self._answer, self._circumstances
        if answer is None:
            raise LocalProtocolError("no parameters are awaited")
        state = box.decode(m, self._index + 1, parameters)
        self._seen = look(m, self._index, before, answer, self._seen, circumstances)
        self._index += 1
        self._state, self._answer, self._circumstances = state, None, None
        if self._index < len(m.rounds):
            self._query = query(m, m.rounds[self._index], state)
            return
        self._clustering = clustering(m, before, state, answer, self._seen)
        if m.loss is not None:
            self._query = ClippedLoss(state.centroids, m.loss.cap, m.loss.shift)
