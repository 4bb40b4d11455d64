"""A network on which anything can happen to a message, and to a process, between honest sessions that are watched from inside.

Each party has a log that survives it: what its session asked to be made durable, committed step by step. A process that dies
loses all else, at any of the points at which it can die in a step, and its session is restored from the log.
"""

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import TypeVar

import msgspec
import numpy as np
import pytest

from fastlloyd.base.arrays import IntArray
from fastlloyd.errors import RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan, TrustMode
from fastlloyd.federation.protocol.actions import SERVER, Action, ClientResult, Keep, Record, Send
from fastlloyd.federation.protocol.client import ClientSession
from fastlloyd.federation.protocol.masked_round import MaskedRound, Plausible
from fastlloyd.federation.protocol.messages import (
    Abort,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    KeyBox,
    Limits,
    Message,
    Parameters,
    Proposal,
    SealedKeys,
    Turn,
    Upload,
    decode,
    encode,
)
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.protocol.rounds import ClientRounds
from fastlloyd.federation.protocol.server import ServerSession
from fastlloyd.federation.protocol.transitions import ClientState, ServerState
from fastlloyd.federation.secagg.keys import EphemeralKey, KeyPassage
from fastlloyd.federation.secagg.masks import GroupKey, GroupMasks
from fastlloyd.testing import repeatable_noise
from federation import Federation, among, entropy, identity, make_plan, parts_of, same_clustering, starts_cheaply

M = TypeVar("M", bound=Message)
T = TypeVar("T")


def once_per_plan(function: Callable[[Plan], T]) -> Callable[[Plan], T]:
    found: dict[int, tuple[Plan, T]] = {}

    def remembered(plan: Plan) -> T:
        if id(plan) not in found:
            found[id(plan)] = plan, function(plan)
        return found[id(plan)][1]

    return remembered


@dataclass
class Watch:
    """What went into masks and came out of sums, seen from inside the sessions.

    hidden : (group key, context of the mask) -> all plaintexts it hid; plain and cipher : the same by (client, nonce);
    opened : (rounds of a client's session, round, broadcast, answer), in order; tried : (client, round) -> all broadcasts that
    one of the client's lives took masks off, whatever came out; settled : (rounds of a session, parameters).
    """

    hidden: dict[tuple[bytes, ...], list[IntArray]] = field(default_factory=dict)
    plain: dict[tuple[str, bytes], IntArray] = field(default_factory=dict)
    cipher: dict[tuple[str, bytes], bytes] = field(default_factory=dict)
    opened: list[tuple[ClientRounds, int, Broadcast, IntArray]] = field(default_factory=list)
    tried: dict[tuple[str, int], set[bytes]] = field(default_factory=dict)
    settled: list[tuple[ClientRounds, Parameters]] = field(default_factory=list)

    @classmethod
    def install(cls, monkeypatch: pytest.MonkeyPatch) -> "Watch":
        watch, hide, unmask, open_round = cls(), MaskedRound.hide, MaskedRound.open, ClientRounds.open
        settle = ClientRounds.settle
        answers: list[IntArray] = []
        at_work: list[tuple[str, Broadcast]] = []

        def watched_hide(self: MaskedRound, values: IntArray, client: str, nonce: bytes) -> bytes:
            payload = hide(self, values, client, nonce)
            assert isinstance(self.masks, GroupMasks)
            context = (self.context.before, self.context.after, client.encode(), nonce)
            watch.hidden.setdefault((self.masks._group_key.secret, *context), []).append(values)
            watch.plain[client, nonce], watch.cipher[client, nonce] = values, payload
            return payload

        def watched_unmask(self: MaskedRound, payload: bytes, included: Mapping[str, bytes], n_words: int) -> IntArray:
            name, broadcast = at_work[-1]
            watch.tried.setdefault((name, self.context.round), set()).add(encode(broadcast))
            answers.append(unmask(self, payload, included, n_words))
            return answers[-1]

        def watched_open(self: ClientRounds, broadcast: Broadcast) -> None:
            number = self.number
            at_work.append((self.name, broadcast))
            open_round(self, broadcast)
            watch.opened.append((self, number, broadcast, answers[-1]))

        def watched_settle(self: ClientRounds, parameters: Parameters) -> None:
            settle(self, parameters)
            watch.settled.append((self, parameters))

        starts_cheaply(monkeypatch)
        # most of what a restart costs, and the same for every session of a plan
        monkeypatch.setattr(Plausible, "of", once_per_plan(Plausible.of))
        monkeypatch.setattr(Roster, "of", once_per_plan(Roster.of))
        monkeypatch.setattr(MaskedRound, "hide", watched_hide)
        monkeypatch.setattr(MaskedRound, "open", watched_unmask)
        monkeypatch.setattr(ClientRounds, "open", watched_open)
        monkeypatch.setattr(ClientRounds, "settle", watched_settle)
        return watch

    def clear(self) -> None:
        for seen in (self.hidden, self.plain, self.cipher, self.opened, self.tried, self.settled):
            seen.clear()


