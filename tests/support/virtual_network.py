"""A network on which anything can happen to a message, and to a process, between honest sessions
that are watched from inside.

Each party has a log that survives it: what its session asked to be made durable, committed step by
step. A process that dies loses all else, at any of the points at which it can die in a step, and
its session is restored from the log.
"""

from collections import Counter

from fastlloyd.base.randomness import Keystreams
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.protocol.actions import SERVER, Action, ClientResult, Ended, Unfinished
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.joining import Joining
from fastlloyd.federation.protocol.messages import (
    Abort,
    Confirmations,
    Deal,
    Limits,
    Message,
    Upload,
    decode,
    encode,
)
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.secagg.masks import PairwiseMasks
from fastlloyd.mechanisms.answering import LocalRecords
from fastlloyd.testing import repeatable_noise
from federation import Federation, entropy, identity
from known_to_server import durable_in
from network_attacks import KEY_STEPS, Attacks
from network_parts import Crash, FreshNoise, Letter, Log, sends
from network_rules import Rules
from watch import Watch, WatchedKeystreams

__all__ = ["Crash", "Network", "Watch"]


class Network(Attacks, Rules):
    """One run. An operation is a method of two small numbers: bad luck, or one of the `Attacks`."""

    @repeatable_noise()
    def __init__(
        self,
        federation: Federation,
        watch: Watch,
        crashes: dict[str, tuple[int, Crash, int]] | None = None,
    ) -> None:
        """crashes : party -> in which of its steps it dies, when in that step, after how many
        letters.
        """
        watch.clear()
        self.federation, self.plan, self.watch = federation, federation.plan, watch
        self.names = federation.plan.names
        self.planned = crashes or {}
        self.n_steps: Counter[str] = Counter()
        self.n_crashes: Counter[str] = Counter()
        self.armed = dict[str, tuple[Crash, int]]()
        self.noise = {party: FreshNoise(seed) for seed, party in enumerate((SERVER, *self.names))}
        self.entropy = {name: entropy(name) for name in self.names}
        self.logs = {party: Log() for party in (SERVER, *self.names)}
        self.limits = Limits.of(self.plan)
        self.flight, self.history = list[Letter](), list[Letter]()
        self.said, self.results = list[tuple[str, Message]](), dict[str, ClientResult]()
        self.lies, self.liars = list[tuple[str, Message]](), set[str]()
        self.accusations, self.spoiled = list[str](), set[tuple[int, str]]()
        self.entropy[SERVER] = entropy(SERVER)
        self.server = self._new_server()
        self.clients = dict[str, ClientSession]()
        for name in self.names:
            self._begin(name)

    def _new_server(self) -> ServerSession:
        return ServerSession(self.plan, self.noise[SERVER], random_bytes=self.entropy[SERVER])

    def _begin(self, name: str) -> None:
        self.clients[name] = self._new_client(name)
        self._act(name, self.clients[name].start())

    def _act(self, party: str, actions: list[Action]) -> None:
        """Take a step: commit what is to be durable, then let the letters go; or die on the way."""
        log, letters = self.logs[party], sends(actions)
        crash, n_sent = None, len(letters)
        if actions:
            self.n_steps[party] += 1
            crash, n_sent = self.armed.pop(party, (None, n_sent))
            if (planned := self.planned.get(party)) and planned[0] == self.n_steps[party]:
                _, crash, n_sent = planned
        if crash is not Crash.BEFORE_COMMIT:
            assert (
                not letters
                or party == SERVER
                or not log.records
                or not isinstance(log.records[-1], Abort | Confirmations)
            )
            log.commit(actions)
            for send in letters[: 0 if crash is Crash.AFTER_COMMIT else n_sent]:
                self.flight.append(Letter(party, send.to, encode(send.message)))
                self.history.append(self.flight[-1])
                self.said.append((party, send.message))
        if crash is not None:
            self.n_crashes[
                f"{'server' if party == SERVER else 'client'},"
                f" {crash.name.lower().replace('_', ' ')}"
            ] += 1
            self._restart(party, is_step_lost=crash is Crash.BEFORE_COMMIT)
        elif party != SERVER and isinstance(outcome := self.clients[party].outcome, ClientResult):
            self.results[party] = outcome

    @repeatable_noise()
    def _restart(self, party: str, *, is_step_lost: bool) -> None:
        """Only the log is left. All connections of the party break, and are made anew."""
        if party == SERVER:
            before, n_drawn = self.server, len(self.noise[SERVER].drawn)
            self.server = self._new_server()
            self.server.restore([encode(record) for record in self.logs[SERVER].records])
            assert len(self.noise[SERVER].drawn) == n_drawn
            assert is_step_lost or durable_in(self.server) == durable_in(before)
            for client in self.clients.values():
                self._act(client.name, client.reconnect())
            return
        client, log, n_hidden = self.clients[party], self.logs[party], len(self.watch.plain)
        if not log.records:
            self._begin(party)
            return
        self.clients[party] = restored = self._restored_client(party)
        assert len(self.watch.plain) == n_hidden
        if not is_step_lost and not client._accepted:
            assert (restored.state, restored.resend(), restored.reconnect()) == (
                (client.state, client.resend(), client.reconnect())
                if client.state is not ClientState.ABORTED
                else (ClientState.ABORTED, [], [])
            )
            assert client.state is ClientState.ABORTED or restored._handled == client._handled
            assert _ended(restored) == _ended(client)
            assert _known_to(restored) == _known_to(client)
        if isinstance(restored.outcome, ClientResult):
            self.results[party] = restored.outcome
        self._act(party, restored.resume())
        if self.clients[party] is restored:
            self._act(party, restored.reconnect())

    def _new_client(self, name: str) -> ClientSession:
        return ClientSession(
            self.plan,
            name,
            LocalRecords(self.plan.mechanism.domain, self.federation.X[name]),
            identity=identity(name),
            noise=self.noise[name],
            random_bytes=self.entropy[name],
        )

    def _restored_client(self, name: str) -> ClientSession:
        session = self._new_client(name)
        session.restore(
            self.logs[name].secrets, [encode(record) for record in self.logs[name].records]
        )
        return session

    def _arrive(self, letter: Letter) -> None:
        """Only RemoteProtocolError may come out, and only the clients' end of a run is final."""
        try:
            message = decode(letter.data, self.limits)
            if letter.recipient == SERVER:
                is_spoiled = (
                    isinstance(message, Upload)
                    and self.watch.cipher.get((letter.sender, message.nonce)) != message.payload
                )
                self._act(SERVER, self.server.receive(letter.sender, message))
                if is_spoiled and isinstance(message, Upload):
                    self.spoiled.add((message.round, letter.sender))
            else:
                client = self.clients[letter.recipient]
                had_ended = client.state is ClientState.ABORTED
                self._act(letter.recipient, client.accept(message))
                if (
                    self.clients[letter.recipient] is client
                ):  # else it died, and the message with it
                    answers = client.receive(message)
                    assert not had_ended or (isinstance(message, Abort) and answers == [])
                    self._act(letter.recipient, answers)
        except RemoteProtocolError as error:
            if not str(error).count("came after the run had ended"):
                self.accusations.append(f"{letter.recipient}: {error}")
            if letter.recipient != SERVER:
                self._act(letter.recipient, self.clients[letter.recipient].ending())

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

    def miss(self, a: int, _b: int) -> None:
        """A connection breaks, and what is on its way is lost; while keys are shared, the others go
        on without this client.
        """
        name = self._client(a).name
        self.flight = [
            letter for letter in self.flight if name not in (letter.sender, letter.recipient)
        ]
        if self.server.state in KEY_STEPS:
            self._act(SERVER, self.server.deadline())

    def wander(self, a: int, b: int) -> None:
        """The transport says that a client is away, though what it said may still arrive; or that
        it is back.
        """
        client = self._client(a)
        if b % 2:
            self._act(SERVER, self.server.away(client.name))
        else:
            self.server.back(client.name)
            self._act(client.name, client.reconnect())

    def crash_client(self, a: int, b: int) -> None:
        """A client dies in its next step, or now, between two steps."""
        self._crash(self._client(a).name, b)

    def crash_server(self, _a: int, b: int) -> None:
        self._crash(SERVER, b)

    def _crash(self, party: str, b: int) -> None:
        if b % 4 == len(Crash):
            self.n_crashes[f"{'server' if party == SERVER else 'client'}, between steps"] += 1
            self._restart(party, is_step_lost=False)
        else:
            self.armed[party] = Crash(b % 4), b // 4 % (len(self.names) + 1)

    # The end

    def settle(self) -> None:
        """Bad luck ends: all arrives in order, whoever waits says so again, and deadlines pass."""
        self.armed.clear()
        for _ in range(40):
            self._run_dry()
            for client in list(self.clients.values()):
                self._act(client.name, client.resend())
            if not self.flight and self.is_over:
                break
            if self.server.state not in (ServerState.FINISHED, ServerState.ABORTED):
                self._run_dry()
                self._act(SERVER, self.server.deadline())

    def deliver_all(self) -> None:
        """All that is on its way arrives in order, and what follows from it."""
        self._run_dry()

    def _run_dry(self) -> None:
        for _ in range(5_000):  # many times what honest sessions ever have to say
            self.deliver(0, 0)
            if not self.flight:
                return
        raise AssertionError("two sessions answer each other without end")

    @property
    def is_over(self) -> bool:
        return self.server.state in (ServerState.FINISHED, ServerState.ABORTED)

    # Odds and ends

    def count(self, outcomes: Counter[str]) -> None:
        outcomes["finished"] += len(self.results) == len(self.names)
        outcomes["some finished"] += 0 < len(self.results) < len(self.names)
        outcomes["none finished"] += not self.results
        outcomes["charged"] += any(self._recorded(name, Upload) for name in self.names)
        outcomes["accused"] += bool(self.accusations)
        present = {
            len(record.hellos)
            for record in self._recorded(SERVER, Deal)[-1:]
            if self.server._sharing and self.server._sharing.all_ready
        }
        outcomes["fewer share keys"] += bool(present) and present != {len(self.names)}
        outcomes["left out"] += any(
            len(S) < len(self.names) for result in self.results.values() for S in result.included
        )
        outcomes["spoiled"] += bool(self.spoiled)
        outcomes += self.n_crashes
        for accusation in self.accusations:
            outcomes[accusation.split(":")[0]] += 1


