"""The server's side of a run: it relays keys it cannot open, adds up uploads it cannot read, and
fixes each round once.
"""

import os
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.dp.repeatable import check_private
from fastlloyd.errors import LocalProtocolError, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import Action, Finish, Record, Send, ServerResult
from fastlloyd.federation.protocol.messages import (
    BEGINNING_BYTES,
    MAX_REASON,
    Abort,
    AllReady,
    BadKeys,
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    Hello,
    Message,
    Parameters,
    Proposal,
    Ready,
    SealedKeys,
    Turn,
    Upload,
    decode_records,
    fits,
)
from fastlloyd.federation.protocol.roster import KeySet, Roster, missing_of
from fastlloyd.federation.protocol.transitions import SERVER_TRANSITIONS, Deadline, ServerState
from fastlloyd.federation.secagg.ring import RingVector


@dataclass(slots=True, eq=False, repr=False)
class ServerSession:
    """The server in one run: messages in, actions out. It holds no key and has no place for one.

    Messages come from `decode`, their senders from the transport, which knows whom it talks to. A
    message that breaks the protocol raises RemoteProtocolError that names its sender and changes
    nothing: the others go on.

    Parameters
    ----------
    plan : the plan. noise : where the noise comes from in `server-noise`; not used in
    `client-noise`. LocalProtocolError if it is not private,
        outside `testing.repeatable_noise`. random_bytes : fresh bytes, by which each beginning of
        the run is told from another.

    outcome : how the run ended; None while it goes on.
    """

    plan: Plan
    noise: InitVar[NoiseSource]
    random_bytes: InitVar[Callable[[int], bytes]] = os.urandom
    state: ServerState = field(default=ServerState.JOINING, init=False)
    outcome: ServerResult | None = field(default=None, init=False)
    _noise: NoiseSource = field(init=False)
    _roster: Roster = field(init=False)
    _beginning: bytes = field(init=False)
    _hellos: dict[str, Hello] = field(default_factory=dict, init=False)
    _key_set: KeySet | None = field(default=None, init=False)
    _sealed: dict[str, SealedKeys] = field(
        default_factory=dict, init=False
    )  # answers to the last Deal
    _ready: dict[str, Ready] = field(default_factory=dict, init=False)  # for the same Deal
    _all_ready: AllReady | None = field(default=None, init=False)
    _uploads: dict[str, Upload] = field(default_factory=dict, init=False)
    _total: RingVector | None = field(default=None, init=False)  # of these uploads and the noise
    _broadcasts: list[Broadcast] = field(default_factory=list, init=False)
    _included: tuple[tuple[str, ...], ...] = field(
        default=(), init=False
    )  # the set of each of them
    _parameters: dict[int, Parameters] = field(default_factory=dict, init=False)
    _turn: int = field(
        default=0, init=False
    )  # so many of the last sum were asked for parameters and did not answer
    _late: set[str] = field(default_factory=set, init=False)  # who kept the others waiting before
    _away: set[str] = field(
        default_factory=set, init=False
    )  # has no connection, says the transport, to every process anew
    _gone: dict[str, None] = field(
        default_factory=dict, init=False
    )  # who has left for good, in this order
    _confirmations: dict[str, Confirmation] = field(default_factory=dict, init=False)
    _relayed: Confirmations | None = field(default=None, init=False)

    def __post_init__(self, noise: NoiseSource, random_bytes: Callable[[int], bytes]) -> None:
        check_private(noise)
        self._beginning = random_bytes(BEGINNING_BYTES)
        self._noise, self._roster = noise, Roster.of(self.plan)

    def restore(self, recorded: Sequence[bytes]) -> None:
        """Be where the session was that recorded these bytes of messages, in order; it answers
        whatever clients say again.

        What it had not recorded it asks for no more and needs not: Hellos before it named a dealer,
        the uploads of an open round and confirmations come again from the clients, the same bytes.
        No noise is drawn.

        Raises
        ------
        LocalProtocolError : the records are not those of such a session, which is then of no use.
        """
        for position, message in enumerate(decode_records(recorded, self.plan), 1):
            with fits(position, message):
                self._state_after(message)  # raises
                self._check_names(message)
                self._apply(message)

    @property
    def step(self) -> tuple[str, ...]:
        """What the deadline is for: another step has another value."""
        return (
            self.state.value,
            str(len(self._broadcasts)),
            str(self._turn),
            str(len(self._present)),
        )

    @property
    def progress(self) -> str:
        """Where the run is, for people."""
        n_closed, n_rounds = len(self._broadcasts), self.plan.mechanism.n_rounds
        return (
            f"round {n_closed + 1} of {n_rounds}"
            if self.state is ServerState.AGGREGATING
            else self.state.value
        )

    @property
    def joined(self) -> tuple[str, ...]:
        """The clients whose Hello was taken, and that have not left, in the order in which they
        came.
        """
        return tuple(name for name in self._hellos if name not in self._gone)

    def hello_of(self, name: str) -> Hello | None:
        """Return the Hello by which that client is in the run; None if it is not, or has left. To
        be read from any thread.
        """
        return None if name in self._gone else self._hellos.get(name)

    @property
    def awaited(self) -> tuple[str, ...]:
        """The clients that are waited for in this step, in the order of the plan: without those
        that are absent.
        """
        match self.state:
            case ServerState.JOINING:
                return tuple(name for name in self.plan.names if name not in self._hellos)
            case ServerState.DEALING:
                return tuple(name for name in self._speakers if name not in self._sealed)
            case ServerState.AGREEING:
                return tuple(name for name in self._present if name not in self._ready)
            case ServerState.AGGREGATING:
                return self._unanswered(self._uploads)
            case ServerState.SETTLING:
                return self._included[-1][self._turn : self._turn + 1]
            case ServerState.CONFIRMING:
                return self._unanswered(self._confirmations)
        return ()

    def receive(self, sender: str, message: Message) -> list[Action]:
        """Answer a client; RemoteProtocolError if it sent what the protocol does not allow."""
        if sender not in self._roster.signing_keys:
            raise RemoteProtocolError(f"there is no client {sender!r:.80} in the plan")
        if (self.state, type(message)) not in SERVER_TRANSITIONS:
            raise RemoteProtocolError(
                f"client {sender!r} sent {type(message).__name__}, which is not expected by a"
                f" server that is {self.state.value}"
            )
        if self.outcome is not None and self.outcome.reason is not None:
            return [Send(sender, Abort(self.outcome.reason))]
        if self._present and sender not in self._present:
            return [Send(sender, Abort(f"the run began without client {sender}"))]
        if self._key_set is None and not isinstance(message, Hello):
            return []  # of an earlier beginning, whose end this client missed
        answers: Mapping[type, Callable[[str, Any], list[Action]]] = {
            Hello: self._hello,
            SealedKeys: self._store_keys,
            Ready: self._agree,
            BadKeys: self._accused,
            Upload: self._collect,
            Proposal: self._settle,
            Confirmation: self._confirmed,
        }
        return answers[type(message)](sender, message)

    def deadline(self) -> list[Action]:
        """Stop waiting: go on with those that answered, if they are enough, and otherwise end the
        run.
        """
        match self.state:
            case ServerState.JOINING:
                return self._deal(Deadline)
            case ServerState.DEALING | ServerState.AGREEING:
                return self._deal_without(Deadline, dict.fromkeys(self.awaited, "it was too late"))
            case ServerState.AGGREGATING:
                return self._close_round(Deadline)
            case ServerState.SETTLING:
                return self._next_turn()
            case ServerState.CONFIRMING:
                return self._relay(Deadline)
        return []

    def away(self, name: str) -> list[Action]:
        """Client `name` has had no connection for a while. If it missed a round before, nobody
        waits for it until it is back.

        A step never goes on with fewer clients than its sum needs: those that are absent then have
        until the deadline, as everybody has.
        """
        self._away.add(name)
        return self._go_on(Deadline)

    def left(self, name: str) -> list[Action]:
        """Client `name` has ended its run for good: nobody waits for it, and a run for which too
        few are left ends.
        """
        self._gone[name] = None
        return self._go_on(Deadline)

    def back(self, name: str) -> None:
        """Client `name` has a connection (again): it is waited for."""
        self._away.discard(name)

    def _go_on(self, event: type) -> list[Action]:
        """Take the next step if nobody is waited for any more; end the run if too many have left
        for good.
        """
        n_clients, gone = self.plan.n_clients, self._gone.keys()
        is_short = bool(gone) and self._n_left < self._needed
        match self.state:
            case ServerState.JOINING if is_short or len(self._hellos.keys() | gone) == n_clients:
                return self._deal(event)
            case ServerState.DEALING | ServerState.AGREEING if is_short or not gone.isdisjoint(
                self._present
            ):
                return self._deal(event)
            case ServerState.AGGREGATING | ServerState.SETTLING | ServerState.CONFIRMING if (
                is_short
            ):
                return self._abort(Deadline, f"{self._n_left} clients are left", self._needed)
            case ServerState.AGGREGATING if self._is_complete(self._uploads):
                return self._close_round(event)
            case ServerState.SETTLING if not gone.isdisjoint(self.awaited):
                return self._next_turn()
            case ServerState.CONFIRMING if self._is_complete(self._confirmations):
                return self._relay(event)
        return []

    @property
    def _n_left(self) -> int:
        """How many this step and all to come can count on: those who have not left, or whose last
        upload or confirmation came.

        An earlier upload does not help: the others would pay for a further round, which could not
        close.
        """
        n_to_come = self.plan.mechanism.n_rounds - len(self._broadcasts)
        answers: Container[str] = (self._confirmations, self._uploads, ())[min(n_to_come, 2)]
        return sum(name not in self._gone or name in answers for name in self._counted)

    @property
    def _absent(self) -> set[str]:
        """Whom nobody waits for: who has left for good; and, until it is back, who was late before
        and is away now.

        So one that is away costs the others a step's time once, and one that comes and goes no more
        than that.
        """
        return self._late & self._away | self._gone.keys()

    @property
    def _present(self) -> tuple[str, ...]:
        """Those who share keys, or are about to; none before the first Deal."""
        return () if self._key_set is None else self._key_set.names

    @property
    def _speakers(self) -> Sequence[str]:
        """Those who answer the Deal."""
        return self.plan.masks.speakers(self._present)

    @property
    def _needed(self) -> int:
        """How many uploads, or confirmations, this step cannot do without."""
        if self._key_set is None:
            return self.plan.min_present
        quorum = self.plan.quorum(len(self._present))
        return quorum.confirmations if self._is_summed else quorum.needed

    @property
    def _is_summed(self) -> bool:
        """Whether the last round is closed."""
        return len(self._broadcasts) == self.plan.mechanism.n_rounds

    @property
    def _counted(self) -> tuple[str, ...]:
        """Those whose answers count: of uploads all, of confirmations those of clients of the last
        round.

        Others only followed that round and do not vouch for it: no client would accept that.
        """
        return self._included[-1] if self._is_summed else self._present or self.plan.names

    def _unanswered(self, answers: Container[str]) -> tuple[str, ...]:
        absent = self._absent
        return tuple(name for name in self._present if name not in answers and name not in absent)

    def _is_complete(self, answers: Mapping[str, object]) -> bool:
        """Whether everybody has answered but those that are absent, and enough have."""
        may_be = len(self._present) - len(answers) <= len(
            self._absent
        )  # most often not, and then nobody is counted
        return (
            may_be and not self._unanswered(answers) and self._n_vouching(answers) >= self._needed
        )

    def _n_vouching(self, answers: Container[str]) -> int:
        """How many of these answers count."""
        return sum(name in answers for name in self._counted)

    def draw_ahead(self) -> None:
        """Draw the noise of the open round before anybody waits for it; for a driver that has
        nothing to answer.
        """
        if self.state is ServerState.AGGREGATING:
            self._begun()

    def _hello(self, sender: str, hello: Hello) -> list[Action]:
        known = self._hellos.get(sender)
        if hello == known:
            return self._say_again(sender)
        if known is not None and self._key_set is not None:
            raise RemoteProtocolError(
                f"client {sender!r} said Hello before, with another key; it cannot join a run twice"
            )
        if hello.name != sender:
            raise RemoteProtocolError(f"client {sender!r} said Hello in the name of {hello.name!r}")
        self._hellos[sender] = self._roster.checked(hello)
        self._gone.pop(sender, None)  # what it said before was with other keys, of no use now
        return self._go_on(Hello)

    def _say_again(self, sender: str) -> list[Action]:
        """What a client that repeats itself waits for, if it was already sent; who was in a sum has
        all of it.
        """
        if self._key_set is None or any(sender in included for included in self._included):
            return []
        said: list[Message] = [self._key_set.deal]
        if self.state is not ServerState.DEALING:
            said.append(self._key_set.key_box(sender, self._sealed))
        if self._all_ready is not None:
            said.append(self._all_ready)
        return [Send(sender, message) for message in said]

    def _deal_without(
        self, event: type, left_out: Mapping[str, str], why: str = ""
    ) -> list[Action]:
        """Begin sharing keys anew without these clients, each of which is told why; nothing was
        masked until now. If too few remain, the run ends.
        """
        actions = self._deal(event, left_out, why)
        if self.outcome is not None:
            return actions
        told = [
            Send(name, Abort(f"the run goes on without client {name}: {reason}"[:MAX_REASON]))
            for name, reason in left_out.items()
        ]
        return [*actions, *told]

    def _deal(self, event: type, late: Container[str] = (), why: str = "") -> list[Action]:
        """Have those present make keys for each other: who said Hello, or was named before, and is
        neither late nor gone.
        """
        named = self._present or self._roster.in_order(self._hellos)
        present = [name for name in named if name not in late and name not in self._gone]
        n, least = len(present), self.plan.min_present
        if n < least:
            missing = missing_of(self.plan.names, present)
            what = f"{why}{n} of {self.plan.n_clients} clients were there in time{missing}"
            return self._abort(event, what, least)
        attempt = 1 if self._key_set is None else self._key_set.deal.attempt + 1
        deal = Deal(self._beginning, attempt, tuple(self._hellos[name] for name in present))
        return self._decide(event, [deal], present)

    def _store_keys(self, sender: str, sealed: SealedKeys) -> list[Action]:
        """Take what one client made for those after it; once all have, each is sent its part."""
        agreed = self._agreed
        if sealed.deal != agreed.digest:
            return self._say_again(sender)
        if sender not in self._speakers:
            raise RemoteProtocolError(f"client {sender!r} sealed keys, but was not asked to")
        if (known := self._sealed.get(sender)) is not None:
            if known != sealed:
                raise RemoteProtocolError(f"client {sender!r} sealed keys twice, and others")
            return self._say_again(sender) if self.state is not ServerState.DEALING else []
        agreed.check_sealed(sender, sealed)
        decided = self._decide(SealedKeys, [sealed])
        if self.state is ServerState.DEALING:
            return decided
        boxes = [Send(name, agreed.key_box(name, self._sealed)) for name in self._present]
        return [*decided, *boxes]

    def _agree(self, sender: str, ready: Ready) -> list[Action]:
        """Take one client's word that its keys fit; once all have given it, rounds begin."""
        agreed = self._agreed
        is_over = self._all_ready is not None or self.state is ServerState.DEALING
        if ready.deal != agreed.digest or is_over:
            return self._say_again(sender)
        if (known := self._ready.get(sender)) is not None:
            if known != ready:
                raise RemoteProtocolError(f"client {sender!r} is ready twice, and otherwise")
            return []
        if ready.round != 1:
            raise RemoteProtocolError(
                f"client {sender!r} is ready for round {ready.round}; nobody asked for it"
            )
        agreed.check_ready(sender, 1, self._transcript_hash, ready.signature)
        self._ready[sender] = ready
        if len(self._ready) < len(self._present):
            return []
        signatures = tuple(self._ready[name].signature for name in self._present)
        return self._decide(Ready, [AllReady(agreed.digest, 1, signatures)], self._present)

    def _accused(self, sender: str, said: BadKeys) -> list[Action]:
        """Begin anew without the client that says so, and without one maker that it names.

        Only these two can tell whether the key fits, so nobody knows which lies, but one does. So
        each step takes one liar at least, and t liars take t honest clients with them at most.
        """
        agreed = self._agreed
        is_over = self._all_ready is not None or self.state is ServerState.DEALING
        if said.deal != agreed.digest or is_over:
            return self._say_again(sender)
        earlier = self._present[: self._present.index(sender)]
        makers = [name for name in self._speakers if name in earlier]
        what = f"the list of bad keys of client {sender!r}"
        self._roster.check_members(what, said.makers, makers, 1)
        if sender in self._ready:
            raise RemoteProtocolError(f"client {sender!r} said before that all keys fit")
        maker = said.makers[0]
        why = f"the key of client {maker} for client {sender} does not fit"
        return self._deal_without(BadKeys, dict.fromkeys([maker, sender], why), f"{why}; ")

    def _collect(self, sender: str, upload: Upload) -> list[Action]:
        """Take one client's upload; the last one closes the round. One for a closed round is
        answered with its broadcast.
        """
        n_closed = len(self._broadcasts)
        if upload.round <= n_closed:
            closed, following = Send(sender, self._broadcasts[upload.round - 1]), upload.round + 1
            if following in self._parameters:
                return [closed, Send(sender, self._parameters[following])]
            # whose turn it is may have lost that message, and must know the sum first; the first of
            # the sum knows its turn
            is_asked = (
                self.state is ServerState.SETTLING and self._turn > 0 and sender in self.awaited
            )
            return (
                [closed, Send(sender, Turn(following))]
                if is_asked and upload.round == n_closed
                else [closed]
            )
        if upload.round != n_closed + 1 or self.state is not ServerState.AGGREGATING:
            raise RemoteProtocolError(
                f"client {sender!r} sent an upload for round {upload.round}, which is not open yet"
            )
        if (stored := self._uploads.get(sender)) is not None:
            if upload != stored:
                raise RemoteProtocolError(
                    f"client {sender!r} sent two different uploads for round {upload.round}"
                )
            return []
        self.plan.ring.accumulate(self._begun(), upload.payload)
        self._uploads[sender] = upload
        return self._go_on(Upload)

    def _begun(self) -> RingVector:
        """The open round's total, which begins with its noise, drawn once."""
        if self._total is None:
            round = self.plan.mechanism.all_rounds[len(self._broadcasts)]
            noise = self.plan.draw_server_noise(round, self._noise).ravel()
            self._total = self.plan.ring.wrap(
                np.append(noise, np.int64(0))
            )  # the checksum word gets none
        return self._total

    def _close_round(self, event: type) -> list[Action]:
        """Fix the included set and the sum, and let go of the uploads."""
        number = len(self._broadcasts) + 1
        if self._total is None or len(self._uploads) < self._needed:
            missing = missing_of(self._present, self._uploads)
            return self._abort(
                event,
                f"{len(self._uploads)} clients answered in round {number}{missing}",
                self._needed,
            )
        nonces = {name: upload.nonce for name, upload in self._uploads.items()}
        payload = self.plan.ring.to_bytes(self._total)
        return self._decide(
            event, [Broadcast.of(self.plan.names, number, nonces, payload)], self._present
        )

    def _settle(self, sender: str, proposal: Proposal) -> list[Action]:
        """Store the first parameters that were asked for and relay them to all; whoever proposes
        others is told these.

        Those of a client that was not asked are passed over, else whoever hurries works them out.
        An honest one was asked by a process before this one: it says them again in its turn.
        """
        if proposal.round in self._parameters:
            return [Send(sender, self._parameters[proposal.round])]
        if self.state is not ServerState.SETTLING or proposal.round != len(self._broadcasts) + 1:
            raise RemoteProtocolError(
                f"client {sender!r} sent parameters for round {proposal.round}, which nobody"
                " waits for"
            )
        if sender not in self._included[-1][: self._turn + 1]:
            return []
        parameters = Parameters(
            proposal.round, sender, proposal.salt, proposal.box, proposal.signature
        )
        self._agreed.check_parameters(parameters)
        return self._decide(Proposal, [parameters], self._present)

    @property
    def may_ask_another(self) -> bool:
        """Whether a further client of the last sum may be asked for parameters."""
        is_settling = self.state is ServerState.SETTLING
        return is_settling and self._turn < min(
            self.plan.quorum(len(self._present)).max_turns, len(self._included[-1]) - 1
        )

    def _next_turn(self) -> list[Action]:
        """Ask the next client of the last sum, if another may be asked."""
        asked = self._included[-1]
        if not self.may_ask_another:
            what = f"nobody worked out the parameters of round {len(self._broadcasts) + 1}"
            reason = f"{what} in time, after {self._turn + 1} clients were asked"
            return self._decide(Deadline, [Abort(reason)], self.plan.names)
        self._late.add(asked[self._turn])
        self._turn += 1
        return [Send(asked[self._turn], Turn(len(self._broadcasts) + 1)), *self._go_on(Deadline)]

    def _confirmed(self, sender: str, confirmation: Confirmation) -> list[Action]:
        self._agreed.check_confirmation(sender, confirmation)
        stored = self._confirmations.setdefault(sender, confirmation)
        if stored != confirmation:
            raise RemoteProtocolError(f"client {sender!r} sent two different confirmations")
        if self._relayed is not None:
            return [Send(sender, self._relayed)]
        return self._go_on(Confirmation)

    def _relay(self, event: type) -> list[Action]:
        n_confirmed = self._n_vouching(self._confirmations)
        if n_confirmed < self._needed:
            missing = missing_of(self._counted, self._confirmations)
            return self._abort(
                event,
                f"{n_confirmed} clients of the last round confirmed the result{missing}",
                self._needed,
            )
        said = self._confirmations
        confirmed = tuple(
            (name, said[name].mac, said[name].signature) for name in self._present if name in said
        )
        return self._decide(event, [Confirmations(confirmed)], self._present)

    def _check_restored(self, sealed: SealedKeys) -> None:
        """Raise unless one of those who answer the Deal made these keys, and had made none."""
        n_later = len(self._present) - 1 - len(sealed.ciphertexts)
        maker = self._present[n_later] if 0 <= n_later < len(self._present) else ""
        if maker not in self._speakers or maker in self._sealed:
            raise LocalProtocolError("nobody who was asked made these keys")
        self._agreed.check_sealed(maker, sealed)

    @property
    def _transcript_hash(self) -> bytes:
        """h_0 of the clients that share keys, once the dealer has answered."""
        dealt = self._sealed[self._present[0]]
        if dealt.commitment is None:
            raise LocalProtocolError("the keys of the dealer were not checked")
        return self._agreed.transcript(dealt.commitment)

    @property
    def _agreed(self) -> KeySet:
        """Who shares keys. Nothing asks before there is a Deal."""
        if self._key_set is None:
            raise LocalProtocolError("no Deal was decided on")
        return self._key_set

    def _abort(self, event: type, what: str, needed: int) -> list[Action]:
        why = "".join(f"client {name} left for good: " for name in list(self._gone)[-1:])
        return self._decide(
            event, [Abort(f"{why}{what}, and at least {needed} are needed")], self.plan.names
        )

    def _decide(
        self, event: type, messages: Sequence[Message], to: Sequence[str] = ()
    ) -> list[Action]:
        """Record what is decided and send it to these clients; it may end the run."""
        before = self.state
        for message in messages:
            following = self._state_after(message)
            if following not in SERVER_TRANSITIONS.get((before, event), ()):
                raise LocalProtocolError(
                    f"{event.__name__} does not lead from {before.value} to {following.value}"
                )
            self._apply(message)
        finish = [] if self.outcome is None else [Finish(self.outcome)]
        sends = [Send(name, message) for message in messages for name in to]
        return [*map(Record, messages), *sends, *finish, *self._go_on(Deadline)]

    def _state_after(self, message: Message) -> ServerState:
        """The state that a decision leads to; LocalProtocolError if it cannot be made in the
        present state.
        """
        m, following = self.plan.mechanism, len(self._broadcasts) + 1
        match self.state, message:
            case ServerState.JOINING | ServerState.DEALING | ServerState.AGREEING, Deal():
                return ServerState.DEALING
            case ServerState.DEALING, SealedKeys(deal) if deal == self._agreed.digest:
                is_last = len(self._sealed) + 1 == len(self._speakers)
                return ServerState.AGREEING if is_last else ServerState.DEALING
            case ServerState.AGREEING, AllReady(deal) if deal == self._agreed.digest:
                return ServerState.AGGREGATING
            case ServerState.AGGREGATING, Broadcast(number) if number == following:
                if m.travelling_bytes(number - 1):
                    return ServerState.SETTLING
                return ServerState.CONFIRMING if number == m.n_rounds else ServerState.AGGREGATING
            case ServerState.SETTLING, Parameters(number) if number == following:
                return ServerState.CONFIRMING if number > m.n_rounds else ServerState.AGGREGATING
            case ServerState.CONFIRMING, Confirmations():
                return ServerState.FINISHED
            case ServerState.FINISHED | ServerState.ABORTED, _:
                raise LocalProtocolError(f"the run was {self.state.value} before")
            case _, Abort():
                return ServerState.ABORTED
        raise LocalProtocolError(f"a server that is {self.state.value} does not decide it")

    def _apply(self, message: Message) -> None:
        """What a decision means for this server, when it is made or when it is read again after a
        restart.
        """
        self.state = self._state_after(message)
        match message:
            case Deal():
                self._key_set, self._sealed = KeySet(self._roster, message), {}
                self._beginning = message.beginning
                self._ready = {}
                self._hellos |= self._key_set.hellos
            case SealedKeys():
                self._sealed[self._agreed.maker(message)] = message
            case AllReady():
                self._all_ready, self._ready = message, {}
            case Broadcast():
                included = tuple(message.included(self.plan.names))
                self._broadcasts.append(message)
                self._included = (*self._included, included)
                self._late.update(set(self._present).difference(included))
                self._uploads, self._total = {}, None
                self._turn = 0
            case Parameters():
                self._parameters[message.round] = message
            case Confirmations():
                self._relayed = message
                self._confirmations |= {
                    name: Confirmation(mac, signature) for name, mac, signature in message.confirmed
                }
                self.outcome = ServerResult(included=self._included)
            case Abort():
                self._uploads, self._total = {}, None
                self.outcome = ServerResult(included=self._included, reason=message.reason)

    def _check_names(self, message: Message) -> None:
        """Raise unless the clients that a decision names are some that it may name, and enough."""
        match message:
            case Deal():
                following = KeySet(self._roster, message)
                if self._key_set is not None and not following.follows(self._key_set):
                    raise LocalProtocolError("it does not name fewer than the one before")
            case SealedKeys():
                self._check_restored(message)
            case AllReady():
                self._agreed.check_all_ready(message, self._transcript_hash)
            case Broadcast():
                self._roster.check_members(
                    "it", list(message.included(self.plan.names)), self._present, self._needed
                )
            case Parameters():
                self._roster.check_members("it", [message.client], self._present, 0)
            case Confirmations():
                confirmed = [name for name, _, _ in message.confirmed]
                self._roster.check_members("it", confirmed, self._present, self._needed)
                if self._n_vouching(confirmed) < self._needed:
                    raise LocalProtocolError("it names too few clients of the last round")


# a dataclass leaves the default on the class, where it would look like an attribute
del ServerSession.random_bytes  # type: ignore[attr-defined]
