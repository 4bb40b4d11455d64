"""A network on which anything can happen to a message, between honest sessions that are watched from inside."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec
import numpy as np
import pytest

from fastlloyd.clustering.domain import IntArray
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.plan import TrustMode
from fastlloyd.protocol import SERVER, Action, ClientResult, ClientSession, Finish, Record, Send
from fastlloyd.protocol.client_rounds import ClientRounds
from fastlloyd.protocol.masked_round import MaskedRound
from fastlloyd.protocol.messages import (
    Abort,
    Broadcast,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Limits,
    Message,
    Upload,
    decode,
    encode,
)
from fastlloyd.protocol.roster import Roster
from fastlloyd.protocol.transitions import ClientState, ServerState
from fastlloyd.secagg import EphemeralKey, GroupKey, seal
from federation import Federation, entropy, identity, make_plan, same_clustering

M = TypeVar("M", bound=Message)


@dataclass
class Watch:
    """What went into masks and came out of sums, seen from inside the sessions.

    hidden : (group key, context of the mask) -> all plaintexts it hid; plain and cipher : the same by (client, nonce);
    opened : (client, round, broadcast, answer), in order.
    """

    hidden: dict[tuple[bytes, ...], list[IntArray]] = field(default_factory=dict)
    plain: dict[tuple[str, bytes], IntArray] = field(default_factory=dict)
    cipher: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    opened: list[tuple[str, int, Broadcast, IntArray]] = field(default_factory=list)

    @classmethod
    def install(cls, monkeypatch: pytest.MonkeyPatch) -> "Watch":
        watch, hide, unmask, open_round = cls(), MaskedRound.hide, MaskedRound.open, ClientRounds.open
        answers: list[IntArray] = []

        def watched_hide(self: MaskedRound, values: IntArray, client: str, nonce: bytes) -> bytes:
            payload = hide(self, values, client, nonce)
            context = (self.plan_digest, self.run_id, bytes([self.round]), self.transcript_hash, self.centroids_digest)
            watch.hidden.setdefault((self.group_key.secret, *context, client.encode(), nonce), []).append(values)
            watch.plain[client, nonce], watch.cipher[client, nonce] = values, payload
            return payload

        def watched_unmask(self: MaskedRound, broadcast: Broadcast, n_words: int) -> IntArray:
            answers.append(unmask(self, broadcast, n_words))
            return answers[-1]

        def watched_open(self: ClientRounds, broadcast: Broadcast) -> None:
            number = self.number
            open_round(self, broadcast)
            watch.opened.append((self._name, number, broadcast, answers[-1]))

        monkeypatch.setattr(MaskedRound, "hide", watched_hide)
        monkeypatch.setattr(MaskedRound, "open", watched_unmask)
        monkeypatch.setattr(ClientRounds, "open", watched_open)
        return watch

    def clear(self) -> None:
        for seen in (self.hidden, self.plain, self.cipher, self.opened):
            seen.clear()


@dataclass(frozen=True)
class Letter:
    sender: str
    recipient: str
    data: bytes


class Network:
    """One run. An operation is a method of two small numbers; those after `sneak` are an attacker's, the others bad luck."""

    def __init__(self, federation: Federation, watch: Watch) -> None:
        watch.clear()
        self.federation, self.plan, self.watch = federation, federation.plan, watch
        self.names = federation.plan.names
        self.server = federation.server()
        self.clients = {client.name: client for client in federation.clients()}
        self.limits = Limits.of(self.plan)
        self.flight: list[Letter] = []
        self.history: list[Letter] = []
        self.ledger: list[tuple[str, Message]] = []
        self.results: dict[str, ClientResult] = {}
        self.accusations: list[str] = []
        self.spoiled: set[tuple[int, str]] = set()
        for name, client in self.clients.items():
            self._act(name, client.start())

    def _act(self, party: str, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Record(message):
                    self.ledger.append((party, message))
                case Send(to, message):
                    letter = Letter(party, to, encode(message))
                    self.flight.append(letter)
                    self.history.append(letter)
                case Finish(ClientResult() as result):
                    self.results[party] = result
                case Finish():
                    pass

    def _arrive(self, letter: Letter) -> None:
        """Only RemoteProtocolError may come out, and only the clients' end of a run is final."""
        try:
            message = decode(letter.data, self.limits)
            if letter.recipient == SERVER:
                self._act(SERVER, self.server.receive(letter.sender, message))
                if isinstance(message, Upload) and self.watch.cipher.get((letter.sender, message.nonce)) != message.payload:
                    self.spoiled.add((message.round, letter.sender))
            else:
                had_ended = self.clients[letter.recipient].state is ClientState.ABORTED
                self._act(letter.recipient, self.clients[letter.recipient].receive(message))
                assert not had_ended
        except RemoteProtocolError as error:
            if not str(error).count("came after the run had ended"):
                self.accusations.append(f"{letter.recipient}: {error}")

    # Bad luck

    def deliver(self, a: int, _b: int) -> None:
        """One message arrives, out of order unless a is 0."""
        if self.flight:
            self._arrive(self.flight.pop(a % len(self.flight)))

    def flow(self, a: int, _b: int) -> None:
        """The next few messages arrive in order."""
        for _ in range(1 + a % 16):
            self.deliver(0, 0)

    def drop(self, a: int, _b: int) -> None:
        if self.flight:
            self.flight.pop(a % len(self.flight))

    def duplicate(self, a: int, _b: int) -> None:
        if self.flight:
            self.flight.append(self.flight[a % len(self.flight)])

    def delay(self, a: int, _b: int) -> None:
        if self.flight:
            self.flight.append(self.flight.pop(a % len(self.flight)))

    def replay(self, a: int, b: int) -> None:
        self.flight.insert(b % (len(self.flight) + 1), self.history[a % len(self.history)])

    def resend(self, a: int, _b: int) -> None:
        client = self._client(a)
        self._act(client.name, client.resend())

    def deadline(self, _a: int, _b: int) -> None:
        self._act(SERVER, self.server.deadline())

    # An attacker in the place of the network or the server

    def sneak(self, a: int, message: Message) -> None:
        """The attacker says something to a client in the server's name, before all that is on its way."""
        self.flight.insert(0, Letter(SERVER, self._client(a).name, encode(message)))

    def corrupt(self, a: int, b: int) -> None:
        if self.flight:
            letter = self.flight[a % len(self.flight)]
            data = bytearray(letter.data)
            data[b % len(data)] ^= 1 << (a % 8)
            self.flight[a % len(self.flight)] = replace(letter, data=bytes(data))

    def misdirect(self, a: int, b: int) -> None:
        letter = self.history[a % len(self.history)]
        if letter.recipient != SERVER:
            self.flight.insert(0, replace(letter, recipient=self._client(b).name))

    def second_set(self, a: int, b: int) -> None:
        """A proper sum of uploads that were really made, over another set than everybody else is shown."""
        uploads = self._uploads(1 + b % len(self.plan.mechanism.exchanges))
        left_out = self.names[b % len(self.names)]
        self._broadcast(a, {name: upload for name, upload in uploads.items() if name != left_out})

    def equivocate(self, a: int, b: int) -> None:
        """A broadcast that really was made, changed in one place for one client."""
        broadcasts = self._sent(Broadcast)
        if not broadcasts:
            return
        shown = broadcasts[a // 8 % len(broadcasts)]
        words = np.frombuffer(shown.payload, self.plan.ring.dtype).copy()
        words[b % len(words)] += 1
        lies = [
            msgspec.structs.replace(shown, payload=words.tobytes()),
            msgspec.structs.replace(shown, included=shown.included[1:]),
            msgspec.structs.replace(shown, included=shown.included[::-1]),
            msgspec.structs.replace(shown, included=(*shown.included, shown.included[-1])),
            msgspec.structs.replace(shown, included=((shown.included[0][0], bytes(8)), *shown.included[1:])),
            msgspec.structs.replace(shown, round=1 + shown.round % len(self.plan.mechanism.exchanges)),
        ]
        self.sneak(a, lies[b % len(lies)])

    def wrong_plan(self, a: int, _b: int) -> None:
        other = replace(self.federation, plan=OTHER_PLAN)
        name = self._client(a).name
        self.flight.insert(0, Letter(name, SERVER, encode(_hello(other.client(name)))))

    def forge_hello(self, a: int, b: int) -> None:
        """Somebody speaks in another's name, to the server or to a dealer."""
        forger, victim = self.names[a % len(self.names)], self.names[b % len(self.names)]
        public = EphemeralKey.draw(entropy("forger")).public
        forged = Roster.of(self.plan).hello(victim, public, identity(forger if forger != victim else "mallory"))
        self.flight.insert(0, Letter(forger, SERVER, encode(forged)))
        deals = self._sent(Deal)
        if deals:
            hellos = tuple(forged if hello.name == victim else hello for hello in deals[-1].hellos)
            self.sneak(self.names.index(deals[-1].hellos[0].name), Deal(hellos))

    def false_keys(self, a: int, b: int) -> None:
        """The server seals a group key it knows, in the name of a dealer that it may even name rightly."""
        hellos = {hello.name: hello for hello in self._sent(Hello)}
        recipient, dealer = self._client(a).name, self.names[b % len(self.names)]
        key = EphemeralKey.draw(entropy("server"))
        box = seal(
            GroupKey(bytes(32)),
            sender=key,
            recipient_public=hellos[recipient].ephemeral_public,
            plan_digest=self.plan.digest,
            run_id=bytes.fromhex(self.plan.run_id),
            sender_name=dealer,
            recipient_name=recipient,
        )
        forged = Roster.of(self.plan).hello(dealer, key.public, identity("mallory"))
        self.sneak(a, KeyBox(forged if b % 2 else hellos[dealer], self.names, box))

    def false_confirmations(self, a: int, b: int) -> None:
        relayed = self._sent(Confirmations)
        macs = relayed[0].macs if relayed else tuple((name, bytes(32)) for name in self.names)
        self.sneak(a, Confirmations(macs[: b % (len(macs) + 1)]))

    def false_abort(self, a: int, _b: int) -> None:
        self.sneak(a, Abort("no reason at all"))

    def give_up(self, a: int, _b: int) -> None:
        self._act(self._client(a).name, self._client(a).deadline())

    # The end

    def settle(self) -> None:
        """Bad luck ends: all arrives in order, whoever waits says so again, and deadlines pass."""
        for _ in range(20):
            while self.flight:
                self.deliver(0, 0)
            for client in self.clients.values():
                self._act(client.name, client.resend())
            if not self.flight and self.is_over:
                break
            if self.server.state not in (ServerState.FINISHED, ServerState.ABORTED):
                while self.flight:
                    self.deliver(0, 0)
                self._act(SERVER, self.server.deadline())

    @property
    def is_over(self) -> bool:
        return self.server.state in (ServerState.FINISHED, ServerState.ABORTED)

    # What must hold

    def check_one_plaintext_per_mask(self) -> None:
        assert all(len(plaintexts) == 1 for plaintexts in self.watch.hidden.values())

    def check_one_set_per_round(self) -> None:
        """Each client opens each round once, in order; the server fixes each round once."""
        for name in self.names:
            rounds = [number for client, number, _, _ in self.watch.opened if client == name]
            assert rounds == list(range(1, len(rounds) + 1))
        fixed = [message for party, message in self.ledger if party == SERVER and isinstance(message, Broadcast)]
        assert [broadcast.round for broadcast in fixed] == list(range(1, len(fixed) + 1))
        assert {encode(broadcast) for broadcast in self._sent(Broadcast)} <= {encode(broadcast) for broadcast in fixed}

    def check_everybody_opens_the_same(self) -> None:
        """One opened set per round, whoever opens it."""
        opened = {number: broadcast for _, number, broadcast, _ in self.watch.opened}
        assert all(opened[number] == broadcast for _, number, broadcast, _ in self.watch.opened)

    def check_write_ahead(self) -> None:
        """A round's upload is recorded once, and what is sent as that round's upload is what was recorded."""
        for name in self.names:
            recorded = [message for party, message in self.ledger if party == name and isinstance(message, Upload)]
            assert [upload.round for upload in recorded] == list(range(1, len(recorded) + 1))
            sent = {letter.data for letter in self.history if letter.sender == name and letter.data[1:3] == b"\x94\x03"}
            assert sent <= {encode(upload) for upload in recorded}
            assert sum(isinstance(message, KeyBox) for party, message in self.ledger if party == name) <= 1

    def check_exact(self, clients: Callable[[str], bool]) -> None:
        """What these clients opened is, to the bit, the sum of what the named clients hid."""
        for name, number, broadcast, answer in self.watch.opened:
            members = broadcast.included
            if clients(name) and not any((number, member) in self.spoiled for member, _ in members):
                values = [self.watch.plain[member] for member in members]
                if self.plan.trust is TrustMode.SERVER_NOISE:
                    values.append(self.federation.server_noise[number - 1])
                assert np.array_equal(answer, np.sum(values, axis=0).ravel())

    def check_agreement(self) -> None:
        """All that finish have the same result, bit for bit."""
        for result in self.results.values():
            first = next(iter(self.results.values()))
            assert same_clustering(result.clustering, first.clustering)
            assert result.included == first.included

    def count(self, outcomes: Counter[str]) -> None:
        outcomes["finished"] += len(self.results) == len(self.names)
        outcomes["some finished"] += 0 < len(self.results) < len(self.names)
        outcomes["none finished"] += not self.results
        outcomes["accused"] += bool(self.accusations)
        outcomes["left out"] += any(len(S) < len(self.names) for result in self.results.values() for S in result.included)
        outcomes["spoiled"] += bool(self.spoiled)
        for accusation in self.accusations:
            outcomes[accusation.split(":")[0]] += 1

    # Odds and ends

    def _client(self, a: int) -> ClientSession:
        return self.clients[self.names[a % len(self.names)]]

    def _sent(self, kind: type[M]) -> list[M]:
        messages = (decode(letter.data, self.limits) for letter in self.history)
        return [message for message in messages if isinstance(message, kind)]

    def _uploads(self, number: int) -> dict[str, Upload]:
        uploads = {}
        for letter in self.history:
            message = decode(letter.data, self.limits)
            if isinstance(message, Upload) and message.round == number:
                uploads[letter.sender] = message
        return uploads

    def _broadcast(self, a: int, uploads: dict[str, Upload]) -> None:
        if not uploads:
            return
        ring, number = self.plan.ring, next(iter(uploads.values())).round
        n_words = self.plan.n_words_of(self.plan.mechanism.exchanges[number - 1])
        noise = np.append(self.federation.server_noise[number - 1].ravel(), 0)
        total = ring.wrap(noise if self.plan.trust is TrustMode.SERVER_NOISE else np.zeros_like(noise))
        for upload in uploads.values():
            total = ring.add(total, ring.from_bytes(upload.payload, n_words))
        included = tuple((name, uploads[name].nonce) for name in self.names if name in uploads)
        self.sneak(a, Broadcast(number, included, ring.to_bytes(total)))


OTHER_PLAN = make_plan(3, max_dropouts=1, n_clusters=1, n_features=1, n_iterations=2, run_id=b"another 16 bytes")


def _hello(client: ClientSession) -> Message:
    (send,) = client.start()
    assert isinstance(send, Send)
    return send.message