def _ended(client: ClientSession) -> object:
    match client.outcome:
        case ClientResult(clustering=clustering, included=included):
            return clustering.centroids.tolist(), included
        case Ended(reason, Unfinished(centroids=centroids, included=included)):
            return reason, centroids.tolist(), included
    return client.outcome


def _known_to(client: ClientSession) -> dict[str, object]:
    """The keys that a client holds, and whom it shares them with."""
    match client._phase:
        case Joining() as joining:
            return {
                "kept": joining._own._kept,
                "sealed": joining._own.ciphertexts,
                "own": joining._own.run.private_bytes(),
                "bad": joining.bad,
                "ready": joining._shared and joining._shared.transcript_hash,
                "deal": joining.key_set and joining.key_set.deal,
            }
        case ClientRounds(_keys=keys) as rounds:
            pairs = keys.masks._pairs if isinstance(keys.masks, PairwiseMasks) else ()
            return {
                "group key": keys.group_key.secret,
                "pairs": [
                    (combine.__name__, [_key_of(pair._streams) for pair in of])
                    for combine, of in pairs
                ],
                "own": keys.own.private_bytes(),
                "deal": keys.key_set.deal,
                "transcript": rounds._transcript_hash,
                "nonce": rounds._nonce,
                "proposed": rounds._proposed,
            }
    return {}


def _key_of(keystreams: Keystreams) -> tuple[bytes, bytes]:
    assert isinstance(keystreams, WatchedKeystreams)
    return keystreams.named
