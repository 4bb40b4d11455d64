"""The rounds of one client, from the first query to the confirmed result: noised, masked and
unmasked.

The calls are those of `mechanisms/central.run`, one per message. What a client sends is chosen by
`say`, and made by `upload`, `propose` and `confirm`.
"""

from collections.abc import Callable
from dataclasses import InitVar, dataclass

from fastlloyd.dp.noise import NoiseSource
from fastlloyd.errors import LocalProtocolError, OverflowRisk, RemoteProtocolError
from fastlloyd.federation.plan.plan import Plan
from fastlloyd.federation.protocol.actions import ClientResult, Keep, Unfinished
from fastlloyd.federation.protocol.client_phases import not_handled, not_said
from fastlloyd.federation.protocol.joining import SharedKeys
from fastlloyd.federation.protocol.masked_round import (
    MaskedRound,
    Plausible,
    extend_transcript,
)
from fastlloyd.federation.protocol.messages import (
    Broadcast,
    Confirmation,
    Confirmations,
    Deal,
    KeyBox,
    Message,
    Parameters,
    Proposal,
    Turn,
    Upload,
)
from fastlloyd.federation.protocol.roster import Roster
from fastlloyd.federation.protocol.transitions import ClientState
from fastlloyd.federation.secagg.keys import Ending
from fastlloyd.federation.secagg.masks import UPLOAD_NONCE_BYTES, MaskContext, RoundContext
from fastlloyd.federation.secagg.sealing import SALT_BYTES, open_parameters, seal_parameters
from fastlloyd.mechanisms.answering import CappedRecords
from fastlloyd.mechanisms.doubt import is_doubtful
from fastlloyd.mechanisms.private_run import AnyRun, Found
from fastlloyd.mechanisms.rounds import Answer, AnswerNoise


