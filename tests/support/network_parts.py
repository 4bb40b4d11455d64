"""What a virtual network is made of: parties, what survives them, and what is on its way between
them.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

import numpy as np

from fastlloyd.base.arrays import IntArray
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import (
    SERVER,
    Action,
    ClientResult,
    Ended,
    Finish,
    Keep,
    Record,
    Send,
)
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.messages import Abort, Limits, Message, Upload, encode
from fastlloyd.federation.protocol.server import ServerSession
from federation import Federation
from watch import Watch

M = TypeVar("M", bound=Message)


class Crash(enum.IntEnum):
    """When in its next step a process dies. Of its letters the last kind of crash lets some go."""

    BEFORE_COMMIT = 0
    AFTER_COMMIT = 1
    AFTER_SENDING_SOME = 2


@dataclass
class Log:
    """What of a party survives its process: records in order, and secrets by name, of which none is
    ever made twice.
    """

    records: list[Message] = field(default_factory=list)
    secrets: dict[str, bytes] = field(default_factory=dict)

    def commit(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Record(message):
                    self.records.append(message)
                case Keep():
                    assert action.name not in self.secrets
                    self.secrets[action.name] = action.secret
                case Finish(Ended(unfinished=None)):
                    self.secrets.clear()
                case _:
                    pass


class FreshNoise:
    """Small noise that is never the same twice; `drawn` has it all, in the order of the draws,
    `scales` what was asked for.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.drawn: list[IntArray] = []
        self.scales: list[Fraction] = []

    def gaussian(self, scale: Fraction, size: int) -> IntArray:
        assert scale > 0
        # as little as in `make_federation`: never more than `Plausible` allows
        self.drawn.append(self._rng.integers(-9, 9, size, endpoint=True))
        self.scales.append(scale)
        return self.drawn[-1].copy()

    def two_sided_geometric(self, scale: Fraction, size: int) -> IntArray:
        return self.gaussian(scale, size)


def sends(actions: Sequence[Action]) -> list[Send]:
    return [action for action in actions if isinstance(action, Send)]


@dataclass(frozen=True)
class Letter:
    sender: str
    recipient: str
    data: bytes


class Parts:
    """A network at one moment.

    flight : what is on its way, history : all that ever was; said : the same as messages, without
    what attackers made; lies : what clients that lie signed besides; liars : those that lied about
    keys; accusations : what parties
    found wrong; spoiled : uploads (round, client) that were changed on the way and taken.
    """

    federation: Federation
    plan: Plan
    names: tuple[str, ...]
    watch: Watch
    limits: Limits
    logs: dict[str, Log]
    noise: dict[str, FreshNoise]
    server: ServerSession
    clients: dict[str, ClientSession]
    flight: list[Letter]
    history: list[Letter]
    said: list[tuple[str, Message]]
    lies: list[tuple[str, Message]]
    liars: set[str]
    results: dict[str, ClientResult]
    accusations: list[str]
    spoiled: set[tuple[int, str]]
    armed: dict[str, tuple[Crash, int]]

    def _client(self, a: int) -> ClientSession:
        return self.clients[self.names[a % len(self.names)]]

    def _recorded(self, party: str, kind: type[M]) -> list[M]:
        return [message for message in self.logs[party].records if isinstance(message, kind)]

    def _sent(self, kind: type[M]) -> list[M]:
        return [message for _, message in self.said if isinstance(message, kind)]

    def _uploads(self, number: int) -> dict[str, Upload]:
        return {
            sender: said
            for sender, said in self.said
            if isinstance(said, Upload) and said.round == number
        }

    def _sneak(self, a: int, message: Message) -> None:
        """An attacker says something to a client in the server's name, before all that is on its
        way.
        """
        self.flight.insert(0, Letter(SERVER, self._client(a).name, encode(message)))

    def _lie(self, name: str, message: Message) -> None:
        """A client says something to the server that its session did not say."""
        self.lies.append((name, message))
        self.flight.insert(0, Letter(name, SERVER, encode(message)))

    def deliver_all(self) -> None:
        raise NotImplementedError

    def _act(self, party: str, actions: list[Action]) -> None:
        raise NotImplementedError

    def _has_ended(self, party: str) -> bool:
        return any(isinstance(record, Abort) for record in self.logs[party].records)
