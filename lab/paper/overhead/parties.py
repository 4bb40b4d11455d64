"""Sessions for measurements. They delay their messages, as a longer line would, and measure the
time of each part of their work.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from fastlloyd.clustering import kernels
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import Action, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.masked_round import MaskedRound
from fastlloyd.federation.protocol.messages import Broadcast, Message, encode
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.mechanisms.moment_lloyd.rounds import MomentRound

# seconds before the end of a wait from which the clock is watched: a sleep ends up to 0.1 ms late
_SPUN = 0.15e-3
_PARTS = ((kernels, "cluster_statistics", "kernel"), (MaskedRound, "hide", "masks"),
  (MaskedRound, "open", "masks"),
          (Plan, "draw_client_noise", "noise"), (Plan, "draw_server_noise", "noise"),
          (MomentRound, "advance", "next"))  # fmt: skip


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds per iteration of one party in one run.

    total : seconds from one sum to the next, 0 for the server.
    parts : seconds by part: kernel, masks, noise, next (computation of the next query), server
        (answer of the server without the noise), and latency (delays).
    n_bytes : bytes of the messages sent and received per iteration.
    """

    total: float
    parts: dict[str, float]
    n_bytes: tuple[float, float] = (0, 0)


class Stopwatch:
    """Seconds of this process by part of the work. All sessions of a process share one stopwatch,
    one run after the other.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def watch(self) -> None:
        """Start to measure the time that is spent in each part."""
        for owner, name, part in _PARTS:
            setattr(owner, name, self._timed(getattr(owner, name), part))

    def _timed(self, work: Any, part: str) -> Any:
        def timed(*arguments: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                return work(*arguments, **named)
            finally:
                self.seconds[part] += time.perf_counter() - begun

        return timed

    def wait(self, seconds: float, actions: Iterable[Action]) -> None:
        """Wait `seconds` seconds if the actions of a step send messages. All messages of the step
        share one wait, because a long line delays messages that are sent together by the same time.
        """
        if not seconds or not any(isinstance(action, Send) for action in actions):
            return
        begun = time.perf_counter()
        time.sleep(max(0.0, seconds - _SPUN))
        while time.perf_counter() < begun + seconds:
            pass
        self.seconds["latency"] += time.perf_counter() - begun


class MeasuredClient(ClientSession):
    """Client that is measured from the first sum that it gets to the last. The number of iterations
    is the number of sums after the first.
    """

    stopwatch: Stopwatch
    latency = 0.0

    def start(self) -> list[Action]:
        actions = super().start()
        self.stopwatch.wait(self.latency, actions)
        return actions

    def receive(self, message: Message) -> list[Action]:
        n = len(self.plan.mechanism.rounds) - 1
        if isinstance(message, Broadcast) and message.round == 1:
            self.stopwatch.seconds.clear()
            self.begun, self.sent, self.received = (
                time.perf_counter(),
                list[Message](),
                list[Message](),
            )
        elif isinstance(message, Broadcast) and message.round == n + 1:
            self.seconds = (time.perf_counter() - self.begun) / n
            self.parts = {part: total / n for part, total in self.stopwatch.seconds.items()}
            self.n_bytes = _bytes(self.sent) / n, _bytes([*self.received, message]) / n
        elif self.round > 1:
            self.received.append(message)
        actions = super().receive(message)
        if self.round > 1:
            self.sent += [action.message for action in actions if isinstance(action, Send)]
        self.stopwatch.wait(self.latency, actions)
        return actions

    @property
    def times(self) -> Times:
        """Times of the run that ended."""
        return Times(total=self.seconds, parts=self.parts, n_bytes=self.n_bytes)


def _bytes(messages: Iterable[Message]) -> int:
    """Return the number of bytes of encoded messages. Call this function after the measurement of
    time.
    """
    return sum(len(encode(message)) for message in messages)


class MeasuredServer(ServerSession):
    """Server that is measured from the first sum that it sends to the last."""

    stopwatch: Stopwatch
    latency = 0.0

    def receive(self, sender: str, message: Message) -> list[Action]:
        seconds, begun = self.stopwatch.seconds, time.perf_counter()
        drawn = seconds["noise"]
        actions = super().receive(sender, message)
        seconds["awaited noise"] += (awaited := seconds["noise"] - drawn)
        seconds["server"] += time.perf_counter() - begun - awaited
        self.stopwatch.wait(self.latency, actions)
        round = next(
            (
                a.message.round
                for a in actions
                if isinstance(a, Send) and isinstance(a.message, Broadcast)
            ),
            0,
        )
        if round == 1:
            self.stopwatch.seconds.clear()
        elif round == (n_rounds := len(self.plan.mechanism.rounds)):
            self.parts = {
                part: total / (n_rounds - 1) for part, total in self.stopwatch.seconds.items()
            }
        return actions

    @property
    def times(self) -> Times:
        """Times of the run that ended."""
        return Times(total=0.0, parts=self.parts)
