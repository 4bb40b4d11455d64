"""What went into masks and came out of sums, seen from inside the sessions of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import TypeVar

import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.base.randomness import Keystreams
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.masked_round import MaskedRound, Plausible
from fastlloyd.federation.protocol.messages import Broadcast, Parameters, Upload, encode
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.secagg import masks
from fastlloyd.federation.secagg.pairs import RunKeys
from federation import starts_cheaply

T = TypeVar("T")
Member = tuple[str, bytes]
"""A client and the nonce of its upload."""


def once_per_plan(function: Callable[[Plan], T]) -> Callable[[Plan], T]:
    found: dict[int, tuple[Plan, T]] = {}

    def remembered(plan: Plan) -> T:
        if id(plan) not in found:
            found[id(plan)] = plan, function(plan)
        return found[id(plan)][1]

    return remembered


class WatchedKeystreams(Keystreams):
    """Keystreams that remember the key, and what their purposes begin with."""

    def __init__(self, key: bytes, start: bytes) -> None:
        super().__init__(key, start)
        self.named = key, start


@dataclass
class Watch:
    """What all sessions did since it was cleared, those included that died.

    hidden : (key, HKDF info) of a keystream -> all uploads that it helped to hide. Of uploads:
    plain and cipher, before and after; shares, the scales of the noise that was drawn for them;
    deals, the digest of the Deal whose clients shared keys; queries, the digest of the query that
    was answered. opened : (rounds of a client's session, round, broadcast, answer), in order; tried
    : (client, round) -> all broadcasts that one of the client's lives took masks off, whatever came
    out; settled : (rounds of a session, parameters).
    """

    hidden: dict[tuple[bytes, bytes], list[Member]] = field(default_factory=dict)
    plain: dict[Member, IntArray] = field(default_factory=dict)
    cipher: dict[Member, bytes] = field(default_factory=dict)
    shares: dict[Member, tuple[Fraction, ...]] = field(default_factory=dict)
    deals: dict[Member, bytes] = field(default_factory=dict)
    queries: dict[Member, bytes] = field(default_factory=dict)
    opened: list[tuple[ClientRounds, int, Broadcast, IntArray]] = field(default_factory=list)
    tried: dict[tuple[str, int], set[bytes]] = field(default_factory=dict)
    settled: list[tuple[ClientRounds, Parameters]] = field(default_factory=list)

    @classmethod
    def install(cls, monkeypatch: pytest.MonkeyPatch) -> "Watch":
        watch = cls()
        starts_cheaply(monkeypatch)
        # fixed entropy makes the same keys again and again
        monkeypatch.setattr(
            RunKeys, "from_private_bytes", staticmethod(cache(RunKeys.from_private_bytes))
        )
        # most of what a restart costs, and the same for every session of a plan
        monkeypatch.setattr(Plausible, "of", once_per_plan(Plausible.of))
        monkeypatch.setattr(Roster, "of", once_per_plan(Roster.of))
        watch._see_uploads(monkeypatch)
        watch._see_sums(monkeypatch)
        return watch

    def _see_uploads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        hide, upload = MaskedRound.hide, ClientRounds.upload
        being_hidden: list[Member] = []

        def of(keystreams: WatchedKeystreams, rest: bytes, n_bytes: int) -> bytes:
            key, start = keystreams.named
            for member in being_hidden:
                self.hidden.setdefault((key, start + rest), []).append(member)
            return Keystreams.of(keystreams, rest, n_bytes)

        def watched_hide(masked: MaskedRound, values: IntArray, client: str, nonce: bytes) -> bytes:
            being_hidden.append((client, nonce))
            try:
                payload = hide(masked, values, client, nonce)
            finally:
                being_hidden.pop()
            self.plain[client, nonce], self.cipher[client, nonce] = values, payload
            self.queries[client, nonce] = masked.context.centroids_digest
            return payload

        def watched_upload(rounds: ClientRounds) -> Upload:
            scales: list[Fraction] = getattr(rounds._noise, "scales", [])
            n_before = len(scales)
            said = upload(rounds)
            self.shares[rounds.name, said.nonce] = tuple(scales[n_before:])
            self.deals[rounds.name, said.nonce] = rounds._keys.key_set.digest
            return said

        monkeypatch.setattr(WatchedKeystreams, "of", of)
        monkeypatch.setattr(masks, "Keystreams", WatchedKeystreams)
        monkeypatch.setattr(MaskedRound, "hide", watched_hide)
        monkeypatch.setattr(ClientRounds, "upload", watched_upload)

    def _see_sums(self, monkeypatch: pytest.MonkeyPatch) -> None:
        unmask, open_round, settle = MaskedRound.open, ClientRounds.open, ClientRounds.settle
        answers: list[IntArray] = []
        at_work: list[tuple[str, Broadcast]] = []

        def watched_unmask(
            masked: MaskedRound, payload: bytes, included: Mapping[str, bytes], n_words: int
        ) -> IntArray:
            name, broadcast = at_work[-1]
            self.tried.setdefault((name, masked.context.round), set()).add(encode(broadcast))
            answers.append(unmask(masked, payload, included, n_words))
            return answers[-1]

        def watched_open(rounds: ClientRounds, broadcast: Broadcast) -> None:
            number = rounds.number
            at_work.append((rounds.name, broadcast))
            open_round(rounds, broadcast)
            self.opened.append((rounds, number, broadcast, answers[-1]))

        def watched_settle(rounds: ClientRounds, parameters: Parameters) -> None:
            settle(rounds, parameters)
            self.settled.append((rounds, parameters))

        monkeypatch.setattr(MaskedRound, "open", watched_unmask)
        monkeypatch.setattr(ClientRounds, "open", watched_open)
        monkeypatch.setattr(ClientRounds, "settle", watched_settle)

    def clear(self) -> None:
        of_uploads = self.plain, self.cipher, self.shares, self.deals, self.queries
        for seen in (self.hidden, *of_uploads, self.opened, self.tried, self.settled):
            seen.clear()