class Crash(enum.IntEnum):
    """When in its next step a process dies. Of its letters the last kind of crash lets some go."""

    BEFORE_COMMIT = 0
    AFTER_COMMIT = 1
    AFTER_SENDING_SOME = 2


@dataclass
class Log:
    """What of a party survives its process."""

    records: list[Message] = field(default_factory=list)
    secret: EphemeralKey | None = None

    def commit(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Record(message):
                    self.records.append(message)
                case Keep(secret):
                    assert self.secret is None
                    self.secret = secret


class FreshNoise:
    """Small noise that is never the same twice; `drawn` has it all, in the order of the draws."""

    private = False

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.drawn: list[IntArray] = []

    def gaussian(self, scale: Fraction, size: int) -> IntArray:
        assert scale > 0
        # as little as in `make_federation`: never more than `Plausible` allows
        self.drawn.append(self._rng.integers(-9, 9, size, endpoint=True))
        return self.drawn[-1].copy()

    def two_sided_geometric(self, scale: Fraction, size: int) -> IntArray:
        return self.gaussian(scale, size)


def sends(actions: list[Action]) -> list[Send]:
    return [action for action in actions if isinstance(action, Send)]


@dataclass(frozen=True)
class Letter:
    sender: str
    recipient: str
    data: bytes


class Network:
    """One run. An operation is a method of two small numbers; those after `sneak` are an attacker's, the others bad luck."""

    @repeatable_noise()
    def __init__(self, federation: Federation, watch: Watch, crashes: dict[str, tuple[int, Crash, int]] | None = None) -> None:
        """crashes : party -> in which of its steps it dies, when in that step, after how many letters."""
        watch.clear()
        self.federation, self.plan, self.watch = federation, federation.plan, watch
        self.names = federation.plan.names
        self.planned = crashes or {}
        self.n_steps: Counter[str] = Counter()
        self.n_crashes: Counter[str] = Counter()
        self.armed: dict[str, tuple[Crash, int]] = {}
        self.noise = {party: FreshNoise(seed) for seed, party in enumerate((SERVER, *self.names))}
        self.entropy = {name: entropy(name) for name in self.names}
        self.logs = {party: Log() for party in (SERVER, *self.names)}
        self.limits = Limits.of(self.plan)
        self.flight: list[Letter] = []
        self.history: list[Letter] = []
        self.said: list[tuple[str, Message]] = []
        self.results: dict[str, ClientResult] = {}
        self.accusations: list[str] = []
        self.spoiled: set[tuple[int, str]] = set()
        self.server = ServerSession(self.plan, self.noise[SERVER])
        self.clients: dict[str, ClientSession] = {}
        for name in self.names:
            self._begin(name)

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
            assert not letters or party == SERVER or not log.records or not isinstance(log.records[-1], Abort | Confirmations)
            log.commit(actions)
            for send in letters[: 0 if crash is Crash.AFTER_COMMIT else n_sent]:
                self.flight.append(Letter(party, send.to, encode(send.message)))
                self.history.append(self.flight[-1])
                self.said.append((party, send.message))
        if crash is not None:
            self.n_crashes[f"{'server' if party == SERVER else 'client'}, {crash.name.lower().replace('_', ' ')}"] += 1
            self._restart(party, is_step_lost=crash is Crash.BEFORE_COMMIT)
        elif party != SERVER and isinstance(outcome := self.clients[party].outcome, ClientResult):
            self.results[party] = outcome

    @repeatable_noise()
    def _restart(self, party: str, *, is_step_lost: bool) -> None:
        """Only the log is left. All connections of the party break, and are made anew."""
        if party == SERVER:
            before, n_drawn = self.server, len(self.noise[SERVER].drawn)
            self.server = ServerSession(self.plan, self.noise[SERVER])
            self.server.restore([encode(record) for record in self.logs[SERVER].records])
            assert len(self.noise[SERVER].drawn) == n_drawn
            assert is_step_lost or self._durable(self.server) == self._durable(before)
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
            assert (restored.state, restored.resend(), restored.reconnect(), restored._handled) == (
                (client.state, client.resend(), client.reconnect(), client._handled)
                if client.state is not ClientState.ABORTED
                else (ClientState.ABORTED, [], [], set())
            )
            assert type(restored.outcome) is type(client.outcome)
        if isinstance(restored.outcome, ClientResult):
            self.results[party] = restored.outcome
        self._act(party, restored.resume())
        if self.clients[party] is restored:
            self._act(party, restored.reconnect())

    def _durable(self, server: ServerSession) -> dict[str, object]:
        """All that a server knows, but for what clients say again: Hellos of those not present, open uploads, confirmations."""
        kept = {"_broadcasts", "_key_boxes", "_parameters", "_present", "_relayed", "_sealed", "outcome"}
        return {slot: getattr(server, slot) for slot in kept} | {"state": server.state}

    def _new_client(self, name: str) -> ClientSession:
        return ClientSession(
            self.plan,
            name,
            self.federation.X[name],
            identity=identity(name),
            noise=self.noise[name],
            random_bytes=self.entropy[name],
        )

    def _restored_client(self, name: str) -> ClientSession:
        session = self._new_client(name)
        session.restore(self.logs[name].secret, [encode(record) for record in self.logs[name].records])
        return session

    def _arrive(self, letter: Letter) -> None:
        """Only RemoteProtocolError may come out, and only the clients' end of a run is final."""
        try:
            message = decode(letter.data, self.limits)
            if letter.recipient == SERVER:
                is_spoiled = (
                    isinstance(message, Upload) and self.watch.cipher.get((letter.sender, message.nonce)) != message.payload
                )
                self._act(SERVER, self.server.receive(letter.sender, message))
                if is_spoiled and isinstance(message, Upload):
                    self.spoiled.add((message.round, letter.sender))
            else:
                client = self.clients[letter.recipient]
                had_ended = client.state is ClientState.ABORTED
                self._act(letter.recipient, client.accept(message))
                if self.clients[letter.recipient] is client:  # else it died, and the message with it
                    self._act(letter.recipient, client.receive(message))
                    assert not had_ended
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

    def wander(self, a: int, b: int) -> None:
        """The transport says that a client is away, though what it said may still arrive; or that it is back."""
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
        uploads = self._uploads(1 + b % self.plan.mechanism.n_rounds)
        left_out = self.names[b % len(self.names)]
        self._broadcast(a, {name: upload for name, upload in uploads.items() if name != left_out})

    def two_sets(self, a: int, b: int) -> None:
        """One proper sum after the other, over two sets, for a client that dies when it takes the first."""
        client = self._client(a)
        uploads = self._uploads(client.round)
        left_out = self.names[b // len(Crash) % len(self.names)]
        self._broadcast(a, {name: upload for name, upload in uploads.items() if name != left_out})
        self._broadcast(a, uploads)
        self.armed[client.name] = Crash(b % len(Crash)), 0

    def equivocate(self, a: int, b: int) -> None:
        """A broadcast that really was made, changed in one place for one client."""
        broadcasts = self._sent(Broadcast)
        if not broadcasts:
            return
        shown = broadcasts[a // 8 % len(broadcasts)]
        first = next(iter(shown.included(self.names)))
        words = np.frombuffer(shown.payload, self.plan.ring.dtype).copy()
        words[b % len(words)] += 1
        lies = [
            msgspec.structs.replace(shown, payload=words.tobytes()),
            among(self.names, shown, {first: None}),
            msgspec.structs.replace(shown, members=bytes(len(shown.members))),
            msgspec.structs.replace(shown, nonces=shown.nonces[8:]),
            among(self.names, shown, {first: bytes(8)}),
            msgspec.structs.replace(shown, round=1 + shown.round % self.plan.mechanism.n_rounds),
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
        passage = KeyPassage(
            plan_digest=self.plan.digest,
            run_id=bytes.fromhex(self.plan.run_id),
            sender_name=dealer,
            sender_public=key.public,
            recipient_name=recipient,
            recipient_public=hellos[recipient].ephemeral_public,
        )
        box = passage.seal(GroupKey(bytes(32)), key)
        forged = Roster.of(self.plan).hello(dealer, key.public, identity("mallory"))
        self.sneak(a, KeyBox(forged if b % 2 else hellos[dealer], self.names, box))

    def false_confirmations(self, a: int, b: int) -> None:
        relayed = self._sent(Confirmations)
        macs = relayed[0].macs if relayed else tuple((name, bytes(32)) for name in self.names)
        self.sneak(a, Confirmations(macs[: b % (len(macs) + 1)]))

    def second_box(self, a: int, b: int) -> None:
        """Parameters that a client really worked out, and that were not stored: the server stores none but the first."""
        stored = {(parameters.client, parameters.salt) for parameters in self._recorded(SERVER, Parameters)}
        made = [(sender, said) for sender, said in self.said if isinstance(said, Proposal)]
        others = [(sender, said) for sender, said in made if (sender, said.salt) not in stored]
        if others:
            sender, proposal = others[b % len(others)]
            self.sneak(a, Parameters(proposal.round, sender, proposal.salt, proposal.box))

    def false_box(self, a: int, b: int) -> None:
        """Parameters that were stored, changed in one place for one client."""
        relayed = self._sent(Parameters)
        if not relayed:
            return
        shown = relayed[a // 8 % len(relayed)]
        other = next(name for name in self.names if name != shown.client)
        lies = [
            msgspec.structs.replace(shown, box=bytes([shown.box[0] ^ 1]) + shown.box[1:]),
            msgspec.structs.replace(shown, salt=shown.salt[::-1]),
            msgspec.structs.replace(shown, client=other),
            msgspec.structs.replace(shown, round=2 + (shown.round - 1) % len(self.limits.box_bytes)),
        ]
        self.sneak(a, lies[b % len(lies)])

    def false_turn(self, a: int, b: int) -> None:
        self.sneak(a, Turn(2 + b % self.plan.mechanism.n_rounds))

    def false_proposal(self, a: int, b: int) -> None:
        """A client makes parameters up that nobody can open."""
        if self.limits.box_bytes:
            number = [*self.limits.box_bytes][b % len(self.limits.box_bytes)]
            lie = Proposal(number, bytes(16), bytes(self.limits.box_bytes[number]))
            self.flight.insert(0, Letter(self._client(a).name, SERVER, encode(lie)))

    def false_abort(self, a: int, _b: int) -> None:
        self.sneak(a, Abort("no reason at all"))

    def give_up(self, a: int, _b: int) -> None:
        self._act(self._client(a).name, self._client(a).deadline())

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

    def _run_dry(self) -> None:
        for _ in range(5_000):  # many times what honest sessions ever have to say
            self.deliver(0, 0)
            if not self.flight:
                return
        raise AssertionError("two sessions answer each other without end")

    @property
    def is_over(self) -> bool:
        return self.server.state in (ServerState.FINISHED, ServerState.ABORTED)

    # What must hold

    def check_one_plaintext_per_mask(self) -> None:
        assert all(len(plaintexts) == 1 for plaintexts in self.watch.hidden.values())

    def check_one_set_per_round(self) -> None:
        """Each session opens each round once, in order, and so does each log; the server fixes each round once.

        Of each round a client takes the masks off one broadcast, in all its lives together.
        """
        assert all(len(broadcasts) == 1 for broadcasts in self.watch.tried.values())
        sessions: dict[int, list[int]] = {}
        for rounds, number, _, _ in self.watch.opened:
            sessions.setdefault(id(rounds), []).append(number)
        for opened in (*sessions.values(), *([b.round for b in self._recorded(party, Broadcast)] for party in self.logs)):
            assert opened == list(range(1, len(opened) + 1))
        assert {encode(broadcast) for broadcast in self._sent(Broadcast)} <= set(map(encode, self._recorded(SERVER, Broadcast)))

    def check_one_box_per_round(self) -> None:
        """Each session goes on from one box of each round, in order, and so does each log; only stored ones are relayed."""
        expected = list(self.limits.box_bytes)
        sessions: dict[int, list[int]] = {}
        for rounds, parameters in self.watch.settled:
            sessions.setdefault(id(rounds), []).append(parameters.round)
        for settled in (*sessions.values(), *([p.round for p in self._recorded(party, Parameters)] for party in self.logs)):
            assert settled == expected[: len(settled)]
        assert {encode(parameters) for parameters in self._sent(Parameters)} <= set(
            map(encode, self._recorded(SERVER, Parameters))
        )
        for name in self.names:  # an upload is masked for the box that the record before it holds, and no other
            log = self.logs[name].records
            for before, record in pairwise(log):
                if isinstance(record, Upload) and record.round in self.limits.box_bytes:
                    assert isinstance(before, Parameters)
                    assert before.round == record.round
            proposed = [proposal.round for proposal in self._recorded(name, Proposal)]
            assert proposed == sorted(set(proposed))

    def check_one_noise_per_sum(self) -> None:
        """What a broadcast holds besides its uploads is noise that was drawn for it alone, and none where clients add it."""
        unused = [noise.tolist() for noise in self.noise[SERVER].drawn]
        for broadcast in self._recorded(SERVER, Broadcast):
            if any((broadcast.round, name) in self.spoiled for name in broadcast.included(self.names)):
                continue
            added = self._noise_of(broadcast)
            exchange = self.plan.mechanism.all_rounds[broadcast.round - 1]
            parts = [part.ravel() for part in parts_of(self.plan.mechanism, exchange, added)]
            assert added.shape == self.plan.mechanism.shape(exchange)
            if self.plan.trust is TrustMode.SERVER_NOISE:
                for part in parts:
                    unused.remove(part.tolist())
            else:
                assert not added.any()

    def _noise_of(self, broadcast: Broadcast) -> IntArray:
        exchange, ring = self.plan.mechanism.all_rounds[broadcast.round - 1], self.plan.ring
        n_words = self.plan.n_words(exchange)
        total = ring.from_bytes(broadcast.payload, n_words)
        for member in broadcast.included(self.names).items():
            total = ring.subtract(total, ring.from_bytes(self.watch.cipher[member], n_words))
        assert total[-1] == 0
        return ring.centre(total[:-1]).reshape(self.plan.mechanism.shape(exchange))

    def check_everybody_opens_the_same(self) -> None:
        """One opened set per round, whoever opens it."""
        opened = {number: broadcast for _, number, broadcast, _ in self.watch.opened}
        assert all(opened[number] == broadcast for _, number, broadcast, _ in self.watch.opened)
        settled = {parameters.round: parameters for _, parameters in self.watch.settled}
        assert all(settled[parameters.round] == parameters for _, parameters in self.watch.settled)

    def check_write_ahead(self) -> None:
        """A round's upload is recorded once, and nothing is sent that was not recorded or does not follow from it."""
        for party in self.logs:
            recorded = set(map(encode, self.logs[party].records))
            boxes = {box for sealed in self._recorded(party, SealedKeys) for _, box in sealed.boxes}
            for message in {said for sender, said in self.said if sender == party}:
                match message:
                    case KeyBox():
                        assert message.box in boxes
                    case Turn():  # follows from the sum that is recorded
                        assert message.round - 1 in {broadcast.round for broadcast in self._recorded(SERVER, Broadcast)}
                    case Abort() if party == SERVER and encode(message) not in recorded:
                        assert message.reason.startswith(("the run began without", "the run goes on without"))
                    case _:
                        assert encode(message) in recorded
        for name in self.names:
            uploads = self._recorded(name, Upload)
            assert [upload.round for upload in uploads] == list(range(1, len(uploads) + 1))
            assert all(len(self._recorded(name, kind)) <= 1 for kind in (Hello, Deal, KeyBox, Confirmation))

    def check_exact(self, clients: Callable[[str], bool]) -> None:
        """What these clients opened is, to the bit, the sum of what the named clients hid, and the server's noise."""
        for rounds, number, broadcast, answer in self.watch.opened:
            members = list(broadcast.included(self.names).items())
            if clients(rounds.name) and not any((number, member) in self.spoiled for member, _ in members):
                values = [self.watch.plain[member] for member in members]
                assert np.array_equal(answer, np.sum([*values, self._noise_of(broadcast)], axis=0).ravel())

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
        outcomes += self.n_crashes
        for accusation in self.accusations:
            outcomes[accusation.split(":")[0]] += 1

    # Odds and ends

    def _client(self, a: int) -> ClientSession:
        return self.clients[self.names[a % len(self.names)]]

    def _recorded(self, party: str, kind: type[M]) -> list[M]:
        return [message for message in self.logs[party].records if isinstance(message, kind)]

    def _sent(self, kind: type[M]) -> list[M]:
        return [message for _, message in self.said if isinstance(message, kind)]

    def _uploads(self, number: int) -> dict[str, Upload]:
        return {sender: said for sender, said in self.said if isinstance(said, Upload) and said.round == number}

    def _broadcast(self, a: int, uploads: dict[str, Upload]) -> None:
        if not uploads:
            return
        ring, number = self.plan.ring, next(iter(uploads.values())).round
        n_words = self.plan.n_words(self.plan.mechanism.all_rounds[number - 1])
        noise = np.append(self.federation.server_noise[number - 1].ravel(), 0)
        total = ring.wrap(noise if self.plan.trust is TrustMode.SERVER_NOISE else np.zeros_like(noise))
        for upload in uploads.values():
            total = ring.add(total, ring.from_bytes(upload.payload, n_words))
        included = {name: upload.nonce for name, upload in uploads.items()}
        self.sneak(a, Broadcast.of(self.names, number, included, ring.to_bytes(total)))


OTHER_PLAN = make_plan(3, max_dropouts=1, n_clusters=1, n_features=1, n_iterations=2, run_id=b"another 16 bytes")


def _hello(client: ClientSession) -> Message:
    (send,) = sends(client.start())
    return send.message