@dataclass(eq=False, repr=False)
class ClientRounds:
    """A client's part of a run once it shares keys with the others.

    In each round `say` (or `recall`) is called once, for the upload, then `take` with the sum;
    where the next query needs parameters, `take` follows with these, and before it `say` (or
    `recall`) if this client works them out.
    """

    plan: Plan
    roster: Roster
    name: str
    records: InitVar[CappedRecords]
    keys: InitVar[SharedKeys]
    noise: InitVar[NoiseSource]
    random_bytes: InitVar[Callable[[int], bytes]]

    def __post_init__(
        self,
        records: CappedRecords,
        keys: SharedKeys,
        noise: NoiseSource,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        plan, present = self.plan, keys.key_set.names
        self._records, self._keys, self._noise, self._random_bytes = (
            records,
            keys,
            noise,
            random_bytes,
        )
        caps = {client.name: client.max_records for client in plan.clients}
        self._caps = {name: caps[name] for name in present}
        self._n_present, self._quorum = len(present), plan.quorum(len(present))
        self._plausible = Plausible.of(plan)
        self._transcript_hash = keys.transcript_hash
        self._included: list[tuple[str, ...]] = []
        self._doubtful: list[int] = []
        self._nonce = b""
        self._proposed = False
        self._mechanism: AnyRun = plan.mechanism
        self._state = self._mechanism.start()
        self._awaiting: tuple[Answer, AnswerNoise] | None = (
            None  # opened, and the state after it has not come yet
        )
        self._enter_round()

    @property
    def number(self) -> int:
        """The round that is open, from 1, that of the loss being the last; one more than there are
        when all are done.
        """
        return len(self._included) + 1

    @property
    def state(self) -> ClientState:
        """What the client waits for: parameters, the sum of the open round or, after the last
        round, confirmations.
        """
        if self._awaiting is not None:
            return ClientState.SETTLING
        return (
            ClientState.CONFIRMING
            if self.number > self._mechanism.n_rounds
            else ClientState.AGGREGATING
        )

    def say(self) -> Upload | Proposal | Confirmation:
        """Make what the client sends in the state that it just entered; to be called once."""
        match self.state:
            case ClientState.AGGREGATING:
                return self.upload()
            case ClientState.SETTLING:
                return self.propose()
            case _:
                return self.confirm()

    def recall(self, said: Message) -> None:
        """Take what was said before a restart in place of what `say` would make."""
        match self.state, said:
            case ClientState.AGGREGATING, Upload(nonce=nonce):
                self._check_recalled(said)
                self._nonce = nonce
            case ClientState.SETTLING, Proposal():
                self._check_recalled(said)
                self._proposed = True
            case ClientState.CONFIRMING, Confirmation() if said == self.confirm():
                pass
            case _:
                raise not_said(self.state)

    def take(self, message: Message) -> None:
        """Go on from a sum, parameters, or a client's turn to work them out; RemoteProtocolError if
        it is refused.
        """
        match message:
            case Broadcast():
                self.open(message)
            case Parameters():
                self.settle(message)
            case Turn():
                pass
            case _:
                raise not_handled(message, self.state)

    def speaks_after(self, message: Message) -> bool:
        """Return whether the client answers this message: all but sums after which another client
        works out the parameters, the first one in that sum.
        """
        is_first = bool(self._included) and self._included[-1][0] == self.name
        is_asked = isinstance(message, Turn) or is_first
        return self.state is not ClientState.SETTLING or is_asked

    def is_late(self, message: Message) -> bool:
        """Return whether this was sent before keys were shared: nothing follows from it."""
        return isinstance(message, Deal | KeyBox)

    def is_early(self, message: Message) -> bool:
        """Return whether this belongs to a later step, so that something before it was lost."""
        match message:
            case Broadcast():
                first = self.number + (self.state is not ClientState.SETTLING)
                return first <= message.round <= self.plan.mechanism.n_rounds
            case Parameters():
                return self.number < message.round
            case Turn():
                # or late, or answered: what was said last is the answer to all three
                is_awaited = self._awaiting is not None and message.round == self.number
                return not is_awaited or self._proposed
            case Confirmations():
                return self.state is not ClientState.CONFIRMING
        return False

    def keep(self) -> list[Keep]:
        """Return the secrets made since the last call: none, once keys are shared."""
        return []

    @property
    def last_included(self) -> int:
        """The last round that was opened whose sum holds this client's answer; 0 if there is
        none.
        """
        return max(
            (number for number, names in enumerate(self._included, 1) if self.name in names),
            default=0,
        )

    def upload(self) -> Upload:
        """The client's exact answer plus its share of the noise, masked. Draws noise: to be called
        once per round.
        """
        round = self._mechanism.all_rounds[self.number - 1]
        values = self._records.answer(self._query) + self.plan.draw_client_noise(
            round, self._noise, self._n_present
        )
        self._nonce = self._random_bytes(UPLOAD_NONCE_BYTES)
        return Upload(self.number, self._nonce, self._masked.hide(values, self.name, self._nonce))

    def _check_recalled(self, said: Upload | Proposal) -> None:
        if said.round != self.number:
            raise LocalProtocolError(
                f"{type(said).__name__} of round {said.round} stands where that of round"
                f" {self.number} belongs"
            )

    def included_in(self, broadcast: Broadcast) -> dict[str, bytes]:
        """The clients whose uploads are in the sum, with their nonces; RemoteProtocolError if it is
        not the awaited sum.

        As far as can be told without opening it.
        """
        what = f"the broadcast of round {broadcast.round}"
        if broadcast.round != self.number or self._awaiting is not None:
            raise RemoteProtocolError(
                f"{what} is neither that of the open round, {self.number}, nor one that came before"
            )
        included = broadcast.included(self.roster.names)
        self.roster.check_members(what, list(included), self._caps, self._quorum.needed)
        if included.get(self.name, self._nonce) != self._nonce:
            raise RemoteProtocolError(
                f"{what} names an upload of client {self.name!r} that it did not make"
            )
        return included

    def open(self, broadcast: Broadcast) -> None:
        """Unmask the sum and go on, unless the next state travels. RemoteProtocolError if it is not
        the sum that is awaited.
        """
        included, index = self.included_in(broadcast), self.number - 1
        round = self._mechanism.all_rounds[index]
        total = self._masked.open(broadcast.payload, included, self.plan.n_words(round))
        answer = total.reshape(self._mechanism.shape(round))
        capped = sum(map(self._caps.__getitem__, included))
        n_records = min(capped, self._mechanism.n_records)  # less only in a simulation
        self._plausible.check(answer, n_records, self.number)
        self._included.append(tuple(included))
        self._transcript_hash = extend_transcript(self._transcript_hash, broadcast)
        n_first = sum(map(self._caps.__getitem__, self._included[0]))
        share = capped / n_first if n_first else 1.0  # caps may be 0
        noise = AnswerNoise(deviations=self.plan.deviations(round, len(included)), share=share)
        if is_doubtful(
            self._mechanism, round, answer, n_records, noise, self.plan.n_draws(len(included))
        ):
            self._doubtful.append(index + 1)
        if self._mechanism.travelling_bytes(index):
            self._awaiting = answer, noise
        else:
            self._state = self._mechanism.advance(index, self._state, answer, noise)
            self._enter_round()

    def propose(self) -> Proposal:
        """Work out the parameters of the next query and seal them. Draws bytes: to be called once
        per round.
        """
        if self._awaiting is None:
            raise LocalProtocolError("no answer has come from which parameters could follow")
        m, index = self._mechanism, self.number - 2
        data = m.write_state(index, m.advance(index, self._state, *self._awaiting))
        salt = self._random_bytes(SALT_BYTES)
        box = seal_parameters(self._keys.group_key, self._context(), self.name, salt, data)
        self._proposed = True
        signature = self._keys.own.sign(
            self._keys.key_set.proposal(self.name, self.number, salt, box)
        )
        return Proposal(self.number, salt, box, signature)

    def settle(self, parameters: Parameters) -> None:
        """Go on from the parameters that the server stored, whoever worked them out; they are
        settled once and for all.
        """
        if parameters.round != self.number or self._awaiting is None:
            raise RemoteProtocolError(
                f"parameters for round {parameters.round} came when none were awaited for it; what"
                " was settled stays settled"
            )
        self.roster.check_members(
            "who worked out the parameters", [parameters.client], self._caps, 0
        )
        self._keys.key_set.check_parameters(parameters)
        client, salt, box = parameters.client, parameters.salt, parameters.box
        plain = open_parameters(self._keys.group_key, self._context(), client, salt, box)
        try:
            self._state = self._mechanism.read_state(
                self.number - 2, self._state, *self._awaiting, plain
            )
        except OverflowRisk as error:
            raise RemoteProtocolError(
                f"the parameters that client {parameters.client!r} worked out are refused: {error}"
            ) from None
        self._transcript_hash = extend_transcript(self._transcript_hash, parameters)
        self._proposed, self._awaiting = False, None
        self._enter_round()

    def confirm(self) -> Confirmation:
        """The client's word on the transcript and on what it ended with."""
        mac = self._ending(self._found()).confirmation(self.name)
        return Confirmation(
            mac, self._keys.own.sign(self._keys.key_set.confirmation(self.name, mac))
        )

    def conclude(self, confirmations: Confirmations) -> ClientResult:
        """The result, once enough of the last round's clients ended with the same and nobody with
        another.

        Two groups that a lying server leads to different results cannot both be that large; see
        `Masks.quorum` for when.
        """
        found, last = self._found(), self._included[-1]
        names = [name for name, _, _ in confirmations.confirmed]
        self.roster.check_members("the list of confirmations", names, self._caps, 0)
        for name, mac, signature in confirmations.confirmed:
            self._keys.key_set.check_confirmation(name, Confirmation(mac, signature))
        if others := self._ending(found).differing(
            {name: mac for name, mac, _ in confirmations.confirmed}
        ):
            raise RemoteProtocolError(
                f"client {others[0]!r} ended the run with other messages or other centroids; do not"
                " use them"
            )
        confirmed = {self.name, *names}
        unconfirmed = tuple(name for name in last if name not in confirmed)
        if len(last) - len(unconfirmed) < (needed := self._quorum.confirmations):
            raise RemoteProtocolError(
                f"{len(last) - len(unconfirmed)} clients of the last round confirmed the result; at"
                f" least {needed} are needed"
            )
        included, doubtful = tuple(self._included), tuple(self._doubtful)
        return ClientResult(
            found=found, included=included, unconfirmed=unconfirmed, doubtful=doubtful
        )

    def unfinished(self) -> Unfinished | None:
        """What the rounds so far have led to; None without centroids. A sum whose parameters never
        came does not count.
        """
        settled = self._included[: len(self._included) - (self._awaiting is not None)]
        centroids = self._mechanism.centroids(len(settled), self._state) if settled else None
        if centroids is None:
            return None
        doubtful = tuple(number for number in self._doubtful if number <= len(settled))
        return Unfinished(centroids=centroids, included=tuple(settled), doubtful=doubtful)

    def _found(self) -> Found:
        if self.state is not ClientState.CONFIRMING:
            raise LocalProtocolError(
                "a client confirms its result after the last round, not before"
            )
        found: Found = self._mechanism.result(self._state)
        return found

    def _ending(self, found: Found) -> Ending:
        return Ending(self._keys.group_key, self._context(), found.digest)

    def _context(self) -> RoundContext:
        return RoundContext(
            plan_digest=self.roster.plan_digest,
            run_id=self.roster.run_id,
            round=self.number,
            transcript_hash=self._transcript_hash,
        )

    def _enter_round(self) -> None:
        """Turn to the next query, if there is one."""
        if self.state is ClientState.CONFIRMING:
            return
        self._query = query = self._mechanism.query(self.number - 1, self._state)
        context = MaskContext(
            plan_digest=self.roster.plan_digest,
            run_id=self.roster.run_id,
            round=self.number,
            transcript_hash=self._transcript_hash,
            centroids_digest=query.digest,
        )
        self._masked = MaskedRound(self._keys.masks, context, self.plan.ring)
